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
import { basename, isAbsolute, join } from "node:path";
import type { Bytes } from "../../../../base/bytes.ts";
import { isTareError, LimitError, UsageError } from "../../../../base/errors.ts";
import { isoTime } from "../../../../base/figures.ts";
import type { LimitOverrides } from "../../../../base/limits.ts";
import { decodeUtf8 } from "../../../../base/text.ts";
import type { Extent } from "../../../../bytes/extents.ts";
import type { Source } from "../../../../bytes/source.ts";
import { findPathFault } from "../../../../formats/aerovault/paths.ts";
import { openSource } from "../../../../open.ts";
import { matchGlob } from "../../../../operations/reading/glob.ts";
import {
  type AddInput,
  type FileInput,
  type OpenedInput,
  type StreamInput,
  tensorExtents,
} from "../../../../operations/vault/inputs.ts";
import type { Engine } from "../../../../primitives/engine.ts";
import { errnoOf, fileError, fullPath } from "../../errors.ts";
import { filesBeside } from "../../files/output-place.ts";
import {
  changedError,
  type FileIdentity,
  fileIdentity,
  hasFileChanged,
  identityOf,
  openFile,
} from "../../files/source.ts";
import { namedFileError } from "../../folders.ts";

/** Most levels of folders: the limit of the reference, which drops deeper ones silently. */
const MAX_DEPTH = 100;
const MODE_BITS = 0o7777n;

export interface TreeOptions {
  /** Directory inside the vault; "" is its top. */
  readonly to: string;
  readonly include: readonly string[];
  readonly exclude: readonly string[];
  /** "follow" walks into links to folders; "refuse" stops at them, also where a path that was given is one. */
  readonly links: "follow" | "refuse";
  /** The vault itself, and the files that belong to it, which are never added to it. */
  readonly vault: OwnFiles | undefined;
  /** Called with facts that the user should know although nothing is wrong. */
  readonly onNote: (text: string) => void;
  /** Opens a file for reading, with its tensors if it is a model. */
  readonly openFile: (path: string, identity: string) => Promise<OpenedInput>;
}

/**
 * The inputs that `paths` name, as for `cp -r`: the base name of each is its entry, and "PATH/." means the contents of
 * a folder. Nothing is left out silently: unreadable folders, names that a vault cannot store, devices, pipes, sockets
 * and broken links are errors.
 */
export function collectInputs(paths: readonly string[], options: TreeOptions): AddInput[] {
  const walk = new TreeWalk(options);
  for (const path of paths) walk.start(path);
  return walk.inputs;
}

interface Visit {
  readonly path: string;
  /** Path in the vault; "" for a folder of which only the contents are wanted. */
  readonly entry: string;
  readonly depth: number;
  /** Identities of the folders on the way, to detect links that lead back. */
  readonly above: readonly string[];
}

class TreeWalk {
  readonly inputs: AddInput[] = [];
  readonly #options: TreeOptions;

  constructor(options: TreeOptions) {
    this.#options = options;
  }

