import {
  type BigIntStats,
  closeSync,
  constants,
  createReadStream,
  lstatSync,
  openSync,
  readdirSync,
  readSync,
  realpathSync,
  statSync,
} from "node:fs";
import { basename, isAbsolute, join, resolve } from "node:path";
import type { Bytes } from "../../base/bytes.ts";
import { LimitError, UsageError } from "../../base/errors.ts";
import { decodeUtf8 } from "../../base/text.ts";
import { findPathFault } from "../../formats/aerovault/paths.ts";
import { matchGlob } from "../../operations/select.ts";
import type { AddInput, FileInput, OpenedInput, StreamInput } from "../../operations/vault/inputs.ts";
import { errnoOf, fileError } from "./errors.ts";
import { identityOf } from "./file-source.ts";

/** Folders inside folders: as deep as the reference goes, which drops what is below without a word. */
const MAX_DEPTH = 100;
const MODE_BITS = 0o7777n;

export interface TreeOptions {
  /** Directory inside the vault; "" is its top. */
  readonly to: string;
  readonly include: readonly string[];
  readonly exclude: readonly string[];
  /** "follow" walks into links to folders; "refuse" stops at them. */
  readonly links: "follow" | "refuse";
  /** Identity of the vault itself, which is never added to itself. */
  readonly vault: { readonly device: bigint; readonly inode: bigint } | undefined;
  /** Things a person should know although nothing is wrong. */
  readonly onNote: (text: string) => void;
  /** Opens a file for reading, with the tensors it holds where it is a model. */
  readonly openFile: (path: string, identity: string) => Promise<OpenedInput>;
}

/**
 * What `paths` name, as `cp -r` takes it: the base name of each is its entry, and "PATH/." stands for what is inside. Nothing
 * is left out in silence: folders that cannot be read, names that no vault can store, devices, pipes, sockets and links that
 * lead nowhere are errors.
 */
export function collectInputs(paths: readonly string[], options: TreeOptions): AddInput[] {
  const walk = new TreeWalk(options);
  for (const path of paths) walk.start(path);
  return walk.inputs;
}

interface Visit {
  readonly path: string;
  /** In the vault; "" for a folder whose contents alone are wanted. */
  readonly entry: string;
  readonly depth: number;
  /** Identities of the folders on the way, against links that lead back. */
  readonly above: readonly string[];
}

class TreeWalk {
  readonly inputs: AddInput[] = [];
  readonly #options: TreeOptions;
  readonly #here = process.cwd();

  constructor(options: TreeOptions) {
    this.#options = options;
  }

