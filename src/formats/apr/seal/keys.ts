import { type Bytes, concatBytes } from "../../../base/bytes.ts";
import { FormatError, LimitError, type Location, UnsupportedError, UsageError } from "../../../base/errors.ts";
import { decodeBase64, encodeBase64, encodeHex, encodeUtf8 } from "../../../base/text.ts";
import type { PasswordSource } from "../../../model/format.ts";
import { Metadata, type MetadataValue } from "../../../model/metadata.ts";
import { AES_KEY_BYTES, KEY_WRAP_BYTES } from "../../../primitives/cipher/aes.ts";
import { hkdfSha256, hmacSha256 } from "../../../primitives/crypto/hmac.ts";
import type { Engine } from "../../../primitives/engine.ts";
import { FILE_FLAGS, FLAGS_OFFSET } from "../spec/layout.ts";
import { ENCRYPTION_KEY } from "../spec/read.ts";

const SCHEME = "tare-aes-256-gcm-v1";
const KDF = "argon2id";
const SALT_BYTES = 16;
const FILE_ID_BYTES = 16;
const MAC_BYTES = 32;
const WRAPPED_BYTES = AES_KEY_BYTES + KEY_WRAP_BYTES;

/** Argon2id's parameters. */
export interface KdfCost {
  readonly memoryKib: number;
  readonly passes: number;
  readonly lanes: number;
}

/** Takes half a second on a slow machine; RFC 9106 §4 recommends this memory if 2 GiB are too much. */
export const DEFAULT_COST: KdfCost = { memoryKib: 64 << 10, passes: 3, lanes: 1 };

/** The work that a reader does for a file and a writer may demand: the lower bounds still resist guessing. */
const COST_BOUNDS = { memoryKib: [19 << 10, 1 << 20], passes: [1, 16], lanes: [1, 16] } as const;

/** How a file is encrypted; nothing in it is secret. */
export interface EncryptionRecord {
  readonly cost: KdfCost;
  readonly salt: Bytes;
  /** The file key under AES Key Wrap, by the key that the password gives. */
  readonly wrappedKey: Bytes;
  /** Random and part of every tag: segments of one file never fit another. */
  readonly fileId: Bytes;
  /** HMAC-SHA-256 of header, metadata and index. */
  readonly mac: Bytes;
}

/** A record whose bytes are not known yet. Its text is exactly as long as any other text of the same cost. */
export function blankRecord(cost: KdfCost): EncryptionRecord {
  return {
    cost,
    salt: new Uint8Array(SALT_BYTES),
    wrappedKey: new Uint8Array(WRAPPED_BYTES),
    fileId: new Uint8Array(FILE_ID_BYTES),
    mac: new Uint8Array(MAC_BYTES),
  };
}

/** The value of the key `encryption`, as compact JSON. */
function renderRecord({ cost, salt, wrappedKey, fileId, mac }: EncryptionRecord): string {
  return JSON.stringify({
    scheme: SCHEME,
    kdf: { name: KDF, memory_kib: cost.memoryKib, passes: cost.passes, lanes: cost.lanes, salt: encodeBase64(salt) },
    wrapped_key: encodeBase64(wrappedKey),
    file_id: encodeBase64(fileId),
    mac: encodeBase64(mac),
  });
}

/** The metadata text with the record as its last member. */
export function withRecord(metadata: Bytes, record: EncryptionRecord): Bytes {
  const member = encodeUtf8(`"${ENCRYPTION_KEY}":${renderRecord(record)}}`);
  const isEmpty = metadata[metadata.byteLength - 2] === 0x7b;
  const comma = isEmpty ? [] : [encodeUtf8(",")];
  return concatBytes([metadata.subarray(0, metadata.byteLength - 1), ...comma, member]);
}

/** Refuses a record that is not ours, is malformed, or demands more work than a reader does for a file. */
export function parseRecord(value: MetadataValue | undefined, at: Location): EncryptionRecord {
  const record = mapOf(value);
  if (record?.text("scheme") !== SCHEME) {
    const found = record?.text("scheme");
    const message = `Cannot decrypt: the metadata must say encryption.scheme "${SCHEME}", found ${found === undefined ? "none" : JSON.stringify(found)}`;
    throw new UnsupportedError(
      "unsupported/apr.encrypted",
      message,
      { ...at, path: `metadata.${ENCRYPTION_KEY}` },
      {
        hint: "The specification has a flag for encryption and no rules; open the file with the program that wrote it",
      },
    );
  }
  const kdf = mapOf(record.get("kdf"));
  if (kdf?.text("name") !== KDF) throw malformed("kdf.name", `"${KDF}"`, at);
  const cost = {
    memoryKib: integerOf(kdf, "memory_kib", at),
    passes: integerOf(kdf, "passes", at),
    lanes: integerOf(kdf, "lanes", at),
  };
  checkCost(cost, at);
  return {
    cost,
    salt: bytesOf(kdf, "salt", SALT_BYTES, at),
    wrappedKey: bytesOf(record, "wrapped_key", WRAPPED_BYTES, at),
    fileId: bytesOf(record, "file_id", FILE_ID_BYTES, at),
    mac: bytesOf(record, "mac", MAC_BYTES, at),
  };
}

/** Checked for reading and for writing: nothing is written that would not be read. */
export function checkCost(cost: KdfCost, at: Location): void {
  for (const [name, [least, most]] of Object.entries(COST_BOUNDS)) {
    const value = cost[name as keyof KdfCost];
    if (Number.isSafeInteger(value) && value >= least && value <= most) continue;
    const message = `Cannot derive a key: ${name} of Argon2id must be ${least} to ${most}, found ${value}`;
    throw new LimitError("limit/apr.kdf", message, { ...at, path: `metadata.${ENCRYPTION_KEY}.kdf` });
  }
}

