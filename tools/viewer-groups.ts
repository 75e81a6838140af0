import { FORMATS } from "../src/formats/registry.ts";

/** What a format imports when it is asked for more than an overview, or for that of a large file. */
const AFTER_OPENING = [
  "verify",
  "fields",
  "part-tensors",
  "read-pages",
  "hashed-tensor",
  "chunk-frames",
  "entry-storage",
  "quick-reading",
];

/** Formats whose checks are shorter than what a file of their own costs. */
const WITH_CHECKS: readonly string[] = ["onnx", "safetensors", "gguf"];

/**
 * What is loaded together, first what others stand on: a group takes along what it imports, unless an earlier one has it.
 * A file of its own costs a request and a dictionary that gzip learns anew, so there are few; but what an overview needs is
 * apart from what only pages and checks need, and no format loads another one's code.
 */
export const VIEWER_GROUPS: readonly (readonly [name: string, test: RegExp])[] = [
  // What the page itself needs of the library, and what takes the place of what is left out.
  [
    "base",
    either(files("base/errors", "bytes/inner-path", "reader/inheriting-script"), /\?left-out$|rolldown.runtime/),
  ],
  ["shell", files("main")],
  // What opening takes, whatever the format: in one piece, although not every format hashes or reads JSON.
  [
    "core",
    files(
      "reader/reader",
      "base/(?:bytes|hex|integers|limits|text|base64)",
      "struct/(?:layout|field|flags|strict-json|json-scanner)",
      "bytes/(?:extents|pass-on|slice|memory|headed|read-guard|failing-source|delegating|relative-name|resolver|lazy-source|until-aborted|metered|http-url)",
      "model/(?:metadata|finding|model)",
      "formats/(?:registry|[a-z0-9]+/(?:known|magic)|(?!onnx)[a-z0-9]+/sniff)",
      "primitives/(?:portable|digest/(?:implementation|blake3|blake3-wasm|crc32-wasm))",
    ),
  ],
  ["tensors", files("model/(?:tensor|dtype|shape|origin-key|json-number)", "base/name-set")],
  ["cursor", files("struct/(?:cursor|byte-writer)")],
  // What pages and the reader both look into, apart from either: neither may run the other's script.
  ["both", files("reader/(?:layout-kinds|planes)", "model/block-fields", "operations/select")],
  ["packed", files("primitives/encoding/.*", "primitives/compress/zstd(?:-frame|-wasm)?")],
  [
    "workers",
    files(
      "primitives/(?:range|extents|digest/blake3-subtrees)",
      "platform/web/engine",
      "workers/(?:digest|extents)-split",
    ),
  ],
  [
    "locks",
    files("primitives/crypto/(?:hmac|aes|aes-webcrypto|argon2-wasm|sha512-javascript)", "primitives/digest/sha256.*"),
  ],
  [
    "vault-locks",
    files(
      "primitives/crypto/(?:gcm-siv|gcm-siv-wasm)",
      "formats/(?:aerovault/(?:field-reader|keys|paths|unlock)|legacy-paths)",
      "model/(?:entry-index|archive-resolver)",
    ),
  ],
  [
    "older-locks",
    files(
      "primitives/crypto/(?:aes-siv|aes-blocks|cipher-blocks|chacha20-poly1305.*|pbkdf2|pbkdf2-webcrypto|sha1-javascript)",
    ),
  ],
  ["inflate", files("primitives/compress/inflate.*")],
  // What WebAssembly or the browser does, once more: for frames that they refuse, and for pages without WebCrypto.
  ["plain", files("primitives/crypto/.*", "primitives/compress/(?:zstd|lz4).*")],
  [
    "values",
    files("model/(?:values|tensor-values|cast|even-tensor|transposed-tensor|bert/vocabulary)", "bytes/assembled"),
  ],
  ["chosen", files("reader/chosen-files")],
  ["first-address", files("reader/open-url")],
  ["address", files("reader/open-address")],
  ...FORMATS.map(({ id }) => [id, files(`formats/${id}/(?:${atOpening(id).join("|")})`)] as const),
  ["apr-wild", files("formats/apr/wild/(?:open|layout|read-region)")],
  ["apr-stored", files("formats/apr/wild/(?:stored-tensors|dtypes)")],
  ...["aprender", "whisper", "aprn", "wrapper"].map((id) => [`apr-${id}`, files(`formats/apr/wild/${id}`)] as const),
  ["apr-sealed", files("formats/apr/seal/unsealer")],
  ["apr-set", files("formats/apr/spec/open-manifest")],
  ["parity", files("formats/aerovault/manifest-parity", "primitives/erasure/.*")],
  ["work", files("reader/(?!sentences|worker).*")],
  ["embedding", files("reader/sentences", "workers/embed-group")],
  ["pages", files("views/.*")],
  // Both are short.
  ["older-checks", files(`formats/aerovault[12]/(?:${AFTER_OPENING.join("|")})`)],
  ...FORMATS.map(({ id }) => [`${id}-checks`, files(`formats/${id}/(?:${AFTER_OPENING.join("|")})`)] as const),
];

function atOpening(id: string): readonly string[] {
  return ["format", "plain-manifest", "sniff", ...(WITH_CHECKS.includes(id) ? AFTER_OPENING : [])];
}

/** Files by their paths below `src/` or `viewer/`, without the ending. */
function files(...paths: readonly string[]): RegExp {
  return new RegExp(`/(?:src|viewer)/(?:${paths.join("|")})[.]tsx?$`);
}

function either(...tests: readonly RegExp[]): RegExp {
  return new RegExp(tests.map(({ source }) => source).join("|"));
}
