import { type Bytes, concatBytes } from "../../src/base/bytes.ts";
import { encodeHex, encodeUtf8 } from "../../src/base/text.ts";
import { encodePrefix, VaultCipher } from "../../src/formats/aerovault/cipher.ts";
import { type ExtensionRow, encodeDirectory } from "../../src/formats/aerovault/extensions/rows.ts";
import { EMPTY_SLOTS, headerMac, type Lane, makeKeys, plainKeys, wrapKeys } from "../../src/formats/aerovault/keys.ts";
import {
  HEADER_BYTES,
  type HeaderValues,
  PLAINTEXT_FLAG,
  vaultHeader,
  withMac,
} from "../../src/formats/aerovault/layout.ts";
import { encodeManifest } from "../../src/formats/aerovault/manifest/codec.ts";
import { NO_EXTRA_KEYS } from "../../src/formats/aerovault/manifest/field-reader.ts";
import {
  type ChunkRecord,
  DEFAULT_BOUNDS,
  entryList,
  type Manifest,
  type ManifestEntry,
  type WrapperRecord,
} from "../../src/formats/aerovault/manifest/records.ts";
import type { Engine } from "../../src/primitives/engine.ts";
import { countingRandom, quickEngine } from "./sealed-apr.ts";

/** The password of every vault that is crafted here. */
export const VAULT_PASSWORD = "a password of tests";

/** A file by the chunks it consists of; a directory has none. */
export interface CraftedFile {
  readonly path: string;
  readonly chunks?: readonly Bytes[];
  readonly size?: number;
  readonly packOffset?: number;
  readonly type?: "directory";
}

export interface CraftOptions {
  readonly lane?: Lane;
  readonly engine?: Engine;
  /** Applied to the manifest before it is encrypted: what a wrong or hostile writer would do. */
  readonly manifest?: (manifest: Manifest) => Manifest;
  /** Applied to the manifest's text. */
  readonly text?: (json: string) => string;
  /** Applied to the header before its MAC is made. */
  readonly header?: (header: HeaderValues) => HeaderValues;
  /** Which chunks are compressed; all others are stored raw. */
  readonly compress?: (chunk: Bytes) => boolean;
  readonly extensions?: readonly ExtensionRow[];
  readonly payload?: Bytes;
}

const TIME = "2026-06-17T00:00:00Z";

/** A whole vault with exactly these chunks, whatever a writer would have made of them. Equal chunks are stored once. */
export async function craftVault(files: readonly CraftedFile[], options: CraftOptions = {}): Promise<Bytes> {
  const { lane = "encrypted", engine = quickEngine() } = options;
  const random = countingRandom();
  const keys = lane === "plain" ? plainKeys() : await makeKeys(engine, random);
  const cipher = await VaultCipher.create(engine, keys);
  const store = new BlockWriter(engine, cipher, options.compress ?? (() => false));
  const entries: ManifestEntry[] = [];
  for (const file of files) entries.push(await entryOf(file, store));
  const manifest = { ...emptyManifest(lane), entries: entryList(entries), chunks: store.records };
  const json = new TextDecoder().decode(encodeManifest(options.manifest?.(manifest) ?? manifest));
  const blob = cipher.sealManifest(encodeUtf8(options.text?.(json) ?? json), () => random(12));
  const slots =
    lane === "plain" ? EMPTY_SLOTS : await wrapKeys(engine, keys, encodeUtf8(VAULT_PASSWORD), { salt: random(32) });
  const data = concatBytes(store.blocks);
  const directory = encodeDirectory(options.extensions ?? []);
  const payload = options.payload ?? new Uint8Array(0);
  const manifestOffset = HEADER_BYTES + data.byteLength;
  const values: HeaderValues = {
    ...slots,
    flags: lane === "plain" ? PLAINTEXT_FLAG : 0,
    dataLength: data.byteLength,
    manifestOffset,
    manifestLength: blob.byteLength,
    extensionDirectoryOffset: manifestOffset + blob.byteLength,
    extensionDirectoryLength: directory.byteLength,
    extensionPayloadOffset: manifestOffset + blob.byteLength + directory.byteLength,
    extensionPayloadLength: payload.byteLength,
  };
  const header = vaultHeader.encode(options.header?.(values) ?? values);
  const mac = await headerMac(engine, keys.mac, header);
  return concatBytes([withMac(header, mac), data, blob, directory, payload]);
}

/** A manifest without entries, as a new vault has it. */
export function emptyManifest(lane: Lane): Manifest {
  const wrapper = (algorithmId: string, rest: Partial<WrapperRecord> = {}): WrapperRecord => {
    return { algorithmId, algorithmVersion: 1, extra: NO_EXTRA_KEYS, ...rest };
  };
  return {
    created: TIME,
    modified: TIME,
    wrappers: {
      packing: wrapper("small-file-batching"),
      chunking: wrapper("gear-cdc", { bounds: DEFAULT_BOUNDS }),
      chunk_id: wrapper("blake3-keyed-128"),
      compression: wrapper("zstd", { level: 9 }),
      crypt: wrapper(lane === "plain" ? "none" : "aes-256-gcm-siv"),
      cipher_hash: wrapper("blake3-256"),
      extra: NO_EXTRA_KEYS,
    },
    entries: entryList([]),
    chunks: new Map(),
    extra: NO_EXTRA_KEYS,
  };
}

class BlockWriter {
  readonly records = new Map<string, ChunkRecord>();
  readonly blocks: Bytes[] = [];
  readonly #engine: Engine;
  readonly #cipher: VaultCipher;
  readonly #compress: (chunk: Bytes) => boolean;
  readonly #random = countingRandom();
  #dataOffset = 0;

  constructor(engine: Engine, cipher: VaultCipher, compress: (chunk: Bytes) => boolean) {
    this.#engine = engine;
    this.#cipher = cipher;
    this.#compress = compress;
  }

  async add(chunk: Bytes): Promise<string> {
    const id = this.#cipher.chunkId(chunk);
    if (this.records.has(id)) return id;
    const storedRaw = !this.#compress(chunk);
    const payload = storedRaw ? chunk : await this.#engine.zstdCompress(chunk, { level: 3 });
    const blockIndex = this.records.size;
    const block = this.#cipher.sealBlock(payload, { blockIndex, id }, () => this.#random(12));
    this.records.set(id, {
      id,
      blockIndex,
      dataOffset: this.#dataOffset,
      blockLen: block.byteLength,
      plaintextLen: chunk.byteLength,
      compressedLen: payload.byteLength,
      cipherHash: encodeHex(await this.#engine.digest("blake3", block)),
      storedRaw,
      extra: NO_EXTRA_KEYS,
    });
    this.blocks.push(encodePrefix(block.byteLength), block);
    this.#dataOffset += 8 + block.byteLength;
    return id;
  }
}

async function entryOf(file: CraftedFile, store: BlockWriter): Promise<ManifestEntry> {
  const { path, chunks = [], packOffset, type } = file;
  const ids: string[] = [];
  for (const chunk of chunks) ids.push(await store.add(chunk));
  const size = file.size ?? chunks.reduce((sum, chunk) => sum + chunk.byteLength, 0);
  return { path, size, modified: TIME, isDir: type === "directory", chunks: ids, packOffset, extra: NO_EXTRA_KEYS };
}
