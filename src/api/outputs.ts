import { UsageError } from "../base/errors.ts";
import { callersFolder, callersSinkOf } from "../bytes/caller.ts";
import { type DirectoryHandle, type FileHandle, isDirectoryHandle, isFileHandle } from "../bytes/handles/handle.ts";
import { fileHandleSink, handleFolder } from "../bytes/handles/outputs.ts";
import { callersLabel } from "../bytes/layers/foreign.ts";
import type { Resolver } from "../bytes/resolver.ts";
import { alteredSink, existsError, type Output as Folder, type Sink, withSinks } from "../bytes/sink.ts";
import type { Source } from "../bytes/source.ts";
import { streamSink } from "../bytes/stream.ts";
import type { OpenRequest } from "./inputs.ts";
import type { WriteOptions } from "./options.ts";

export type { Folder };

/** What can be written. One file: a name, an address, a file handle, a stream, a Sink. Several: a folder of any kind. */
export type Output = string | URL | FileHandle | DirectoryHandle | WritableStream<Uint8Array> | Sink | Folder;

/** Where a verb writes: what was named, and how its files come to be. */
export interface Destination {
  /** Shown in errors. */
  readonly label: string;
  /** The name of the one file that the user asked for; undefined for folders and for what has no name. */
  readonly fileName: string | undefined;
  /** Whether several files can be written. */
  readonly holds: "one file" | "files";
  /** Refuses more files than it holds, those of an earlier run counted; absent if it holds any number. */
  readonly checkCount?: ((count: number) => void) | undefined;
  /** Where Sinks are opened, once the name of the first file is known; "reads back" if files are read before commit. */
  open(name: string, use?: "reads back"): Promise<Folder>;
  /** How a result names a file of this output. */
  pathOf(name: string): string;
  /** Refuses files that would be replaced, before any work is done. */
  checkAbsent(names: readonly string[]): Promise<void>;
  /** True for files of this machine. */
  readonly isDisk?: true | undefined;
  /** False if what is written goes out as it comes, and cannot be read back. */
  readonly isReadable?: false | undefined;
  /** Takes back what this call has made: these files, and folders that were missing. Present if something can be left. */
  undo?(names: readonly string[]): Promise<void>;
  /** Present if files can be read only after they have their names: reaches them then. `name` is the first one's. */
  written?(name: string): Promise<Resolver>;
}

/** How a verb uses its output, whatever the user's options are. */
export interface OutputUse {
  /** "file" if text names one file, even where a folder has that name; "folder" if the verb chooses the names. */
  readonly names?: "file" | "folder" | undefined;
  /** "kept" if the output holds only a part of the input, and so never takes its place. */
  readonly inputs?: "kept" | undefined;
}

/** How a runtime writes to text. */
export interface OutputHost {
  /** An address, and where there is a file system also a path. */
  destinationOf(text: string, options: OutputRequest, use?: OutputUse): Promise<Destination>;
}

/** The options of writing. */
export interface OutputRequest extends OpenRequest, WriteOptions {
  readonly engine: OpenRequest["engine"];
}

/** The place that an Output means; nothing is written yet. */
export async function destinationOf(
  host: OutputHost,
  output: Output,
  options: OutputRequest,
  use?: OutputUse,
): Promise<Destination> {
  if (typeof output === "string") return host.destinationOf(output, options, use);
  if (typeof output !== "object" || output === null) throw unusable();
  if (output instanceof URL) return host.destinationOf(output.href, options, use);
  const { signal } = options;
  const one = (label: string, fileName: string | undefined, create: () => Promise<Sink>): Destination =>
    single(label, fileName, () => callersSinkOf(label, signal, create));
  if (output instanceof WritableStream)
    return { ...one("stream", undefined, async () => streamSink(output, "stream", "release")), isReadable: false };
  // A handle names the file that its user chose, so it is always replaced.
  if (isFileHandle(output)) return one(output.name, output.name, () => fileHandleSink(output));
  if (isDirectoryHandle(output)) return handleDestination(output, options);
  if (isFolder(output)) return folderDestination(callersFolder(output, signal));
  if (isSink(output)) {
    const label = callersLabel(output.label, "sink");
    return { ...one(label, undefined, async () => output), pathOf: () => label };
  }
  if (isNodeStream(output)) throw nodeStreamError();
  throw unusable();
}

/** Writes one file. It appears when it is complete, or not at all; `name` is for places that have none of their own. */
export async function writeOne(place: Destination, name: string, write: (sink: Sink) => Promise<void>): Promise<void> {
  const writeSink = async (folder: Folder): Promise<void> => commitTo(await folder.create(folder.name), write);
  await writeFiles(place, { name: place.fileName ?? name }, writeSink);
}

/** How files are written into a place. */
export interface Filling {
  /** Of the first file. */
  readonly name: string;
  readonly use?: "reads back" | undefined;
  /** Whether files of these names may be there. */
  readonly force?: boolean | undefined;
}

