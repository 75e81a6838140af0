import type { Bytes } from "../../base/bytes.ts";
import { isTareError } from "../../base/errors.ts";
import { decodeHex, decodeUtf8, encodeHex, encodeUtf8 } from "../../base/text.ts";
import type { Output, Sink } from "../../bytes/sink.ts";
import type { Source, SourceDescriptor } from "../../bytes/source.ts";
import type { WriteContext } from "../../model/format.ts";
import type { Tensor } from "../../model/tensor.ts";
import type { Engine } from "../../primitives/engine.ts";
import { openAero } from "../aero/read.ts";
import type { FileImage, SetImage } from "./plan.ts";

/** A part that is already at the destination. */
interface FinishedPart {
  readonly sha256: string;
  /** BLAKE3-256 of its tensors, in the order of its rows. */
  readonly tensors: readonly Bytes[];
}

/** A journal takes a few hundred bytes per part; a larger file is not ours. */
const MAX_JOURNAL_BYTES = 64 << 20;

/** Where a log is kept, and the context of the write. */
export interface LogPlace {
  readonly output: Output;
  readonly context: WriteContext;
}

/** A complete file that does not have its final name yet. */
export interface SealedFile {
  readonly file: FileImage;
  readonly sink: Sink;
  readonly sizeBytes: number;
  /** 64 lower-case hex digits over the whole file. */
  readonly sha256: string;
}

/** Reads the journal, if the destination can have one. */
export async function openResumeLog(set: SetImage, place: LogPlace): Promise<ResumeLog> {
  const planned = set.index.image.uuid;
  const journal = await readJournal(place.output);
  if (journal === undefined) return new ResumeLog(place, planned, []);
  const earlier = decodeHex(journal.uuid) ?? planned;
  return new ResumeLog(place, set.uuid === "random" ? earlier : planned, journal.files);
}

/** What earlier runs left at the destination, and what this run leaves for the next. */
export class ResumeLog {
  /** The uuid of the set: the earlier run's if it was random. */
  readonly uuid: Bytes;
  readonly #output: Output;
  readonly #context: WriteContext;
  readonly #entries: Map<string, JournalEntry>;

  constructor(place: LogPlace, uuid: Bytes, entries: readonly JournalEntry[]) {
    this.uuid = uuid;
    this.#entries = new Map(entries.map((entry) => [entry.name, entry]));
    this.#output = place.output;
    this.#context = place.context;
  }

