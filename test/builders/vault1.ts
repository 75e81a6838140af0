import { deflateRawSync, crc32 as nodeCrc32 } from "node:zlib";
import { type Bytes, concatBytes } from "../../src/base/bytes.ts";
import { encodeUtf8 } from "../../src/base/text.ts";
import { applyWinzip, deriveEntryKeys } from "../../src/formats/aerovault1/winzip-aes.ts";
import { createHmac } from "../../src/primitives/crypto/hmac.ts";
import type { Engine } from "../../src/primitives/engine.ts";
import { VAULT_PASSWORD } from "./crafted-vault.ts";
import { countingRandom, quickEngine } from "./sealed-apr.ts";

/** Numbers of a local header or a directory row, by which a hostile writer lies. */
export interface ZipNumbers {
  readonly flags: number;
  readonly method: number;
  readonly crc: number;
  readonly compressedSize: number;
  readonly size: number;
  readonly localOffset: number;
  readonly externalAttributes: number;
  readonly madeBy: number;
  readonly date: number;
  readonly time: number;
}

export interface Crafted1File {
  readonly path: string;
  readonly bytes?: Bytes;
  readonly compress?: "stored" | "deflated";
  /** AE-1 keeps a CRC. */
  readonly version?: 1 | 2;
  /** What is encrypted instead of the compressed bytes. */
  readonly payload?: Bytes;
  /** Extra fields beside WinZip's. */
  readonly extra?: Bytes;
  readonly aes?: Bytes;
  readonly central?: Partial<ZipNumbers>;
  readonly local?: Partial<ZipNumbers> & { readonly name?: string };
  /** Changes the stored bytes: salt, verifier, ciphertext, HMAC. */
  readonly damage?: (payload: Bytes) => Bytes;
  /** Method 0 without encryption. */
  readonly plain?: "plain";
}

export interface Craft1Options {
  readonly engine?: Engine;
  readonly password?: string;
  /** The meta entry's text; none where null. */
  readonly meta?: string | null;
  readonly comment?: string;
  readonly before?: Bytes;
  /** "always" writes the ZIP64 end records and leaves the numbers to them. */
  readonly zip64?: "always";
  /** Applied to the whole file. */
  readonly patch?: (bytes: Bytes) => Bytes;
}

const META = "__aerovault_meta.json";

export function metaText(fileCount: number): string {
  const meta = {
    version: 1,
    created: "2025-01-01T00:00:00Z",
    modified: "2025-01-02T00:00:00Z",
    description: null,
    fileCount,
  };
  return JSON.stringify(meta, null, 2);
}

/** A whole vault of version 1. */
export async function craftVault1(files: readonly Crafted1File[], options: Craft1Options = {}): Promise<Bytes> {
  const { engine = quickEngine(), password = VAULT_PASSWORD, zip64 } = options;
  const random = countingRandom();
  const count = files.filter(({ path }) => !path.endsWith("/")).length;
  const meta: Crafted1File[] =
    options.meta === null ? [] : [{ path: META, bytes: encodeUtf8(options.meta ?? metaText(count)), version: 1 }];
  const locals: Bytes[] = [options.before ?? new Uint8Array(0)];
  const rows: Bytes[] = [];
  let offset = locals[0]?.byteLength ?? 0;
  for (const file of [...meta, ...files]) {
    const sealed = await sealEntry(file, encodeUtf8(password), random, engine);
    const numbers = numbersOf(file, sealed, offset);
    const extra = concatBytes([file.extra ?? new Uint8Array(0), sealed.extra]);
    const name = encodeUtf8(file.path);
    const local = concatBytes([
      localBytes({ ...numbers, ...file.local }, encodeUtf8(file.local?.name ?? file.path), extra),
      sealed.payload,
    ]);
    rows.push(centralBytes({ ...numbers, ...file.central }, name, extra));
    locals.push(local);
    offset += local.byteLength;
  }
  const directory = concatBytes(rows);
  const end =
    zip64 === "always"
      ? longEnd(rows.length, directory.byteLength, offset)
      : shortEnd(rows.length, directory.byteLength, offset, options.comment ?? "");
  const bytes = concatBytes([...locals, directory, end]);
  return options.patch?.(bytes) ?? bytes;
}

interface SealedEntry {
  readonly payload: Bytes;
  readonly extra: Bytes;
}

