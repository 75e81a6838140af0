import { FORMATS } from "../src/formats/registry.ts";

/**
 * What is loaded together, first what others stand on: a group takes along what it imports, unless an earlier one has it.
 * A file of its own costs a request and a dictionary that gzip learns anew, so there are few; but what an overview needs is
 * apart from what only pages and checks need, and no format loads another one's code.
 */
export const VIEWER_GROUPS: readonly (readonly [name: string, test: RegExp])[] = [
  // What the page itself needs of the library.
  ["base", files("base/errors", "bytes/inner-path", "reader/inheriting-script")],
  ["shell", files("main")],
  // What opening takes, whatever the format: in one piece, although not every format hashes or reads JSON.
  [
    "core",
    files(
      "reader/reader",
      "base/(?:bytes|hex|integers|limits|text|base64)",
      "struct/(?:layout|field|flags|strict-json|json-scanner)",
      "bytes/(?:extents|slice|memory|headed|read-guard|failing-source|blob|delegating|relative-name|lazy-source|until-aborted|metered|http-url)",
      "model/(?:metadata|finding|model)",
      "formats/(?:registry|[a-z0-9]+/(?:known|sniff|detect))",
      "primitives/(?:portable|digest/(?:implementation|blake3|blake3-wasm|crc32-wasm))",
    ),
  ],
  ["tensors", files("model/(?:tensor|dtype|shape|origin-key|json-number)", "base/name-set")],
  ["cursor", files("struct/cursor")],
  // What pages and the reader both look into, apart from either: neither may run the other's script.
  ["both", files("reader/(?:layout-kinds|planes)", "model/block-fields", "operations/select")],
  ["packed", files("primitives/encoding/.*", "primitives/compress/zstd(?:-frame|-wasm)?")],
  ["assembled", files("bytes/assembled")],
  ["writer", files("struct/byte-writer")],
  ["workers", files("primitives/(?:range|extents)", "platform/web/engine")],
  [
    "vault-keys",
    files(
      "formats/(?:aerovault/(?:field-reader|keys|paths|unlock)|legacy-paths)",
      "model/entry-index",
      "primitives/crypto/(?:hmac|aes|gcm-siv)",
    ),
  ],
  [
    "locks",
    files(
      "primitives/crypto/(?:aes-webcrypto|argon2-wasm|gcm-siv-wasm|sha512-javascript)",
      "primitives/digest/sha256.*",
    ),
  ],
  ["vault1-locks", files("primitives/crypto/(?:pbkdf2.*|sha1.*)", "primitives/compress/inflate.*")],
  [
    "vault2-locks",
    files("primitives/crypto/(?:aes-siv|chacha20-poly1305|chacha20-poly1305-javascript|aes-blocks|cipher-blocks)"),
  ],
  ["plain-locks", files("primitives/crypto/.*")],
  ["plain-zstd", files("primitives/compress/zstd.*")],
  ["lz4", files("primitives/compress/lz4.*")],
  ["views", files("model/(?:transposed-tensor|bert/vocabulary)")],
  ["values", files("model/(?:values|tensor-values|cast|even-tensor)")],
  ["address", files("reader/open-url")],
  ...FORMATS.map(({ id }) => [id, files(`formats/${id}/format`)] as const),
  ["apr-others", files("formats/apr/(?:wild|seal|spec)/(?:open|unsealer|open-manifest)")],
  ["parity", files("formats/aerovault/manifest-parity", "primitives/erasure/.*")],
  ["work", files("reader/(?!sentences|worker).*")],
  ["embedding", files("reader/sentences", "workers/embed-group")],
  ["pages", files("views/.*")],
  ...FORMATS.map(({ id }) => [`${id}-checks`, files(`formats/${id}/(?:verify|fields)`)] as const),
  ["left-out", /\?left-out$/],
];

/** Files by their paths below `src/` or `viewer/`, without the ending. */
function files(...paths: readonly string[]): RegExp {
  return new RegExp(`/(?:src|viewer)/(?:${paths.join("|")})[.]tsx?$`);
}
