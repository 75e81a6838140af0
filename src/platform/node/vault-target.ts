import {
  closeSync,
  constants,
  fchmodSync,
  fsyncSync,
  futimesSync,
  linkSync,
  openSync,
  renameSync,
  unlinkSync,
  writeSync,
} from "node:fs";
import type { Bytes } from "../../base/bytes.ts";
import { UsageError } from "../../base/errors.ts";
import type { ExtractTarget, TargetFile } from "../../operations/vault/extract-job.ts";
import { errnoOf, fileError } from "./errors.ts";
import { temporaryName } from "./vault-folders.ts";

/** O_EXCL and O_NOFOLLOW: a link that somebody placed here in advance is never written through. */
const CREATE_FLAGS = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | (constants.O_NOFOLLOW ?? 0);

const OWNER_READS = 0o400;

type CreateTarget = Extract<ExtractTarget, { readonly kind: "create" }>;

/** Opens where an extraction writes to, by calls that block: for worker threads. */
export function openExtractTarget(target: ExtractTarget): TargetFile {
  return target.kind === "open" ? sharedFile(target) : new CreatedFile(target);
}

/** Others write to it too; whoever opened it finishes it. */
function sharedFile({ descriptor, label }: Extract<ExtractTarget, { readonly kind: "open" }>): TargetFile {
  return {
    write: (bytes, at) => {
      try {
        writeFully(descriptor, bytes, at);
      } catch (error) {
        throw extractError(error, label);
      }
    },
    finish: () => undefined,
    abort: () => undefined,
  };
}

/** A file under a temporary name that gets its own when it is complete. */
export class CreatedFile implements TargetFile {
  readonly descriptor: number;
  readonly #target: CreateTarget;
  readonly #path: string;
  #state: "open" | "closed" | "done" = "open";

  constructor(target: CreateTarget) {
    this.#target = target;
    this.#path = `${target.folder}/${temporaryName()}`;
    try {
      this.descriptor = openSync(this.#path, CREATE_FLAGS, 0o600);
    } catch (error) {
      throw this.#fault(error);
    }
  }

  write(bytes: Bytes, at: number): void {
    try {
      writeFully(this.descriptor, bytes, at);
    } catch (error) {
      throw this.#fault(error);
    }
  }

  finish(): void {
    const { mode, mtime, folder, name, overwrite } = this.#target;
    try {
      if (mode !== 0o600) fchmodSync(this.descriptor, mode);
      if (mtime !== undefined) futimesSync(this.descriptor, mtime, mtime);
      // What it replaces must not be gone before this is durable, and what cannot be read cannot be opened again. All other
      // files are synced together, at the end.
      if (overwrite === "replace" || (mode & OWNER_READS) === 0) fsyncSync(this.descriptor);
      this.#close();
      publish(this.#path, `${folder}/${name}`, overwrite);
      this.#state = "done";
    } catch (error) {
      this.abort();
      throw this.#fault(error);
    }
  }

  abort(): void {
    if (this.#state === "done") return;
    this.#close();
    this.#remove();
  }

  /** Once: the number may be that of another file afterwards. */
  #close(): void {
    if (this.#state !== "open") return;
    this.#state = "closed";
    closeSync(this.descriptor);
  }

  #remove(): void {
    this.#state = "done";
    try {
      unlinkSync(this.#path);
    } catch {
      // It has its final name already, or was removed from outside.
    }
  }

  #fault(error: unknown): unknown {
    const { label } = this.#target;
    if (errnoOf(error) === "EEXIST") return existsError(label);
    return extractError(error, label);
  }
}

function extractError(error: unknown, label: string): unknown {
  return fileError(error, `Cannot extract to "${label}"`, { source: label });
}

/** What is there stays unless it is to be replaced; then a link is replaced, not followed. */
export function publish(from: string, to: string, overwrite: "refuse" | "replace"): void {
  if (overwrite === "replace") {
    renameSync(from, to);
    return;
  }
  try {
    linkSync(from, to);
  } catch (error) {
    if (errnoOf(error) === "EEXIST" || errnoOf(error) === "ENOENT") throw error;
    // A file system without hard links: what this loses is only the certainty that nothing came between.
    closeSync(openSync(to, CREATE_FLAGS, 0o600));
    renameSync(from, to);
    return;
  }
  unlinkSync(from);
}

/** Writes all of the bytes to an open file, by calls that block. */
export function writeFully(descriptor: number, bytes: Bytes, at: number): void {
  for (let done = 0; done < bytes.byteLength; ) {
    done += writeSync(descriptor, bytes, done, bytes.byteLength - done, at + done);
  }
}

/** Refuses to replace a file. */
export function existsError(label: string): UsageError {
  const hint = "Choose another name or folder, or pass --force";
  return new UsageError("usage/exists", `Cannot write "${label}": it exists already`, { source: label }, { hint });
}
