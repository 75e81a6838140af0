import { type Bytes, Scratch } from "../../../base/bytes.ts";
import { type ErrorJson, IntegrityError } from "../../../base/errors.ts";
import { checkRange } from "../../../bytes/extents.ts";
import type { Source, SourceDescriptor } from "../../../bytes/source.ts";
import { blockExtent, decodeBlock } from "../../../formats/aerovault/blocks/check.ts";
import { planBlockBatches } from "../../../formats/aerovault/blocks/store.ts";
import { VaultCipher } from "../../../formats/aerovault/cipher.ts";
import type { VaultKeys } from "../../../formats/aerovault/keys.ts";
import type { Engine } from "../../../primitives/engine.ts";
import type { ExtractJob, Piece } from "./plan.ts";

/** Where a thread writes decoded bytes. Structured-clonable. */
export type ExtractTarget =
  | {
      /** A file that is open already. */
      readonly kind: "open";
      readonly descriptor: number;
      /** For errors. */
      readonly label: string;
    }
  | {
      /** A file to be made under a temporary name, which gets its final name once it is complete. */
      readonly kind: "create";
      /** The folder, as a path that stays valid during the job. */
      readonly folder: string;
      readonly name: string;
      readonly mode: number;
      /** Seconds since 1970. */
      readonly mtime: number | undefined;
      /** "claim" if the name was free when the extraction began: now only another of its files can have it. */
      readonly overwrite: "refuse" | "claim" | "replace";
      /** For errors. */
      readonly label: string;
    };

/**
 * A file that this process keeps open until the extraction has ended: the state that was opened, whatever has its path
 * by now. Its bytes may change in their place, but every block is proven. Structured-clonable.
 */
export interface HeldFile {
  readonly kind: "held";
  /** Of this process, and so of all its threads. */
  readonly number: number;
  readonly byteLength: number;
  /** For errors. */
  readonly label: string;
}

/** One job of an extraction. */
export interface ExtractRequest {
  /** If absent, only the thread that has the vault open can run the job. */
  readonly vault: SourceDescriptor | HeldFile | undefined;
  readonly label: string;
  readonly keys: VaultKeys;
  readonly job: ExtractJob<ExtractTarget>;
}

/** A file that a job did not write, because a part of it cannot be proven. Structured-clonable. */
export interface LostFile {
  /** Index into the job's files. */
  readonly file: number;
  readonly error: ErrorJson;
}

/** A file that one thread is writing. */
export interface TargetFile {
  write(bytes: Bytes, at: number): void;
  /** Sets the file's mode, time and name. */
  finish(): void;
  /** Drops the file; does nothing after `finish`. */
  abort(): void;
}

/** What an extraction needs from the thread it runs on. */
export interface ExtractHost {
  readonly engine: Engine;
  readonly signal?: AbortSignal | undefined;
  readonly onProgress?: ((byteLength: number) => void) | undefined;
  /** Memory that is reused from job to job. */
  readonly scratch?: Scratch | undefined;
  open(vault: ExtractRequest["vault"]): Promise<Source>;
  openTarget(target: ExtractTarget): TargetFile;
}

/**
 * Reads blocks, checks them, and writes their bytes to the files. Only complete files appear, except parts. A damaged
 * block costs the files that need it, and no others; the result names them.
 */
export async function runExtractJob(request: ExtractRequest, host: ExtractHost): Promise<readonly LostFile[]> {
  const { job, keys, vault } = request;
  const source = await host.open(vault);
  // After the source, which may fail to open: the cipher copies the keys, and the copies must be wiped.
  const cipher = await VaultCipher.create(host.engine, keys).catch(async (error: unknown) => {
    await source.close();
    throw error;
  });
  const files = new OpenFiles(job, host);
  try {
    await decodeAll(request, host, { source, cipher, files });
    files.finishEmpty();
    return files.lost;
  } catch (error) {
    files.abort();
    throw error;
  } finally {
    cipher.wipe();
    await source.close();
  }
}

interface Tools {
  readonly source: Source;
  readonly cipher: VaultCipher;
  readonly files: OpenFiles;
}

async function decodeAll(
  { job, label }: ExtractRequest,
  host: ExtractHost,
  { source, cipher, files }: Tools,
): Promise<void> {
  const tools = { engine: host.engine, cipher, stored: "overwrite" } as const;
  let next = 0;
  let chunk = 0;
  for (const batch of planBlockBatches(job.records)) {
    host.signal?.throwIfAborted();
    const into = (host.scratch ?? new Scratch()).take("input", batch.byteLength);
    const bytes = await source.read(batch.offset, batch.byteLength, { into });
    for (const record of batch.records) {
      const { offset, byteLength } = blockExtent(record);
      const stored = bytes.subarray(offset - batch.offset, offset - batch.offset + byteLength);
      const plain = await decodeBlock(stored, record, tools, { source: label, offset }).catch(damageOf);
      for (; next < job.pieces.length; next++) {
        const piece = job.pieces[next] as Piece;
        if (piece.chunk !== chunk) break;
        if (plain instanceof IntegrityError) files.lose(piece.file, plain);
        else {
          checkRange(label, plain.byteLength, piece.from, piece.byteLength);
          files.write(piece, plain.subarray(piece.from, piece.from + piece.byteLength));
        }
      }
      host.onProgress?.(record.plaintextLen);
      chunk++;
    }
  }
}

/** The damage of a block as a value. Any other error, such as one of the disk, stops the job. */
function damageOf(error: unknown): IntegrityError {
  if (error instanceof IntegrityError) return error;
  throw error;
}

/** The files of one job: each is open from its first byte to its last. */
class OpenFiles {
  readonly #job: ExtractJob<ExtractTarget>;
  readonly #host: ExtractHost;
  readonly #open = new Map<number, { readonly file: TargetFile; left: number }>();

  readonly #lost = new Map<number, IntegrityError>();

  constructor(job: ExtractJob<ExtractTarget>, host: ExtractHost) {
    this.#job = job;
    this.#host = host;
  }

  get lost(): readonly LostFile[] {
    return [...this.#lost].map(([file, error]) => ({ file, error: error.toJSON() }));
  }

  /** Drops a file, and later bytes of it. The first damage counts. */
  lose(file: number, error: IntegrityError): void {
    if (this.#lost.has(file)) return;
    this.#lost.set(file, error);
    this.#open.get(file)?.file.abort();
    this.#open.delete(file);
  }

  write(piece: Piece, bytes: Bytes): void {
    if (this.#lost.has(piece.file)) return;
    const opened = this.#open.get(piece.file) ?? this.#begin(piece.file);
    opened.file.write(bytes, piece.at);
    opened.left -= bytes.byteLength;
    if (opened.left > 0) return;
    opened.file.finish();
    this.#open.delete(piece.file);
  }

  /** Creates files without bytes, which no piece would create. */
  finishEmpty(): void {
    for (const [i, { size }] of this.#job.files.entries()) if (size === 0) this.#begin(i).file.finish();
  }

  abort(): void {
    for (const { file } of this.#open.values()) file.abort();
    this.#open.clear();
  }

  #begin(index: number): { readonly file: TargetFile; left: number } {
    const { target, size } = this.#job.files[index] as ExtractJob<ExtractTarget>["files"][number];
    const opened = { file: this.#host.openTarget(target), left: size };
    this.#open.set(index, opened);
    return opened;
  }
}
