import { type Bytes, Scratch } from "../../base/bytes.ts";
import { checkRange } from "../../bytes/extents.ts";
import type { Source, SourceDescriptor } from "../../bytes/source.ts";
import { planBlockBatches } from "../../formats/aerovault/block-batches.ts";
import { blockExtent, decodeBlock } from "../../formats/aerovault/block-check.ts";
import { VaultCipher } from "../../formats/aerovault/framing.ts";
import type { VaultKeys } from "../../formats/aerovault/keys.ts";
import type { Engine } from "../../primitives/engine.ts";
import type { ExtractJob, Piece } from "./extract-plan.ts";

/** Where a thread puts what it decoded. Structured-clonable. */
export type ExtractTarget =
  | {
      /** A file that is open already. */
      readonly kind: "open";
      readonly descriptor: number;
      /** For errors. */
      readonly label: string;
    }
  | {
      /** A file to be made under a name of its own, and given its name once it is complete. */
      readonly kind: "create";
      /** The folder, as a path that can be used for the time of the job. */
      readonly folder: string;
      readonly name: string;
      readonly mode: number;
      /** Seconds since 1970. */
      readonly mtime: number | undefined;
      readonly overwrite: "refuse" | "replace";
      /** For errors. */
      readonly label: string;
    };

/** One job of an extraction. */
export interface ExtractRequest {
  /** Where absent, only the thread that has the vault open can do this. */
  readonly vault: SourceDescriptor | undefined;
  readonly label: string;
  readonly keys: VaultKeys;
  readonly job: ExtractJob<ExtractTarget>;
}

/** A file that is being written by one thread. */
export interface TargetFile {
  write(bytes: Bytes, at: number): void;
  /** Gives the file its mode, its time and its name. */
  finish(): void;
  /** Drops it; after `finish` nothing happens. */
  abort(): void;
}

/** What an extraction needs from the thread it runs on. */
export interface ExtractHost {
  readonly engine: Engine;
  readonly signal?: AbortSignal | undefined;
  readonly onProgress?: ((byteLength: number) => void) | undefined;
  /** Memory that stays from job to job. */
  readonly scratch?: Scratch | undefined;
  open(descriptor: SourceDescriptor | undefined): Promise<Source>;
  openTarget(target: ExtractTarget): TargetFile;
}

/** Reads blocks, proves them, and writes their bytes where they belong. Complete files only, unless they are parts. */
export async function runExtractJob(request: ExtractRequest, host: ExtractHost): Promise<number> {
  const { job, keys, vault } = request;
  const cipher = await VaultCipher.create(host.engine, keys);
  const source = await host.open(vault);
  const files = new OpenFiles(job, host);
  try {
    await decodeAll(request, host, { source, cipher, files });
    files.finishEmpty();
    return job.files.length;
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
      const plain = await decodeBlock(stored, record, tools, { source: label, offset });
      for (; next < job.pieces.length; next++) {
        const piece = job.pieces[next] as Piece;
        if (piece.chunk !== chunk) break;
        checkRange(label, plain.byteLength, piece.from, piece.byteLength);
        files.write(piece, plain.subarray(piece.from, piece.from + piece.byteLength));
      }
      host.onProgress?.(record.plaintextLen);
      chunk++;
    }
  }
}

/** The files of one job: each is open from its first byte to its last. */
class OpenFiles {
  readonly #job: ExtractJob<ExtractTarget>;
  readonly #host: ExtractHost;
  readonly #open = new Map<number, { readonly file: TargetFile; left: number }>();

  constructor(job: ExtractJob<ExtractTarget>, host: ExtractHost) {
    this.#job = job;
    this.#host = host;
  }

  write(piece: Piece, bytes: Bytes): void {
    const opened = this.#open.get(piece.file) ?? this.#begin(piece.file);
    opened.file.write(bytes, piece.at);
    opened.left -= bytes.byteLength;
    if (opened.left > 0) return;
    opened.file.finish();
    this.#open.delete(piece.file);
  }

  /** Files without bytes have no piece that would make them. */
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
