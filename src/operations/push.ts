import { type Bytes, readMemory } from "../base/bytes.ts";
import type { S3Address } from "../bytes/s3/address.ts";
import type { S3Client, S3Condition } from "../bytes/s3/client.ts";
import {
  chooseCondition,
  commitObject,
  newWriteId,
  PART_BYTES,
  planPartBytes,
  type S3Overwrite,
} from "../bytes/s3/commit.ts";
import type { S3Part } from "../bytes/s3/documents.ts";
import type { Source } from "../bytes/source.ts";
import { mapConcurrently } from "./reading/concurrency.ts";

/** A file and where it goes. */
export interface PushItem {
  readonly source: Source;
  /** Two files that agree in it hold the same bytes. */
  readonly identity: string;
  readonly address: S3Address;
  readonly journal: PushJournal;
  /** Throws where the file is not the one that was opened any more. */
  readonly checkUnchanged: () => Promise<void>;
}

export interface PushOptions {
  readonly overwrite: S3Overwrite;
  /** Parts under way at a time; 4 where absent. */
  readonly concurrency?: number | undefined;
  readonly partBytes?: number | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Called with the bytes that are safe in the store since the last call. */
  readonly onProgress?: ((byteLength: number) => void) | undefined;
  readonly onNote?: ((text: string) => void) | undefined;
}

export interface PushResult {
  /** "present" where an earlier run had finished it. */
  readonly state: "written" | "present";
  readonly byteLength: number;
  /** Bytes that this run sent. */
  readonly sentBytes: number;
  readonly etag: string;
}

const CONCURRENCY = 4;
/** Parts being sent are held whole: this many bytes at a time, but always one part. */
const MAX_FLIGHT_BYTES = 256 << 20;

/**
 * Uploads a file as an object, all or nothing. What an earlier run got across is not sent again: its parts are kept where
 * the journal and the store agree on them. A file that changed since is begun anew.
 */
export async function pushObject(client: S3Client, item: PushItem, options: PushOptions): Promise<PushResult> {
  return new Push(client, item, options).run();
}

class Push {
  readonly #client: S3Client;
  readonly #item: PushItem;
  readonly #options: PushOptions;
  #sentBytes = 0;

  constructor(client: S3Client, item: PushItem, options: PushOptions) {
    this.#client = client;
    this.#item = item;
    this.#options = options;
  }

