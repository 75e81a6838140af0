import type { Bytes } from "../../base/bytes.ts";
import { encodeHex } from "../../base/hex.ts";
import { decodeUtf8, encodeUtf8 } from "../../base/text.ts";

/** A file that an interrupted run finished, or was about to name. */
export interface JournalEntry {
  readonly name: string;
  /** Of the plan and the sources that it was made from. */
  readonly fingerprint: string;
  readonly sizeBytes: number;
  /** 64 lower-case hex digits over the whole file. */
  readonly sha256: string;
}

/** The notes of a run for the next one. */
export interface Journal {
  /** 32 hex digits: parts of one set share it, also where it was drawn at random. */
  readonly uuid: string;
  readonly files: readonly JournalEntry[];
}

const KIND = "tare aeroset resume";
const VERSION = 1;

/** Beside the JSON of the set, hidden; it is removed when the set is complete. */
export function journalName(setName: string): string {
  return `.${setName}.tare-resume`;
}

export function encodeJournal({ uuid, files }: Journal): Bytes {
  return encodeUtf8(`${JSON.stringify({ kind: KIND, version: VERSION, uuid, files }, null, 1)}\n`);
}

/** Undefined for anything that is not a journal of this version: the run then starts over. */
export function decodeJournal(bytes: Bytes): Journal | undefined {
  let value: unknown;
  try {
    value = JSON.parse(decodeUtf8(bytes) ?? "");
  } catch {
    return undefined; // cut off by a crash, or somebody else's file
  }
  if (!isObject(value) || value["kind"] !== KIND || value["version"] !== VERSION) return undefined;
  const { uuid, files } = value;
  if (!isHex(uuid, 32) || !Array.isArray(files) || !files.every(isEntry)) return undefined;
  return { uuid, files };
}

/** The uuid as the journal spells it. */
export function journalUuid(uuid: Bytes): string {
  return encodeHex(uuid);
}

function isEntry(value: unknown): value is JournalEntry {
  if (!isObject(value)) return false;
  const { name, fingerprint, sizeBytes, sha256 } = value;
  const hasSize = Number.isSafeInteger(sizeBytes) && (sizeBytes as number) >= 0;
  return typeof name === "string" && isHex(fingerprint, 64) && hasSize && isHex(sha256, 64);
}

function isHex(value: unknown, digits: number): value is string {
  return typeof value === "string" && value.length === digits && /^[0-9a-f]*$/.test(value);
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
