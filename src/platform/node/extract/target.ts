import {
  type BigIntStats,
  closeSync,
  constants,
  fchmodSync,
  fsyncSync,
  futimesSync,
  linkSync,
  lstatSync,
  mkdtempSync,
  openSync,
  readdirSync,
  renameSync,
  rmSync,
  type Stats,
  unlinkSync,
} from "node:fs";
import { join } from "node:path";
import type { Bytes } from "../../../base/bytes.ts";
import { SourceError, UsageError } from "../../../base/errors.ts";
import { existsError } from "../../../bytes/sink.ts";
import type { ExtractTarget, TargetFile } from "../../../operations/vault/extract/worker.ts";
import { errnoOf, fileError, fullPath } from "../errors.ts";
import { firstMissing, makeFolderSync, removeEmptyFolders } from "../files/own-folder.ts";
import { checkUnprotectedSync } from "../files/partial-files.ts";
import { writeFully } from "../files/reads.ts";
import { extractError, syncDescriptor, temporaryName } from "./folders.ts";

/** O_EXCL and O_NOFOLLOW: never write through a link that an attacker placed here in advance. */
const CREATE_FLAGS = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | (constants.O_NOFOLLOW ?? 0);

const OWNER_READS = 0o400;

type CreateTarget = Extract<ExtractTarget, { readonly kind: "create" }>;

/** Opens the file that an extraction writes, with blocking calls: for worker threads. */
export function openExtractTarget(target: ExtractTarget): TargetFile {
  return target.kind === "open" ? sharedFile(target) : new CreatedFile(target);
}

/** Other jobs write to the file too; the caller that opened it finishes it. */
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

/** A file under a temporary name that gets its final name when it is complete. */
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
      // The file that it replaces must not be gone before this one is durable, and a file without read permission
      // cannot be opened again later. All other files are synced together at the end.
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

  /** Closes once: later, the number may belong to another file. */
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
      // It has its final name already, or another program removed it.
    }
  }

  #fault(error: unknown): unknown {
    const { label } = this.#target;
    if (errnoOf(error) === "EEXIST")
      return this.#target.overwrite === "claim" ? sharedError(label) : existsError(label);
    return extractError(error, label);
  }
}

/** An existing file stays unless it is to be replaced. A link is replaced, not followed. */
function publish(from: string, to: string, overwrite: CreateTarget["overwrite"]): void {
  if (overwrite === "replace") {
    renameSync(from, to);
    return;
  }
  try {
    linkSync(from, to);
  } catch (error) {
    if (errnoOf(error) === "EEXIST" || errnoOf(error) === "ENOENT") throw error;
    // The file system has no hard links. This way has a small race: a file may appear between the two calls.
    closeSync(openSync(to, CREATE_FLAGS, 0o600));
    renameSync(from, to);
    return;
  }
  unlinkSync(from);
}

/** Refuses to replace what --force does not replace: a folder, and a write-protected file. A link is no matter. */
export function checkFile(found: Stats | BigIntStats, path: string, label: string): void {
  if (found.isDirectory()) {
    const hint = "Remove the folder, or extract to another one";
    throw new SourceError(
      "source/is-directory",
      `Cannot write "${label}": it is a folder`,
      { source: label },
      { hint },
    );
  }
  if (found.isFile()) checkUnprotectedSync(path, Number(found.mode), label);
}

/** With --force: refuses to replace a file that was not there when the extraction began. */
function sharedError(label: string): UsageError {
  const message = `Cannot extract to "${label}": another file got that name meanwhile, as where the file system takes two names for one`;
  const hint = "Extract them to different folders, by their names, or to a file system that keeps them apart";
  return new UsageError("usage/vault.same-name", message, { source: label }, { hint });
}

/**
 * For systems without paths by descriptor: extracts into a fresh folder that only this user may enter, then moves the
 * complete files into the root. Folders that exist in both are merged; links in the root are never followed. Between
 * the check of a folder of the root and the move into it, a user who may write there could replace it.
 */
export async function stageExtraction<O extends StagedOptions, R>(
  options: O,
  extract: (staged: O) => Promise<R>,
): Promise<R> {
  const { root } = options;
  const label = options.label ?? root;
  const path = fullPath(root);
  const first = firstMissing(path);
  let staging: string | undefined;
  let outcome: "done" | "failed" = "failed";
  try {
    makeFolderSync(root);
    // mkdtemp gives mode 0700.
    staging = mkdtempSync(join(root, ".tare-extract-"));
    const report = await extract({ ...options, root: staging, label });
    checkMoves(staging, root, { label, overwrite: options.overwrite });
    moveInto(staging, root, { label, overwrite: options.overwrite, moved: new Set() });
    outcome = "done";
    return report;
  } finally {
    if (staging !== undefined) rmSync(staging, { recursive: true, force: true });
    if (outcome === "failed") removeEmptyFolders(path, first);
  }
}

export interface StagedOptions {
  readonly root: string;
  readonly label?: string | undefined;
  readonly overwrite: "refuse" | "replace";
}

interface MoveOptions {
  readonly label: string;
  readonly overwrite: CreateTarget["overwrite"];
  /** Files and folders that were moved already: they are not replaced when another name leads to them. */
  readonly moved: Set<string>;
}

/** Refuses what cannot be moved into the root, before the first move. */
function checkMoves(from: string, to: string, { label, overwrite }: Omit<MoveOptions, "moved">): void {
  for (const entry of readdirSync(from, { withFileTypes: true })) {
    const [target, shown] = [join(to, entry.name), join(label, entry.name)];
    const existing = lstatSync(target, { throwIfNoEntry: false });
    if (existing === undefined) continue;
    if (entry.isDirectory() && existing.isDirectory()) {
      checkMoves(join(from, entry.name), target, { label: shown, overwrite });
    } else if (entry.isDirectory() || overwrite === "refuse") throw existsError(shown);
    else checkFile(existing, target, shown);
  }
}

function moveInto(from: string, to: string, options: MoveOptions): void {
  const folder = openSync(to, "r");
  try {
    moveEntries(from, to, options);
    syncDescriptor(folder);
  } finally {
    closeSync(folder);
  }
}

function moveEntries(from: string, to: string, { label, overwrite, moved }: MoveOptions): void {
  for (const entry of readdirSync(from, { withFileTypes: true })) {
    const source = join(from, entry.name);
    const target = join(to, entry.name);
    const shown = join(label, entry.name);
    const own = identityOf(source);
    const existing = lstatSync(target, { throwIfNoEntry: false });
    const isOurs = existing !== undefined && moved.has(identityOf(target));
    if (entry.isDirectory() && existing?.isDirectory() === true) {
      // The folder was moved here as a whole, so it replaced no existing file.
      const inside = isOurs && overwrite === "replace" ? "claim" : overwrite;
      moveInto(source, target, { label: shown, overwrite: inside, moved });
      continue;
    }
    const fault = overwrite === "refuse" ? existsError : sharedError;
    if (existing !== undefined && entry.isDirectory()) throw existsError(shown);
    if (existing !== undefined && (isOurs || overwrite !== "replace")) throw fault(shown);
    try {
      if (entry.isDirectory()) renameSync(source, target);
      else publish(source, target, overwrite);
      moved.add(own);
    } catch (error) {
      if (errnoOf(error) === "EEXIST") throw fault(shown);
      throw fileError(error, `Cannot extract to "${shown}"`, { source: shown });
    }
  }
}

function identityOf(path: string): string {
  const { dev, ino } = lstatSync(path, { bigint: true });
  return `${dev}:${ino}`;
}
