import type { Bytes } from "../../base/bytes.ts";
import { decodeUtf8, encodeUtf8 } from "../../base/text.ts";
import { strongTag } from "../../bytes/http/headers.ts";
/** What is known about a file that a pull has put in place. */
export interface ReceiptEntry {
  /** Where it came from, without what must not be written down. */
  readonly from: string;
  readonly byteLength: number;
  /** Of the local file; another one means that somebody changed it since. */
  readonly stamp: string;
  readonly etag?: string | undefined;
  /** Where redirects led when the file with that tag came. */
  readonly via?: string | undefined;
  readonly sha256?: string | undefined;
  /** Shows that this machine wrote the entry: what others wrote is no reason to believe anything. */
  readonly seal?: string | undefined;
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
  const { from, byteLength, stamp, etag, via, sha256, seal } = value;
  if (typeof from !== "string" || !Number.isSafeInteger(byteLength) || typeof stamp !== "string") return undefined;
  return {
    from,
    byteLength: byteLength as number,
    stamp,
    // It is sent to the server: nothing but an entity-tag may be.
    ...(typeof etag === "string" && strongTag({ etag, lastModified: undefined }) !== undefined ? { etag } : {}),
    ...(typeof via === "string" ? { via } : {}),
    ...(typeof sha256 === "string" && /^[0-9a-f]{64}$/.test(sha256) ? { sha256 } : {}),
    ...(typeof seal === "string" ? { seal } : {}),
  };
}

/** What the seal of an entry covers beside the file itself. */
export function sealedFacts({ from, etag, via, sha256 }: ReceiptEntry): string[] {
  return [from, etag ?? "", sha256 ?? "", ...(via === undefined ? [] : [via])];
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
