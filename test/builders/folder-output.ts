import type { Bytes } from "../../src/base/bytes.ts";
import { UsageError } from "../../src/base/errors.ts";
import { memorySink, memorySource } from "../../src/bytes/memory.ts";
import type { Resolver } from "../../src/bytes/resolver.ts";
import type { Output, Sink } from "../../src/bytes/sink.ts";

/** A folder in memory that outlives the runs that write to it. */
export type Folder = Map<string, Bytes>;

export interface FolderOutputOptions {
  readonly overwrite?: "refuse" | "replace";
  /** Called before every append; throwing there is a disk that fails. */
  readonly onAppend?: (name: string, byteLength: number) => void;
}

/** An Output with everything that resuming takes, as a folder on disk has it. */
export function folderOutput(folder: Folder, name: string, options: FolderOutputOptions = {}): Required<Output> {
  return {
    label: "folder",
    name,
    async create(fileName) {
      if (options.overwrite !== "replace" && folder.has(fileName)) {
        throw new UsageError("usage/exists", `Cannot write "${fileName}": it exists already`, { source: "folder" });
      }
      return folderSink(folder, fileName, options);
    },
    async peek(fileName) {
      const bytes = folder.get(fileName);
      return bytes === undefined ? undefined : memorySource(bytes, fileName);
    },
    async replace(fileName, bytes) {
      folder.set(fileName, bytes.slice());
    },
    async remove(fileName) {
      folder.delete(fileName);
    },
  };
}

/** Opens files of the folder beside `name`. */
export function folderResolver(folder: Folder, name: string): Resolver {
  return {
    name,
    async resolve(sibling) {
      return memorySource(folder.get(sibling) as Bytes, sibling);
    },
  };
}

function folderSink(folder: Folder, name: string, { onAppend }: FolderOutputOptions): Sink {
  const sink = memorySink(name);
  return {
    label: name,
    get position() {
      return sink.position;
    },
    async append(bytes) {
      onAppend?.(name, bytes.byteLength);
      await sink.append(bytes);
    },
    reserve: (byteLength) => sink.reserve(byteLength),
    fill: (offset, bytes) => sink.fill(offset, bytes),
    reopen: () => sink.reopen?.() ?? Promise.reject(new Error("memory can be read back")),
    async commit() {
      await sink.commit();
      folder.set(name, sink.published as Bytes);
    },
    abort: () => sink.abort(),
  };
}