  async run(): Promise<PushResult> {
    const { source, address, journal } = this.#item;
    const { onProgress } = this.#options;
    const record = await journal.read();
    const finished = await this.#findFinished(record);
    if (finished !== undefined) {
      onProgress?.(source.byteLength);
      return { state: "present", byteLength: source.byteLength, sentBytes: 0, etag: finished };
    }
    const condition = await chooseCondition(this.#client, address, this.#options);
    const wanted = planPartBytes(source.byteLength, this.#options.partBytes ?? PART_BYTES, address.label);
    const etag =
      source.byteLength <= wanted ? await this.#putWhole(condition) : await this.#putParts(condition, wanted, record);
    await journal.add({ type: "done", identity: this.#item.identity, etag });
    return { state: "written", byteLength: source.byteLength, sentBytes: this.#sentBytes, etag };
  }

  /** The ETag of the object where an earlier run completed it, whether it lived to write that down or not. */
  async #findFinished({ upload, done }: PushRecord): Promise<string | undefined> {
    const { identity, address } = this.#item;
    const isSame = (done ?? upload)?.identity === identity;
    if (!isSame) return undefined;
    const found = await this.#client.head(address, { signal: this.#options.signal });
    if (found === undefined) return undefined;
    const isOurs = found.etag === done?.etag || (upload !== undefined && found.writeId === upload.writeId);
    return isOurs ? found.etag : undefined;
  }

  async #putWhole(condition: S3Condition): Promise<string> {
    const { source, address } = this.#item;
    const { signal, onNote, onProgress } = this.#options;
    const body = await source.read(0, source.byteLength, { signal });
    await this.#item.checkUnchanged();
    const writeId = newWriteId();
    const send = (now: S3Condition) => this.#client.put(address, body, { condition: now, writeId, signal });
    const etag = await commitObject(this.#client, address, { condition, writeId, send, onNote });
    this.#sentBytes += source.byteLength;
    onProgress?.(source.byteLength);
    return etag;
  }

  async #putParts(condition: S3Condition, partBytes: number, record: PushRecord): Promise<string> {
    const { address } = this.#item;
    const resumed = await this.#resume(record);
    const upload = resumed?.upload ?? (await this.#begin(partBytes));
    const parts = await this.#sendParts(upload, resumed?.parts ?? new Map());
    await this.#item.checkUnchanged();
    const { onNote } = this.#options;
    const { writeId, uploadId: id } = upload;
    const send = (now: S3Condition) => this.#client.completeUpload(address, { id, parts }, { condition: now });
    try {
      return await commitObject(this.#client, address, { condition, writeId, send, onNote });
    } catch (error) {
      // Whoever lost a race cannot win it later with the same parts; anything else may be tried again.
      if (isLostRace(error)) await this.#forget(upload);
      throw error;
    }
  }

  /** The upload of an earlier run and its parts that the store still has. */
  async #resume(record: PushRecord): Promise<{ upload: PushUpload; parts: Map<number, S3Part> } | undefined> {
    const { upload } = record;
    if (upload === undefined) return undefined;
    const { identity, source, address } = this.#item;
    if (upload.identity !== identity || upload.byteLength !== source.byteLength) {
      await this.#forget(upload);
      return undefined;
    }
    const listed = await this.#client.listParts(address, upload.uploadId, { signal: this.#options.signal });
    if (listed === undefined) return undefined;
    const parts = new Map<number, S3Part>();
    for (const { number, etag, byteLength } of listed) {
      const known = record.parts.get(number);
      const isSame = known?.etag === etag && byteLength === this.#lengthOf(upload, number);
      if (known !== undefined && isSame) parts.set(number, known);
    }
    return { upload, parts };
  }

  async #begin(partBytes: number): Promise<PushUpload> {
    const { identity, source, address, journal } = this.#item;
    const writeId = newWriteId();
    const uploadId = await this.#client.createUpload(address, { writeId });
    const upload = { identity, byteLength: source.byteLength, partBytes, uploadId, writeId };
    await journal.clear();
    await journal.add({ type: "upload", ...upload });
    return upload;
  }

  async #sendParts(upload: PushUpload, kept: ReadonlyMap<number, S3Part>): Promise<S3Part[]> {
    const { concurrency = CONCURRENCY, onProgress } = this.#options;
    const count = Math.ceil(upload.byteLength / upload.partBytes);
    const numbers = Array.from({ length: count }, (_, i) => i + 1);
    const atOnce = Math.max(1, Math.min(concurrency, Math.floor(MAX_FLIGHT_BYTES / upload.partBytes)));
    const buffers: Bytes[] = [];
    return mapConcurrently(numbers, atOnce, async (number) => {
      const byteLength = this.#lengthOf(upload, number);
      const known = kept.get(number);
      if (known !== undefined) {
        onProgress?.(byteLength);
        return known;
      }
      const buffer = buffers.pop() ?? readMemory(upload.partBytes);
      const part = await this.#sendPart(upload, number, buffer.subarray(0, byteLength));
      buffers.push(buffer);
      onProgress?.(byteLength);
      return part;
    });
  }

  async #sendPart(upload: PushUpload, number: number, buffer: Bytes): Promise<S3Part> {
    const { source, address, journal } = this.#item;
    const { signal } = this.#options;
    const body = await source.read((number - 1) * upload.partBytes, buffer.byteLength, { into: buffer, signal });
    const part = await this.#client.uploadPart(address, { id: upload.uploadId, number }, { body, signal });
    this.#sentBytes += body.byteLength;
    await journal.add({ type: "part", ...part });
    return part;
  }

  #lengthOf({ byteLength, partBytes }: PushUpload, number: number): number {
    return Math.min(partBytes, byteLength - (number - 1) * partBytes);
  }

  async #forget({ uploadId }: PushUpload): Promise<void> {
    // The store drops forgotten uploads by its own rules; failing to do so now is no reason to stop.
    await this.#client.abortUpload(this.#item.address, uploadId).catch(() => undefined);
    await this.#item.journal.clear();
  }
}

function isLostRace(error: unknown): boolean {
  const code = (error as { readonly code?: unknown } | null)?.code;
  return code === "usage/exists" || code === "source/s3.changed";
}

/** An upload that was begun. */
interface PushUpload {
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

interface PushDone {
  readonly identity: string;
  readonly etag: string;
}

/** A line of the journal of one object. */
type PushEntry =
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
