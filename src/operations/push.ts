import { type Bytes, readMemory } from "../base/bytes.ts";
import { sleep } from "../bytes/layers/retry.ts";
import type { S3Address } from "../bytes/s3/address.ts";
import type { S3Client, S3Condition } from "../bytes/s3/client.ts";
import {
  chooseCondition,
  commitObject,
  newWriteId,
  PART_BYTES,
  PARTS_AT_ONCE,
  planPartBytes,
  type S3Overwrite,
} from "../bytes/s3/commit.ts";
import type { S3Part } from "../bytes/s3/documents.ts";
import type { Source } from "../bytes/source.ts";
import { mapConcurrently } from "./reading/concurrency.ts";

/** A file and its destination. */
export interface PushItem {
  readonly source: Source;
  /** Two files with the same identity hold the same bytes. */
  readonly identity: string;
  readonly address: S3Address;
  readonly journal: PushJournal;
  /** Throws if the file is no longer the one that was opened. */
  readonly checkUnchanged: () => Promise<void>;
}

export interface PushOptions {
  readonly overwrite: S3Overwrite;
  /** Parts in flight at a time; 4 if absent. */
  readonly concurrency?: number | undefined;
  readonly partBytes?: number | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Called with the bytes that the store has acknowledged since the last call. */
  readonly onProgress?: ((byteLength: number) => void) | undefined;
  readonly onNote?: ((text: string) => void) | undefined;
  /** Waits between two looks at the store. */
  readonly sleep?: ((milliseconds: number, signal: AbortSignal | undefined) => Promise<void>) | undefined;
}

export interface PushResult {
  /** "present" if an earlier run had finished it. */
  readonly state: "written" | "present";
  readonly byteLength: number;
  /** Bytes that this run sent. */
  readonly sentBytes: number;
  readonly etag: string;
}

/** Parts in flight are held in memory: at most this many bytes at a time, but always one part. */
const MAX_FLIGHT_BYTES = 256 << 20;
/** Half a minute in all: most stores complete an upload in less. */
const COMPLETION_DELAYS_MS = [1000, 2000, 4000, 8000, 15_000] as const;
/** A journal that remembers more writes starts again. */
const MAX_WRITES = 32;

/**
 * Uploads a file as an object, atomically. Parts of an earlier run are not sent again if the journal and the store
 * agree on them. A file that changed since starts again.
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
    const finished = (await this.#findFinished(record)) ?? (await this.#awaitFinished(record));
    if (finished !== undefined) {
      onProgress?.(source.byteLength);
      return { state: "present", byteLength: source.byteLength, sentBytes: 0, etag: finished };
    }
    const condition = await chooseCondition(this.#client, address, this.#options);
    const wanted = planPartBytes(source.byteLength, this.#options.partBytes ?? PART_BYTES, address.label);
    const etag =
      source.byteLength <= wanted
        ? await this.#putWhole(condition, record)
        : await this.#putParts(condition, wanted, record);
    await journal.add({ type: "done", identity: this.#item.identity, etag });
    return { state: "written", byteLength: source.byteLength, sentBytes: this.#sentBytes, etag };
  }

  /** The ETag of the object if an earlier run completed it, even if that run died before it recorded this. */
  async #findFinished(record: PushRecord): Promise<string | undefined> {
    const { address, identity } = this.#item;
    const done = record.done?.identity === identity ? record.done : undefined;
    const earlierIds = this.#earlierIds(record);
    if (done === undefined && earlierIds.length === 0) return undefined;
    const found = await this.#client.head(address, { signal: this.#options.signal });
    if (found === undefined) return undefined;
    const isOurs = found.etag === done?.etag || (found.writeId !== undefined && earlierIds.includes(found.writeId));
    return isOurs ? found.etag : undefined;
  }

  /**
   * A run that died during its last request may leave a store that has neither the upload nor, for now, the object.
   * Waits for the object if the store has all parts and does not know their upload any more.
   */
  async #awaitFinished(record: PushRecord): Promise<string | undefined> {
    const { upload, parts } = record;
    const { address, identity } = this.#item;
    const { signal, onNote, sleep: wait = sleep } = this.#options;
    if (upload?.identity !== identity || parts.size < Math.ceil(upload.byteLength / upload.partBytes)) return undefined;
    if ((await this.#client.listParts(address, upload.uploadId, { signal })) !== undefined) return undefined;
    onNote?.(`"${address.label}": the store has ended the upload of an earlier run; waiting for its object`);
    for (const delay of COMPLETION_DELAYS_MS) {
      await wait(delay, signal);
      const finished = await this.#findFinished(record);
      if (finished !== undefined) return finished;
    }
    return undefined;
  }

  /** Ids of the writes that earlier runs began with the same bytes. */
  #earlierIds({ writes }: PushRecord): readonly string[] {
    return writes.filter(({ identity }) => identity === this.#item.identity).map(({ writeId }) => writeId);
  }

  async #putWhole(condition: S3Condition, record: PushRecord): Promise<string> {
    const { source, address, identity, journal } = this.#item;
    const { signal, onNote, onProgress } = this.#options;
    const body = await source.read(0, source.byteLength, { signal });
    await this.#item.checkUnchanged();
    const writeId = newWriteId();
    const earlierIds = this.#earlierIds(record);
    if (record.writes.length > MAX_WRITES) await journal.clear();
    // If this run dies, the next one knows the object by this id.
    await journal.add({ type: "put", identity, writeId });
    const send = (now: S3Condition) => this.#client.put(address, body, { condition: now, writeId, signal });
    const etag = await commitObject(this.#client, address, { condition, writeId, earlierIds, send, onNote });
    this.#sentBytes += source.byteLength;
    onProgress?.(source.byteLength);
    return etag;
  }

  async #putParts(condition: S3Condition, partBytes: number, record: PushRecord): Promise<string> {
    const { address } = this.#item;
    const resumed = await this.#resume(record);
    const upload = resumed?.upload ?? (await this.#begin(partBytes, record));
    const parts = await this.#sendParts(upload, resumed?.parts ?? new Map());
    await this.#item.checkUnchanged();
    const { onNote } = this.#options;
    const { writeId, uploadId: id } = upload;
    const earlierIds = this.#earlierIds(record).filter((earlier) => earlier !== writeId);
    const send = (now: S3Condition) => this.#client.completeUpload(address, { id, parts }, { condition: now });
    try {
      const etag = await commitObject(this.#client, address, { condition, writeId, earlierIds, send, onNote });
      // If the object is that of an earlier write, these parts are not needed.
      if (earlierIds.length > 0) await this.#abort(upload);
      return etag;
    } catch (error) {
      // A push that lost a race cannot win it later with the same parts. Anything else may be tried again.
      if (isLostRace(error)) await this.#forget(upload);
      throw error;
    }
  }

  /** The upload of an earlier run, and those of its parts that the store still has. */
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

  async #begin(partBytes: number, { writes }: PushRecord): Promise<PushUpload> {
    const { identity, source, address, journal } = this.#item;
    const writeId = newWriteId();
    const { signal } = this.#options;
    const uploadId = await this.#client.createUpload(address, { writeId, signal });
    const upload = { identity, byteLength: source.byteLength, partBytes, uploadId, writeId };
    if (writes.length > MAX_WRITES) await journal.clear();
    await journal.add({ type: "upload", ...upload });
    return upload;
  }

  async #sendParts(upload: PushUpload, kept: ReadonlyMap<number, S3Part>): Promise<S3Part[]> {
    const { concurrency = PARTS_AT_ONCE, onProgress } = this.#options;
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

  async #forget(upload: PushUpload): Promise<void> {
    await this.#abort(upload);
    await this.#item.journal.clear();
  }

  async #abort({ uploadId }: PushUpload): Promise<void> {
    // The store drops forgotten uploads by its own rules, so a failure here is no reason to stop.
    await this.#client.abortUpload(this.#item.address, uploadId).catch(() => undefined);
  }
}

