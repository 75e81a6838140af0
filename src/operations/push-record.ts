import type { S3Part } from "../bytes/s3/documents.ts";

/** An upload that was begun. */
export interface PushUpload {
  /** Which file it is of, as it was then; another identity is another file. */
  readonly identity: string;
  readonly byteLength: number;
  readonly partBytes: number;
  readonly uploadId: string;
  readonly writeId: string;
}

/** What earlier runs wrote down about one object. */
export interface PushRecord {
  readonly upload?: PushUpload | undefined;
  /** Parts that the store has acknowledged, by number. */
  readonly parts: ReadonlyMap<number, S3Part>;
  /** Present when the object is complete. */
  readonly done?: PushDone | undefined;
}

export interface PushDone {
  readonly identity: string;
  readonly etag: string;
}

/** A line of the journal of one object. */
export type PushEntry =
  | ({ readonly type: "upload" } & PushUpload)
  | ({ readonly type: "part" } & S3Part)
  | ({ readonly type: "done" } & PushDone);

/** Where a push writes down how far it got, one journal an object. Entries survive a process that is killed. */
export interface PushJournal {
  read(): Promise<PushRecord>;
  add(entry: PushEntry): Promise<void>;
  clear(): Promise<void>;
}

/** One line, with its end. */
export function encodePushEntry(entry: PushEntry): string {
  return `${JSON.stringify(entry)}\n`;
}

/** Reads a journal. A line that is cut off or no entry is skipped: what it would have said is simply not known. */
export function parsePushRecord(text: string): PushRecord {
  let upload: PushUpload | undefined;
  let done: PushDone | undefined;
  let parts = new Map<number, S3Part>();
  for (const line of text.split("\n").slice(0, -1)) {
    const entry = parseEntry(line);
    if (entry === undefined) continue;
    if (entry.type === "part") {
      const { number, etag, sha256 } = entry;
      parts.set(number, { number, etag, sha256 });
    } else if (entry.type === "upload") {
      const { type: _, ...facts } = entry;
      upload = facts;
      parts = new Map();
    } else {
      done = { identity: entry.identity, etag: entry.etag };
    }
  }
  return { upload, parts, done };
}

function parseEntry(line: string): PushEntry | undefined {
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch {
    return undefined; // torn by a crash
  }
  if (typeof value !== "object" || value === null) return undefined;
  const fields = new Map<string, unknown>(Object.entries(value));
  const texts = (...names: readonly string[]): boolean => names.every((name) => typeof fields.get(name) === "string");
  const counts = (...names: readonly string[]): boolean =>
    names.every((name) => Number.isSafeInteger(fields.get(name)) && (fields.get(name) as number) >= 0);
  const isUpload = texts("identity", "uploadId", "writeId") && counts("byteLength", "partBytes");
  const type = fields.get("type");
  const isEntry =
    (type === "upload" && isUpload && fields.get("partBytes") !== 0) ||
    (type === "part" && texts("etag", "sha256") && counts("number")) ||
    (type === "done" && texts("identity", "etag"));
  return isEntry ? (value as PushEntry) : undefined;
}