/**
 * Writes the files of one call. If that fails, those that it has committed are taken away again, and no other: a name
 * that was planned may be the file of another process by now.
 */
export async function writeFiles(
  place: Destination,
  { name, use, force }: Filling,
  write: (folder: Folder) => Promise<void>,
): Promise<void> {
  const made: string[] = [];
  try {
    const folder = await place.open(name, use);
    const create = async (fileName: string): Promise<Sink> => {
      const isNew = force !== true || (await isFree(folder, fileName));
      const sink = await folder.create(fileName);
      return alteredSink(sink, {
        async commit() {
          await sink.commit();
          if (isNew) made.push(fileName);
        },
      });
    };
    await write(withSinks(folder, create));
  } catch (error) {
    await place.undo?.(made);
    throw error;
  }
}

/** What was replaced cannot be brought back, so it is not taken away either. */
async function isFree(folder: Folder, fileName: string): Promise<boolean> {
  if (folder.peek === undefined) return false;
  const existing = await folder.peek(fileName);
  await existing?.close();
  return existing === undefined;
}

/** Fills a sink and commits it; a failure aborts it. */
export async function commitTo(sink: Sink, write: (sink: Sink) => Promise<void>): Promise<void> {
  try {
    await write(sink);
    await sink.commit();
  } catch (error) {
    await sink.abort();
    throw error;
  }
}

/** Writes all bytes of a source into a sink, and does not commit it. */
export async function appendAll(
  source: Source,
  sink: Sink,
  { signal, onBytes }: { readonly signal?: AbortSignal | undefined; readonly onBytes: (byteLength: number) => void },
): Promise<void> {
  for await (const piece of source.stream(0, { signal })) {
    await sink.append(piece);
    onBytes(piece.byteLength);
  }
  signal?.throwIfAborted();
}

/** Refuses several files for a place that holds one. */
export function checkHolds({ holds, label, checkCount }: Destination, count: number): void {
  checkCount?.(count);
  if (holds === "files" || count <= 1) return;
  const message = `Cannot write ${count} files to "${label}": it holds one file`;
  const hint = "Pass a folder: a directory, a directory handle, or memory()";
  throw new UsageError("usage/output-single", message, { source: label }, { hint });
}

function unusable(): UsageError {
  return new UsageError(
    "usage/output",
    "Cannot write to this output: it is none of the kinds that can be written",
    { source: "output" },
    {
      hint: "Pass an address, in Node also a path, a file or directory handle, a WritableStream, a Sink, or a folder in memory",
    },
  );
}

/** A place for one file, whatever the file is called. */
function single(label: string, fileName: string | undefined, create: () => Promise<Sink>): Destination {
  return {
    label,
    fileName,
    holds: "one file",
    open: async (name) => ({ label, name, create }),
    pathOf: (name) => fileName ?? name,
    checkAbsent: async () => undefined,
  };
}

function folderDestination(folder: Folder): Destination {
  return {
    label: folder.label,
    fileName: folder.name === "" ? undefined : folder.name,
    holds: "files",
    open: async (name) =>
      folder.name === "" ? withSinks(folder, (fileName) => folder.create(fileName), name) : folder,
    pathOf: (name) => name,
    checkAbsent: (names) => checkFolder(folder, names),
    undo: (names) => removeAll(folder, names),
  };
}

/** The failure that led here is reported, not a second one. */
async function removeAll(folder: Folder, names: readonly string[]): Promise<void> {
  for (const name of names) await folder.remove?.(name).catch(() => undefined);
}

function handleDestination(handle: DirectoryHandle, { force, signal }: OutputRequest): Destination {
  const overwrite = force === true ? "replace" : "refuse";
  // One for all: it knows which directories it has made.
  const folder = callersFolder(handleFolder(handle, "", { overwrite }), signal);
  return {
    label: handle.name,
    fileName: undefined,
    holds: "files",
    open: async (name) => withSinks(folder, folder.create, name),
    pathOf: (name) => name,
    checkAbsent: async (names) => {
      if (overwrite === "refuse") await checkFolder(folder, names);
    },
    undo: (names) => removeAll(folder, names),
  };
}

async function checkFolder(folder: Folder, names: readonly string[]): Promise<void> {
  for (const name of names) {
    const existing = await folder.peek?.(name);
    if (existing === undefined) continue;
    await existing.close();
    throw existsError(name, folder.label);
  }
}

function isFolder(output: object): output is Folder {
  return "create" in output && typeof output.create === "function";
}

/** Node had streams before there were web streams; tare needs the latter, which exist everywhere. */
function isNodeStream(output: object): boolean {
  return "write" in output && "end" in output && "on" in output;
}

function nodeStreamError(): UsageError {
  const message = "Cannot write to this output: a stream of Node must be passed as a WritableStream";
  const hint = "Pass Writable.toWeb(stream), with Writable of node:stream";
  return new UsageError("usage/output", message, { source: "output" }, { hint });
}

function isSink(output: object): output is Sink {
  return "append" in output && typeof output.append === "function";
}
