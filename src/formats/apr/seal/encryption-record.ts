import { decodeBase64, encodeBase64 } from "../../../base/base64.ts";
import { type Bytes, concatBytes } from "../../../base/bytes.ts";
import { FormatError, LimitError, type Location, UnsupportedError } from "../../../base/errors.ts";
import { encodeUtf8 } from "../../../base/text.ts";
import { Metadata, type MetadataValue } from "../../../model/metadata.ts";
import { AES_KEY_BYTES, KEY_WRAP_BYTES } from "../../../primitives/cipher/aes.ts";
import { ENCRYPTION_KEY } from "./encryption-key.ts";

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

/** Half a second on a slow machine; RFC 9106 §4 recommends the memory for where 2 GiB are too much. */
export const DEFAULT_COST: KdfCost = { memoryKib: 64 << 10, passes: 3, lanes: 1 };

/** What a reader does for a file, and what a writer may ask of readers: the least that still resists guessing, and more. */
const COST_BOUNDS = { memoryKib: [19 << 10, 1 << 20], passes: [1, 16], lanes: [1, 16] } as const;

/** How a file is encrypted; everything in it may be known. */
export interface EncryptionRecord {
  readonly cost: KdfCost;
  readonly salt: Bytes;
  /** The file key under AES Key Wrap, by the key that the password gives. */
  readonly wrappedKey: Bytes;
  /** Random, in every tag: segments of one file never fit another. */
  readonly fileId: Bytes;
  /** HMAC-SHA-256 of header, metadata and index. */
  readonly mac: Bytes;
}

/** A record whose bytes are not known yet: its text is exactly as long as that of any other of the same cost. */
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
export function renderRecord({ cost, salt, wrappedKey, fileId, mac }: EncryptionRecord): string {
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

/** Refuses a record that is not ours, is malformed, or asks for more work than is done for a file. */
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

/** Both ways: nothing is written that would not be read. */
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
  // One spelling only: other ones would let the record change without the mac noticing.
  if (bytes?.byteLength === byteLength && encodeBase64(bytes) === text) return bytes;
  throw malformed(key, `${byteLength} bytes in base64`, at);
}

function malformed(key: string, wanted: string, at: Location): FormatError {
  const message = `Cannot decrypt: ${ENCRYPTION_KEY}.${key} must be ${wanted}`;
  return new FormatError("format/apr.encryption", message, { ...at, path: `metadata.${ENCRYPTION_KEY}.${key}` });
}
