import type { Bytes } from "../../base/bytes.ts";
import { decodeUtf8, encodeUtf8 } from "../../base/text.ts";

/** What is known about a file that a pull has put in place. */
export interface ReceiptEntry {
  /** Where it came from, without what must not be written down. */
  readonly from: string;
  readonly byteLength: number;
  /** Of the local file; another one means that somebody changed it since. */
  readonly stamp: string;
  readonly etag?: string | undefined;
  readonly sha256?: string | undefined;
}

/** The files that pulls have put into one folder, so that a repeated pull asks instead of fetching. */
export type Receipt = Map<string, ReceiptEntry>;

/** Unknown or damaged content is an empty receipt: then everything is looked at afresh. */
export function parseReceipt(bytes: Bytes | undefined): Receipt {
  const receipt: Receipt = new Map();
  const text = bytes === undefined ? undefined : decodeUtf8(bytes);
  if (text === undefined) return receipt;
  let root: unknown;
  try {
    root = JSON.parse(text);
  } catch {
    return receipt; // cut off or edited: it only ever saved work
  }
  const files = isObject(root) && root["version"] === 1 ? root["files"] : undefined;
  if (!isObject(files)) return receipt;
  for (const [path, value] of Object.entries(files)) {
    const entry = parseEntry(value);
    if (entry !== undefined) receipt.set(path, entry);
  }
  return receipt;
}

/** The text of a receipt. */
export function encodeReceipt(receipt: Receipt): Bytes {
  return encodeUtf8(`${JSON.stringify({ version: 1, files: Object.fromEntries(receipt) }, null, 1)}\n`);
}

function parseEntry(value: unknown): ReceiptEntry | undefined {
  if (!isObject(value)) return undefined;
  const { from, byteLength, stamp, etag, sha256 } = value;
  if (typeof from !== "string" || typeof byteLength !== "number" || typeof stamp !== "string") return undefined;
  return {
    from,
    byteLength,
    stamp,
    ...(typeof etag === "string" ? { etag } : {}),
    ...(typeof sha256 === "string" ? { sha256 } : {}),
  };
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