function isLostRace(error: unknown): boolean {
  const code = (error as { readonly code?: unknown } | null)?.code;
  return code === "usage/exists" || code === "source/s3.changed";
}

/** An upload that was started. */
interface PushUpload {
  /** Identifies the file as it was then; another identity means another file. */
  readonly identity: string;
  readonly byteLength: number;
  readonly partBytes: number;
  readonly uploadId: string;
  readonly writeId: string;
}

/** What earlier runs recorded about one object. */
export interface PushRecord {
  readonly upload?: PushUpload | undefined;
  /** Parts that the store has acknowledged, by number. */
  readonly parts: ReadonlyMap<number, S3Part>;
  /** Present when the object is complete. */
  readonly done?: PushDone | undefined;
  /** The writes that were begun, oldest first: the store may complete one after its process has died. */
  readonly writes: readonly PushWrite[];
}

interface PushWrite {
  readonly identity: string;
  readonly writeId: string;
}

interface PushDone {
  readonly identity: string;
  readonly etag: string;
}

/** A line of the journal of one object. */
type PushEntry =
  | ({ readonly type: "upload" } & PushUpload)
  | ({ readonly type: "part" } & S3Part)
  | ({ readonly type: "put" } & PushWrite)
  | ({ readonly type: "done" } & PushDone);

/** Records the progress of a push, one journal per object. Entries survive a killed process. */
export interface PushJournal {
  read(): Promise<PushRecord>;
  add(entry: PushEntry): Promise<void>;
  clear(): Promise<void>;
}

/** One line, with its end. */
export function encodePushEntry(entry: PushEntry): string {
  return `${JSON.stringify(entry)}\n`;
}

/** Reads a journal. Skips a line that is cut off or invalid: its content is just not known. */
export function parsePushRecord(text: string): PushRecord {
  let upload: PushUpload | undefined;
  let done: PushDone | undefined;
  let parts = new Map<number, S3Part>();
  const writes: PushWrite[] = [];
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
      writes.push({ identity: facts.identity, writeId: facts.writeId });
    } else if (entry.type === "put") {
      writes.push({ identity: entry.identity, writeId: entry.writeId });
    } else {
      done = { identity: entry.identity, etag: entry.etag };
    }
  }
  return { upload, parts, done, writes };
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
    (type === "put" && texts("identity", "writeId")) ||
    (type === "done" && texts("identity", "etag"));
  return isEntry ? (value as PushEntry) : undefined;
}