  /**
   * The part if it is complete and exactly what would be written. Otherwise removes it if it is still what the earlier
   * run wrote. A file that we did not write stays, and blocks writing the part.
   */
  async takeFinished(part: FileImage): Promise<FinishedPart | undefined> {
    const entry = this.#entries.get(part.name);
    if (entry === undefined) return undefined;
    const source = await this.#output.peek?.(part.name);
    if (source === undefined) return undefined;
    try {
      if (!(await this.#isUntouched(entry, source))) return undefined;
      const finished = await this.#compare(part, entry, source);
      if (finished !== undefined) return finished;
    } finally {
      await source.close();
    }
    await this.#discard(entry);
    return undefined;
  }

  /** Removes what an earlier run wrote under names that this run does not reuse. */
  async discardOthers(kept: ReadonlySet<string>): Promise<void> {
    for (const entry of [...this.#entries.values()]) {
      if (kept.has(entry.name)) continue;
      const source = await this.#output.peek?.(entry.name);
      const isOurs = source !== undefined && (await this.#isUntouched(entry, source));
      await source?.close();
      if (isOurs) await this.#discard(entry);
      else this.#entries.delete(entry.name);
    }
  }

  /** Notes a file just before it gets its name: after that the file is either there and known, or not there. */
  async add({ file, sizeBytes, sha256 }: SealedFile): Promise<void> {
    if (this.#output.replace === undefined) return;
    const fingerprint = await fingerprintPart(file, this.#context.engine);
    this.#entries.set(file.name, { name: file.name, fingerprint, sizeBytes, sha256 });
    const journal = { uuid: journalUuid(this.uuid), files: [...this.#entries.values()] };
    await this.#output.replace(journalName(this.#output.name), encodeJournal(journal));
  }

  /** For a set that is complete, or that must not be resumed. */
  async remove(): Promise<void> {
    await this.#output.remove?.(journalName(this.#output.name));
  }

  async #isUntouched({ sizeBytes, sha256 }: JournalEntry, source: Source): Promise<boolean> {
    if (source.byteLength !== sizeBytes) return false;
    const { engine, signal } = this.#context;
    const digest = await engine.digestRange("sha256", source, { offset: 0, byteLength: sizeBytes, signal });
    return encodeHex(digest) === sha256;
  }

  async #compare(part: FileImage, entry: JournalEntry, source: Source): Promise<FinishedPart | undefined> {
    const { engine } = this.#context;
    if ((await fingerprintPart(part, engine)) !== entry.fingerprint) return undefined;
    const tensors = await readHashes(source, this.#context);
    if (tensors?.length !== part.image.rows.length) return undefined;
    const unknown = part.image.tensors.flatMap((tensor, i) =>
      identityOf(tensor) === undefined ? [{ tensor, digest: tensors[i] as Bytes }] : [],
    );
    for (const { tensor, digest } of unknown) {
      if (!(await this.#hasDigest(tensor, digest))) return undefined;
    }
    return { sha256: entry.sha256, tensors };
  }

  /** Reads a source without an identity: only its content shows that it is the same. */
  async #hasDigest(tensor: Tensor, digest: Bytes): Promise<boolean> {
    const { engine, signal } = this.#context;
    const range = { offset: 0, byteLength: tensor.byteLength, signal };
    const found = await engine.digestRange("blake3", tensor.source(), range);
    return encodeHex(found) === encodeHex(digest);
  }

  async #discard(entry: JournalEntry): Promise<void> {
    await this.#output.remove?.(entry.name);
    this.#entries.delete(entry.name);
  }
}

async function readJournal(output: Output): Promise<ReturnType<typeof decodeJournal>> {
  const source = await output.peek?.(journalName(output.name));
  if (source === undefined) return undefined;
  try {
    if (source.byteLength > MAX_JOURNAL_BYTES) return undefined;
    return decodeJournal(await source.read(0, source.byteLength));
  } finally {
    await source.close();
  }
}

/** The digests in a part's own index; undefined if the part does not open. */
async function readHashes(source: Source, { engine, signal }: WriteContext): Promise<readonly Bytes[] | undefined> {
  try {
    const { content } = await openAero(source, { engine, limits: {}, signal });
    return content.index.hashes.map(({ hash }) => decodeHex(hash) as Bytes);
  } catch (error) {
    if (isTareError(error)) return undefined;
    throw error;
  }
}

/** A file that an interrupted run had finished or was about to name. */
interface JournalEntry {
  readonly name: string;
  /** Fingerprint of the plan and the sources that it was made from. */
  readonly fingerprint: string;
  readonly sizeBytes: number;
  /** 64 lower-case hex digits over the whole file. */
  readonly sha256: string;
}

/** What a run notes for the next one. */
interface Journal {
  /** 32 hex digits: parts of one set share it, also if it is random. */
  readonly uuid: string;
  readonly files: readonly JournalEntry[];
}

const KIND = "tare aeroset resume";
const VERSION = 1;

/** A hidden file next to the JSON of the set; it is removed when the set is complete. */
export function journalName(setName: string): string {
  return `.${setName}.tare-resume`;
}

export function encodeJournal({ uuid, files }: Journal): Bytes {
  return encodeUtf8(`${JSON.stringify({ kind: KIND, version: VERSION, uuid, files }, null, 1)}\n`);
}

/** Undefined for anything that is not a journal of this version; the run then starts over. */
export function decodeJournal(bytes: Bytes): Journal | undefined {
  let value: unknown;
  try {
    value = JSON.parse(decodeUtf8(bytes) ?? "");
  } catch {
    return undefined; // cut off by a crash, or a foreign file
  }
  if (!isObject(value) || value["kind"] !== KIND || value["version"] !== VERSION) return undefined;
  const { uuid, files } = value;
  if (!isHex(uuid, 32) || !Array.isArray(files) || !files.every(isEntry)) return undefined;
  return { uuid, files };
}

/** The uuid as the journal spells it. */
function journalUuid(uuid: Bytes): string {
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

/** Rows whose text is hashed at once. */
const ROWS_AT_ONCE = 256;

/**
 * SHA-256 over everything that decides a part's bytes, except the content of sources without an identity. Two parts
 * that agree in this and in that content are the same.
 */
async function fingerprintPart({ name, image }: FileImage, engine: Engine): Promise<string> {
  const { uuid, pageBytes, shardIds, layout, json, manifest, rows, tensors } = image;
  const hasher = await engine.hasher("sha256");
  const add = (value: unknown): void => hasher.update(encodeUtf8(`${JSON.stringify(value)}\n`));
  add([name, encodeHex(uuid), pageBytes ?? null, shardIds, layout.fileBytes, json.byteLength, manifest.byteLength]);
  add(layout.chunks.map(({ fourcc, offset, byteLength }) => [fourcc, offset, byteLength]));
  hasher.update(json);
  hasher.update(manifest);
  for (let start = 0; start < rows.length; start += ROWS_AT_ONCE) {
    const end = start + ROWS_AT_ONCE;
    add([rows.slice(start, end), tensors.slice(start, end).map((tensor) => identityOf(tensor) ?? null)]);
  }
  return encodeHex(hasher.digest());
}

/**
 * The file, its state and the byte range that a tensor comes from; undefined if the source cannot say it, such as a
 * URL, a cast, or a source that checks pages.
 */
function identityOf(tensor: Tensor): string | undefined {
  const { descriptor } = tensor.source();
  return descriptor === undefined ? undefined : describe(descriptor);
}

function describe(descriptor: SourceDescriptor): string | undefined {
  if (descriptor.kind === "blob" || descriptor.kind === "assembled") return undefined;
  if (descriptor.kind === "file") return `${descriptor.path} ${descriptor.identity}`;
  const of = describe(descriptor.of);
  return of === undefined ? undefined : `${of} ${descriptor.offset}+${descriptor.byteLength}`;
}