function mapOf(value: MetadataValue | undefined): Metadata | undefined {
  return value?.type === "map" ? new Metadata(value.entries) : undefined;
}

function integerOf(map: Metadata, key: string, at: Location): number {
  const value = map.number(key);
  if (value === undefined || !Number.isSafeInteger(value)) throw malformed(`kdf.${key}`, "a whole number", at);
  return value;
}

function bytesOf(map: Metadata, key: string, byteLength: number, at: Location): Bytes {
  const text = map.text(key) ?? "";
  const bytes = decodeBase64(text);
  // Only one spelling is accepted: others would let the record change without the mac noticing.
  if (bytes?.byteLength === byteLength && encodeBase64(bytes) === text) return bytes;
  throw malformed(key, `${byteLength} bytes in base64`, at);
}

function malformed(key: string, wanted: string, at: Location): FormatError {
  const message = `Cannot decrypt: ${ENCRYPTION_KEY}.${key} must be ${wanted}`;
  return new FormatError("format/apr.encryption", message, { ...at, path: `metadata.${ENCRYPTION_KEY}.${key}` });
}

/** What turns the password into a key. */
interface KeyRequest {
  readonly engine: Engine;
  readonly password: PasswordSource | undefined;
  readonly cost: KdfCost;
  readonly salt: Bytes;
  /** Names the file in the password prompt. */
  readonly label: string;
}

/** The shards of a set share a salt. A slowly derived key is remembered as long as its PasswordSource lives. */
const derived = new WeakMap<PasswordSource, Map<string, Promise<Bytes>>>();

/** The key that wraps file keys. Rejects with `usage/password.missing` if there is no password. */
export function passwordKey(request: KeyRequest): Promise<Bytes> {
  const { password, cost, salt, label } = request;
  if (password === undefined) return Promise.reject(missingPassword(label));
  const known = derived.get(password) ?? new Map<string, Promise<Bytes>>();
  derived.set(password, known);
  const name = `${encodeHex(salt)} ${cost.memoryKib} ${cost.passes} ${cost.lanes}`;
  const key = known.get(name) ?? derive(password, request);
  known.set(name, key);
  key.catch(() => known.delete(name));
  return key;
}

/** After a wrong password: the next try asks again. */
export function forgetPasswordKeys(password: PasswordSource | undefined): void {
  if (password !== undefined) derived.delete(password);
}

async function derive(password: PasswordSource, { engine, cost, salt, label }: KeyRequest): Promise<Bytes> {
  const secret = await password(label);
  if (secret === undefined) throw missingPassword(label);
  try {
    return await engine.argon2id(secret, { ...cost, salt, byteLength: AES_KEY_BYTES });
  } finally {
    secret.fill(0);
  }
}

function missingPassword(label: string): UsageError {
  const message = `Cannot use "${label}" without a password: its tensors are encrypted`;
  return new UsageError(
    "usage/password.missing",
    message,
    { source: label },
    {
      hint: "Pass the option password",
    },
  );
}

const INFO = encodeUtf8("tare apr front matter v1");

/** What describes the tensors: plain bytes that must not change. */
interface FrontBytes {
  readonly header: Bytes;
  readonly metadata: Bytes;
  readonly index: Bytes;
}

/** The key for the mac. It is derived, so it is of no use for anything else. */
export function frontKey(engine: Engine, fileKey: Bytes, fileId: Bytes): Promise<Bytes> {
  return hkdfSha256(engine, fileKey, { salt: fileId, info: INFO, byteLength: 32 });
}

/**
 * HMAC-SHA-256 over header, metadata and index as they are in the file, except in two places. The flag SIGNED counts as
 * clear, because a file is signed after it is encrypted. The text of the mac itself counts as zeros. Undefined if that
 * text does not appear exactly once.
 */
export async function frontMac(
  engine: Engine,
  key: Bytes,
  { header, metadata, index }: FrontBytes,
  mac: Bytes,
): Promise<Bytes | undefined> {
  const blank = blankMac(metadata, mac);
  return blank === undefined ? undefined : hmacSha256(engine, key, [withoutSigned(header), blank, index]);
}

function withoutSigned(header: Bytes): Bytes {
  const copy = header.slice();
  const view = new DataView(copy.buffer);
  const signed = Number(FILE_FLAGS.encode(["SIGNED"]));
  view.setUint32(FLAGS_OFFSET, view.getUint32(FLAGS_OFFSET, true) & ~signed, true);
  return copy;
}

function blankMac(metadata: Bytes, mac: Bytes): Bytes | undefined {
  const field = (value: Bytes): Bytes => encodeUtf8(`"mac":"${encodeBase64(value)}"`);
  const wanted = field(mac);
  const at = find(metadata, wanted, 0);
  if (at < 0 || find(metadata, wanted, at + 1) >= 0) return undefined;
  const copy = metadata.slice();
  copy.set(field(new Uint8Array(mac.byteLength)), at);
  return copy;
}

function find(bytes: Bytes, wanted: Bytes, from: number): number {
  const first = wanted[0] as number;
  for (let at = bytes.indexOf(first, from); at >= 0; at = bytes.indexOf(first, at + 1)) {
    if (at + wanted.byteLength > bytes.byteLength) return -1;
    if (wanted.every((byte, i) => bytes[at + i] === byte)) return at;
  }
  return -1;
}
