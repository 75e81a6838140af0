import { type Bytes, concatBytes } from "../../src/base/bytes.ts";
import { encodeBase64Url, encodeUtf8 } from "../../src/base/text.ts";
import { deriveWrappingKeys } from "../../src/formats/aerovault/keys.ts";
import { deriveKeys2, headerMac2, V2_LABELS, type Vault2Keys } from "../../src/formats/aerovault2/keys.ts";
import {
  CASCADE_FLAG,
  MAC_OFFSET,
  type Vault2HeaderValues,
  vault2Header,
} from "../../src/formats/aerovault2/layout.ts";
import { SIV_COMPONENTS } from "../../src/formats/aerovault2/manifest.ts";
import type { AesSivKey } from "../../src/primitives/cipher/aes-siv.ts";
import type { Engine } from "../../src/primitives/engine.ts";
import { VAULT_PASSWORD } from "./crafted-vault.ts";
import { countingRandom, quickEngine } from "./sealed-apr.ts";

/** A name or the manifest as the reference stores it. */
export function sealText(key: AesSivKey, plain: Bytes): string {
  return encodeBase64Url(key.seal(plain, SIV_COMPONENTS));
}

/** A file by the chunks it consists of; a directory has none. */
export interface Crafted2File {
  readonly path: string;
  readonly chunks?: readonly Bytes[];
  readonly type?: "directory";
  /** "unbound" as before file ids: chunks know their index alone. */
  readonly binding?: "unbound";
  /** Shares the chunks of the file of this path. */
  readonly copyOf?: string;
}

/** A row as it is written. */
export type Row2 = Record<string, unknown>;

export interface Craft2Options {
  readonly engine?: Engine;
  readonly layers?: "one" | "two";
  readonly chunkSize?: number;
  readonly revision?: number;
  readonly password?: string;
  /** Applied to the rows before the manifest is encrypted. */
  readonly rows?: (rows: Row2[]) => unknown;
  readonly text?: (json: string) => string;
  /** Applied to the header before its MAC is made. */
  readonly header?: (header: Vault2HeaderValues) => Vault2HeaderValues;
  /** Applied to the data section. */
  readonly data?: (data: Bytes) => Bytes;
}

const TIME = "2023-11-14T22:30:00Z";

/** A whole vault of version 2, with exactly these chunks. */
export async function craftVault2(files: readonly Crafted2File[], options: Craft2Options = {}): Promise<Bytes> {
  const { engine = quickEngine(), layers = "one", chunkSize = 4096, revision = 3 } = options;
  const random = countingRandom();
  const [master, mac, salt] = [random(32), random(32), random(32)];
  const flags = layers === "two" ? CASCADE_FLAG : 0;
  const keys = await deriveKeys2(engine, master, flags);
  const { rows, data } = sealFiles(files, keys, random);
  const json = JSON.stringify({ created: TIME, modified: TIME, entries: options.rows?.(rows) ?? rows });
  const manifest = encodeUtf8(sealText(keys.names, encodeUtf8(options.text?.(json) ?? json)));
  const password = encodeUtf8(options.password ?? VAULT_PASSWORD);
  const wrapping = await deriveWrappingKeys(engine, password, salt, { labels: V2_LABELS });
  const aes = await engine.aes();
  const values: Vault2HeaderValues = {
    revision,
    flags,
    salt,
    wrappedMasterKey: await aes.wrapKey(wrapping.master, master),
    wrappedMacKey: await aes.wrapKey(wrapping.mac, mac),
    chunkSize,
  };
  const header = vault2Header.encode(options.header?.(values) ?? values);
  header.set(await headerMac2(engine, mac, header), MAC_OFFSET);
  const length = new Uint8Array(4);
  new DataView(length.buffer).setUint32(0, manifest.byteLength, true);
  return concatBytes([header, length, manifest, options.data?.(data) ?? data]);
}

function sealFiles(
  files: readonly Crafted2File[],
  keys: Vault2Keys,
  random: (byteLength: number) => Bytes,
): { readonly rows: Row2[]; readonly data: Bytes } {
  const blocks: Bytes[] = [];
  const rows: Row2[] = [];
  const places = new Map<string, Row2>();
  let offset = 0;
  for (const { path, chunks = [], type, binding, copyOf } of files) {
    const fileId = binding === "unbound" ? undefined : random(16);
    const row: Row2 = {
      encrypted_name: sealText(keys.names, encodeUtf8(path)),
      size: chunks.reduce((sum, chunk) => sum + chunk.byteLength, 0),
      offset,
      chunk_count: chunks.length,
      ...(fileId === undefined ? {} : { file_id: [...fileId] }),
      is_dir: type === "directory",
      modified: TIME,
    };
    const original = copyOf === undefined ? undefined : places.get(copyOf);
    rows.push(original === undefined ? row : { ...original, encrypted_name: row["encrypted_name"] });
    places.set(path, row);
    for (const [index, chunk] of chunks.entries()) {
      const blob = keys.chunks.seal(chunk, { index, count: chunks.length, fileId }, () => random(12));
      const prefix = new Uint8Array(4);
      new DataView(prefix.buffer).setUint32(0, blob.byteLength, true);
      blocks.push(prefix, blob);
      offset += prefix.byteLength + blob.byteLength;
    }
  }
  return { rows, data: concatBytes(blocks) };
}