  start(path: string): void {
    const onlyInside = /(^|\/)\.{1,2}\/*$/.test(path) || resolve(path) === "/";
    const name = basename(resolve(path));
    const parts = [this.#options.to, onlyInside ? "" : name].filter((part) => part !== "");
    this.#visit({ path, entry: parts.join("/"), depth: 0, above: [] }, "named");
  }

  #visit(visit: Visit, origin: "named" | "found"): void {
    const { path } = visit;
    const own = look(path, lstatSync);
    if (!own.isSymbolicLink()) {
      this.#take(visit, own);
      return;
    }
    const target = look(path, statSync);
    if (target.isDirectory() && origin === "found" && this.#options.links === "refuse") throw folderLink(path);
    if (target.isFile()) this.#options.onNote(`"${path}" is a link: what it points to is stored`);
    this.#take(visit, target);
  }

  #take(visit: Visit, stats: BigIntStats): void {
    const { path, entry } = visit;
    const { vault, exclude, include, onNote } = this.#options;
    if (vault !== undefined && stats.dev === vault.device && stats.ino === vault.inode) {
      onNote(`"${path}" is the vault itself and is left out`);
      return;
    }
    if (entry !== "" && exclude.some((glob) => matchGlob(glob, entry))) return;
    if (entry !== "") checkName(path, entry);
    if (stats.isDirectory()) {
      this.#enter(visit, stats);
      return;
    }
    if (!stats.isFile()) throw specialFile(path);
    const isWanted = include.length === 0 || include.some((glob) => matchGlob(glob, entry));
    if (isWanted) this.inputs.push(this.#file(path, entry, stats));
  }

  #enter(visit: Visit, stats: BigIntStats): void {
    const { path, entry, depth, above } = visit;
    const identity = `${stats.dev}:${stats.ino}`;
    if (above.includes(identity)) throw cycle(path);
    if (depth > MAX_DEPTH) throw tooDeep(path);
    // With --include only the folders that something is in are made, by the files themselves.
    const isTop = entry === "" || entry === this.#options.to;
    if (!isTop && this.#options.include.length === 0) {
      this.inputs.push({ kind: "directory", path: entry, label: path, ...factsOf(stats) });
    }
    const here = [...above, identity];
    const base = join(path, "/");
    for (const name of listFolder(path)) {
      const inside = entry === "" ? name : `${entry}/${name}`;
      this.#visit({ path: `${base}${name}`, entry: inside, depth: depth + 1, above: here }, "found");
    }
  }

  #file(path: string, entry: string, stats: BigIntStats): FileInput | StreamInput {
    const identity = identityOf(stats);
    const size = Number(stats.size);
    // Files that the system makes as they are read, such as those below /proc, have a length of 0 and content all the same.
    if (size === 0 && hasContent(path)) {
      return { kind: "stream", path: entry, label: path, ...factsOf(stats), pieces: () => readToEnd(path) };
    }
    return {
      kind: "file",
      path: entry,
      label: path,
      size,
      ...factsOf(stats),
      descriptor: { kind: "file", path: isAbsolute(path) ? path : `${this.#here}/${path}`, byteLength: size, identity },
      open: () => this.#options.openFile(path, identity),
    };
  }
}

/** Whether a byte can be read of a file whose length is given as 0. */
function hasContent(path: string): boolean {
  try {
    // A file that has nothing to say yet must not stop everything.
    const descriptor = openSync(path, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0));
    try {
      return readSync(descriptor, new Uint8Array(1)) > 0;
    } finally {
      closeSync(descriptor);
    }
  } catch (error) {
    throw fileError(error, `Cannot add "${path}"`, { source: path });
  }
}

async function* readToEnd(path: string): AsyncGenerator<Bytes> {
  try {
    for await (const piece of createReadStream(path)) yield new Uint8Array(piece as Uint8Array);
  } catch (error) {
    throw errnoOf(error) === undefined ? error : fileError(error, `Cannot add "${path}"`, { source: path });
  }
}

function look(path: string, by: typeof lstatSync | typeof statSync): BigIntStats {
  try {
    return by(path, { bigint: true }) as BigIntStats;
  } catch (error) {
    throw fileError(error, `Cannot add "${path}"`, { source: path });
  }
}

/** Names in a folder, sorted, so that the same tree is always stored in the same way. */
function listFolder(path: string): string[] {
  try {
    const names = readdirSync(path);
    // Bytes that are no UTF-8 come as this character; then the bytes themselves are looked at.
    if (names.some((name) => name.includes("\ufffd"))) checkEncoding(path);
    return names.sort();
  } catch (error) {
    throw error instanceof UsageError ? error : fileError(error, `Cannot add "${path}"`, { source: path });
  }
}

function checkEncoding(path: string): void {
  for (const name of readdirSync(path, { encoding: "buffer" })) {
    if (decodeUtf8(new Uint8Array(name)) !== undefined) continue;
    const shown = join(path, name.toString("latin1"));
    throw new UsageError("usage/vault.path", `Cannot add "${shown}": its name must be UTF-8`, { source: path });
  }
}

function checkName(path: string, entry: string): void {
  const fault = findPathFault(entry);
  if (fault === undefined) return;
  throw new UsageError(
    "usage/vault.path",
    `Cannot add "${path}" as "${entry}": ${fault}`,
    { source: path, path: entry },
    { hint: "Rename it, or leave it out with --exclude; a vault cannot store that name" },
  );
}

function factsOf(stats: BigIntStats): { readonly mtime: string; readonly mode: number } {
  return { mtime: formatTime(stats.mtimeNs), mode: Number(stats.mode & MODE_BITS) };
}

/** RFC 3339 with as many digits as there are. */
function formatTime(nanoseconds: bigint): string {
  const rest = ((nanoseconds % 1_000_000_000n) + 1_000_000_000n) % 1_000_000_000n;
  const seconds = Number((nanoseconds - rest) / 1_000_000_000n);
  const whole = new Date(seconds * 1000).toISOString().slice(0, -5);
  const fraction = rest === 0n ? "" : `.${rest.toString().padStart(9, "0").replace(/0+$/, "")}`;
  return `${whole}${fraction}Z`;
}

/** The vault's own identity, by which it is recognised in a tree. */
export function fileIdentity(path: string): { readonly device: bigint; readonly inode: bigint } | undefined {
  try {
    const { dev, ino } = statSync(realpathSync(path), { bigint: true });
    return { device: dev, inode: ino };
  } catch {
    return undefined; // a vault that is not there is in no tree
  }
}

function folderLink(path: string): UsageError {
  const message = `Cannot add "${path}": it is a link to a folder`;
  const hint = "Pass --follow to store what is in that folder, or leave the link out with --exclude";
  return new UsageError("usage/vault.link", message, { source: path }, { hint });
}

function specialFile(path: string): UsageError {
  const message = `Cannot add "${path}": it is a device, pipe or socket, not a file`;
  return new UsageError("usage/not-a-file", message, { source: path }, { hint: "Leave it out with --exclude" });
}

function cycle(path: string): UsageError {
  return new UsageError("usage/vault.link", `Cannot add "${path}": links lead round in a circle`, { source: path });
}

function tooDeep(path: string): LimitError {
  const message = `Cannot add "${path}": folders must be at most ${MAX_DEPTH} deep`;
  const hint = "Add a deeper part of the tree by itself, with --to";
  return new LimitError("limit/vault.depth", message, { source: path }, { hint });
}