async function sealEntry(
  file: Crafted1File,
  password: Bytes,
  random: (byteLength: number) => Bytes,
  engine: Engine,
): Promise<SealedEntry> {
  const { bytes = new Uint8Array(0), compress = "deflated", version = 2 } = file;
  if (file.path.endsWith("/")) return { payload: new Uint8Array(0), extra: new Uint8Array(0) };
  if (file.plain === "plain") return { payload: bytes, extra: new Uint8Array(0) };
  const salt = random(16);
  const keys = await deriveEntryKeys(engine, password, salt);
  const plain = file.payload ?? (compress === "deflated" ? new Uint8Array(deflateRawSync(bytes, { level: 6 })) : bytes);
  const text = applyWinzip(await engine.aesBlocks(keys.cipher), plain, 0);
  const hmac = await createHmac(engine, "sha1", keys.mac);
  hmac.update(text);
  const payload = concatBytes([salt, keys.verifier, text, hmac.digest().slice(0, 10)]);
  const field = Uint8Array.of(version, 0, 0x41, 0x45, 3, compress === "deflated" ? 8 : 0, 0);
  const aes = file.aes ?? concatBytes([Uint8Array.of(0x01, 0x99, 7, 0), field]);
  return { payload: file.damage?.(payload.slice()) ?? payload, extra: aes };
}

function numbersOf(file: Crafted1File, { payload }: SealedEntry, localOffset: number): ZipNumbers {
  const { path, bytes = new Uint8Array(0), version = 2, plain } = file;
  const isEncrypted = !path.endsWith("/") && plain !== "plain";
  return {
    // biome-ignore lint/suspicious/noControlCharactersInRegex: ASCII as a whole is meant
    flags: (isEncrypted ? 1 : 0) | (/^[\x00-\x7f]*$/.test(path) ? 0 : 0x800),
    method: isEncrypted ? 99 : 0,
    crc: version === 1 && isEncrypted ? nodeCrc32(bytes) : 0,
    compressedSize: payload.byteLength,
    size: path.endsWith("/") ? 0 : bytes.byteLength,
    localOffset,
    externalAttributes: 0o100644 * 65536,
    madeBy: (3 << 8) | 51,
    date: 0x21,
    time: 0,
  };
}

function localBytes(numbers: ZipNumbers, name: Bytes, extra: Bytes): Bytes {
  const view = new DataView(new ArrayBuffer(30));
  view.setUint32(0, 0x04034b50, true);
  view.setUint16(4, 51, true);
  setCommon(view, 6, numbers);
  view.setUint16(26, name.byteLength, true);
  view.setUint16(28, extra.byteLength, true);
  return concatBytes([new Uint8Array(view.buffer), name, extra]);
}

function centralBytes(numbers: ZipNumbers, name: Bytes, extra: Bytes): Bytes {
  const view = new DataView(new ArrayBuffer(46));
  view.setUint32(0, 0x02014b50, true);
  view.setUint16(4, numbers.madeBy, true);
  view.setUint16(6, 51, true);
  setCommon(view, 8, numbers);
  view.setUint16(28, name.byteLength, true);
  view.setUint16(30, extra.byteLength, true);
  view.setUint32(38, numbers.externalAttributes, true);
  view.setUint32(42, numbers.localOffset, true);
  return concatBytes([new Uint8Array(view.buffer), name, extra]);
}

/** What both records have in the same order. */
function setCommon(
  view: DataView,
  at: number,
  { flags, method, time, date, crc, compressedSize, size }: ZipNumbers,
): void {
  view.setUint16(at, flags, true);
  view.setUint16(at + 2, method, true);
  view.setUint16(at + 4, time, true);
  view.setUint16(at + 6, date, true);
  view.setUint32(at + 8, crc, true);
  view.setUint32(at + 12, compressedSize, true);
  view.setUint32(at + 16, size, true);
}

function shortEnd(rows: number, byteLength: number, offset: number, comment: string): Bytes {
  const view = new DataView(new ArrayBuffer(22));
  view.setUint32(0, 0x06054b50, true);
  view.setUint16(8, rows, true);
  view.setUint16(10, rows, true);
  view.setUint32(12, byteLength, true);
  view.setUint32(16, offset, true);
  view.setUint16(20, comment.length, true);
  return concatBytes([new Uint8Array(view.buffer), encodeUtf8(comment)]);
}

function longEnd(rows: number, byteLength: number, offset: number): Bytes {
  const long = new DataView(new ArrayBuffer(56));
  long.setUint32(0, 0x06064b50, true);
  long.setBigUint64(4, 44n, true);
  for (const at of [24, 32]) long.setBigUint64(at, BigInt(rows), true);
  long.setBigUint64(40, BigInt(byteLength), true);
  long.setBigUint64(48, BigInt(offset), true);
  const locator = new DataView(new ArrayBuffer(20));
  locator.setUint32(0, 0x07064b50, true);
  locator.setBigUint64(8, BigInt(offset + byteLength), true);
  locator.setUint32(16, 1, true);
  const short = shortEnd(0xffff, 0xffff_ffff, 0xffff_ffff, "");
  return concatBytes([new Uint8Array(long.buffer), new Uint8Array(locator.buffer), short]);
}