  start(path: string): void {
    const onlyInside = /(^|\/)\.{1,2}\/*$/.test(path) || fullPath(path) === "/";
    const name = basename(fullPath(path));
    const parts = [this.#options.to, onlyInside ? "" : name].filter((part) => part !== "");
    this.#visit({ path, entry: parts.join("/"), depth: 0, above: [] });
  }

  #visit(visit: Visit): void {
    const { path } = visit;
    const own = look(withoutDot(path), lstatSync);
    if (!own.isSymbolicLink()) {
      this.#take(visit, own);
      return;
    }
    const target = look(path, statSync);
    if (target.isDirectory() && this.#options.links === "refuse") throw folderLink(path);
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
    if (vault?.beside.some(({ device, inode }) => stats.dev === device && stats.ino === inode) === true) {
      onNote(`"${path}" belongs to the vault itself and is left out`);
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
    // With --include, only folders that contain a file are made, together with the file.
    const isTop = entry === "" || entry === this.#options.to;
    if (!isTop && this.#options.include.length === 0) {
      this.inputs.push({ kind: "directory", path: entry, label: path, ...factsOf(stats) });
    }
    const here = [...above, identity];
    const base = join(path, "/");
    for (const name of listFolder(path)) {
      const inside = entry === "" ? name : `${entry}/${name}`;
      this.#visit({ path: `${base}${name}`, entry: inside, depth: depth + 1, above: here });
    }
  }

  #file(path: string, entry: string, stats: BigIntStats): FileInput | StreamInput {
    const identity = identityOf(stats);
    const size = Number(stats.size);
    // Files that the system creates on reading, such as those below /proc, have a length of 0 but do have content.
    if (size === 0 && hasContent(path)) {
      return { kind: "stream", path: entry, label: path, ...factsOf(stats), pieces: () => readToEnd(path) };
    }
    return {
      kind: "file",
      path: entry,
      label: path,
      size,
      ...factsOf(stats),
      descriptor: {
        kind: "file",
        path: isAbsolute(path) ? path : `${fullPath("")}/${path}`,
        byteLength: size,
        identity,
      },
      open: () => this.#options.openFile(path, identity),
    };
  }
}

/** For "LINK/" and "LINK/." the system shows the folder; whether the name itself is a link shows without that end. */
function withoutDot(path: string): string {
  let end = path.length;
  for (let ending = 1; end > 0 && ending > 0; end -= ending) {
    ending = path[end - 1] === "/" ? 1 : path.endsWith("/.", end) ? 2 : 0;
  }
  return end === 0 ? path : path.slice(0, end);
}

/** Whether a file with a stated length of 0 has a readable byte. */
function hasContent(path: string): boolean {
  try {
    // A file without bytes yet must not block everything.
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
    throw namedFileError(error, `Cannot add "${path}"`, { source: path });
  }
}

/** Names in a folder, sorted, so that the same tree is always stored in the same order. */
function listFolder(path: string): string[] {
  try {
    const names = readdirSync(path);
    // Bytes that are not UTF-8 appear as this character; then check the bytes themselves.
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
    { hint: "Rename it, or leave it out with the option exclude; a vault cannot store that name" },
  );
}

function factsOf(stats: BigIntStats): { readonly mtime: string | undefined; readonly mode: number } {
  return { mtime: formatTime(stats.mtimeNs), mode: Number(stats.mode & MODE_BITS) };
}

/** RFC 3339 with as many digits as needed; undefined for a time outside of the years that it can express. */
export function formatTime(nanoseconds: bigint): string | undefined {
  const rest = ((nanoseconds % 1_000_000_000n) + 1_000_000_000n) % 1_000_000_000n;
  const seconds = Number((nanoseconds - rest) / 1_000_000_000n);
  const text = isoTime(seconds * 1000);
  if (text === undefined) return undefined;
  const whole = text.slice(0, -5);
  const fraction = rest === 0n ? "" : `.${rest.toString().padStart(9, "0").replace(/0+$/, "")}`;
  return `${whole}${fraction}Z`;
}

export interface OwnFiles extends FileIdentity {
  /** Sidecar, lock and journal, as far as they exist. */
  readonly beside: readonly FileIdentity[];
}

/** The path itself if it cannot be followed: opening it says why. */
function realPathOf(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    return path;
  }
}

/** Recognises a vault and the files that belong to it in a tree. */
export function ownFilesOf(vault: string): OwnFiles | undefined {
  const own = fileIdentity(vault);
  if (own === undefined) return undefined;
  const names = new Set([fullPath(vault), realPathOf(vault)].flatMap(filesBeside));
  const beside = [...names].map(fileIdentity).filter((one) => one !== undefined);
  return { ...own, beside };
}

function folderLink(path: string): UsageError {
  const message = `Cannot add "${path}": it is a link to a folder`;
  const hint =
    "Pass the option follow to store what is in that folder, name the folder itself, or leave the link out with the option exclude";
  return new UsageError("usage/vault.link", message, { source: path }, { hint });
}

function specialFile(path: string): UsageError {
  const message = `Cannot add "${path}": it is a device, pipe or socket, not a file`;
  return new UsageError(
    "usage/not-a-file",
    message,
    { source: path },
    { hint: "Leave it out with the option exclude" },
  );
}

function cycle(path: string): UsageError {
  return new UsageError("usage/vault.link", `Cannot add "${path}": links lead round in a circle`, { source: path });
}

function tooDeep(path: string): LimitError {
  const message = `Cannot add "${path}": folders must be at most ${MAX_DEPTH} deep`;
  const hint = "Add a deeper part of the tree by itself, with the option to";
  return new LimitError("limit/vault.depth", message, { source: path }, { hint });
}

export interface InputOptions {
  readonly engine: Engine;
  readonly limits: LimitOverrides;
  /** "ignore" cuts models like any other file. */
  readonly tensors: "cut" | "ignore";
  readonly signal?: AbortSignal | undefined;
}

/** Opens a file to be stored; throws `source/changed` if it does not have this identity. */
export async function openVaultInput(path: string, identity: string, options: InputOptions): Promise<OpenedInput> {
  const source = await openFile(path, { signal: options.signal });
  try {
    if (source.descriptor?.kind === "file" && source.descriptor.identity !== identity) throw changedError(path);
    const tensors = options.tensors === "cut" ? await findTensors(source, options) : [];
    return {
      source,
      tensors,
      async checkUnchanged() {
        if (await hasFileChanged(source)) throw changedError(path);
      },
      close: () => source.close(),
    };
  } catch (error) {
    await source.close();
    throw error;
  }
}

/** Empty if the file is not a known model, or a damaged one: it is stored all the same. */
export async function findTensors(
  source: Source,
  { engine, limits, signal }: Pick<InputOptions, "engine" | "limits" | "signal">,
): Promise<readonly Extent[]> {
  try {
    const { container } = await openSource(source, { engine, limits, signal });
    return container.kind === "model" ? tensorExtents(container) : [];
  } catch (error) {
    if (isTareError(error)) return [];
    throw error;
  }
}
