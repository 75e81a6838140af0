import type { Bytes } from "../../base/bytes.ts";
import { UsageError } from "../../base/errors.ts";
import { untilGrace } from "../abort.ts";
import { checkRelativeName } from "../resolver.ts";
import { checkFill, checkReserve, doneError, existsError, type Output, type Sink } from "../sink.ts";
import { peekIn } from "./folders.ts";
import { type DirectoryHandle, type FileHandle, handleError, isMissing } from "./handle.ts";

/** Writing to handles: apart from reading them, which every page can, so that a page that only reads does not load it. */

/** A folder of handles as an Output. Files of other names are left alone; a file of the same name is refused or replaced. */
export function handleFolder(
  folder: DirectoryHandle,
  name: string,
  { overwrite }: { readonly overwrite: "refuse" | "replace" },
): Output {
  const tree = new HandleTree(folder);
  const create = async (fileName: string): Promise<Sink> => {
    const existing = await peekIn(folder, fileName);
    if (existing !== undefined && overwrite === "refuse") throw existsError(fileName, folder.name);
    try {
      const handle = await tree.make(fileName);
      // The entry exists from now on, empty: a write that fails must take it away again.
      const onAbort = existing === undefined ? () => tree.removeEmpty(fileName, handle) : undefined;
      try {
        return await fileHandleSink(handle, onAbort);
      } catch (error) {
        await onAbort?.().catch(() => undefined); // the failure that led here is reported
        throw error;
      }
    } catch (error) {
      throw handleError(`Cannot write "${fileName}"`, folder.name, error);
    }
  };
  return {
    label: folder.name,
    name,
    create,
    peek: (fileName) => peekIn(folder, fileName),
    async remove(fileName) {
      checkRelativeName(fileName, { source: folder.name });
      await tree.remove(fileName).catch((error: unknown) => {
        if (!isMissing(error)) throw handleError(`Cannot remove "${fileName}"`, folder.name, error);
      });
    },
  };
}

/** Files below a handle. Directories that it has made go with the last file in them. */
class HandleTree {
  readonly #root: DirectoryHandle;
  /** Paths of directories that were missing. */
  readonly #made = new Set<string>();

  constructor(root: DirectoryHandle) {
    this.#root = root;
  }

  /** The file of this name, which exists from now on. */
  async make(fileName: string): Promise<FileHandle> {
    const steps = fileName.split("/");
    const last = steps.pop() as string;
    let place = this.#root;
    for (const [i, step] of steps.entries()) {
      const isThere = await place.getDirectoryHandle(step).then(() => true, isOther);
      place = await place.getDirectoryHandle(step, { create: true });
      if (!isThere) this.#made.add(steps.slice(0, i + 1).join("/"));
    }
    return place.getFileHandle(last, { create: true });
  }

  /** Removes a file that has no content: one that has some by now is another writer's. */
  async removeEmpty(fileName: string, handle: FileHandle): Promise<void> {
    if ((await handle.getFile()).size === 0) await this.remove(fileName);
  }

  async remove(fileName: string): Promise<void> {
    await this.#removeEntry(fileName);
    const steps = fileName.split("/");
    for (steps.pop(); this.#made.has(steps.join("/")); steps.pop()) {
      const path = steps.join("/");
      // One that is not empty is not removed.
      const isGone = await this.#removeEntry(path).then(
        () => true,
        () => false,
      );
      if (!isGone) return;
      this.#made.delete(path);
    }
  }

  async #removeEntry(path: string): Promise<void> {
    const steps = path.split("/");
    const last = steps.pop() as string;
    let place = this.#root;
    for (const step of steps) place = await place.getDirectoryHandle(step);
    await place.removeEntry(last);
  }
}

/** False for what is missing; anything else fails again, with its own error, where it is used. */
function isOther(error: unknown): boolean {
  return !isMissing(error);
}

/** Writes to a handle. Its file appears when the sink commits, and always replaces what the handle had. */
export async function fileHandleSink(handle: FileHandle, onAbort?: () => Promise<void>): Promise<Sink> {
  if (handle.createWritable === undefined) {
    const message = `Cannot write to "${handle.name}": the handle has no createWritable()`;
    const hint = "Safari has it in no window: write in a worker, or into memory()";
    throw new UsageError("usage/output", message, { source: handle.name }, { hint });
  }
  try {
    const stream = await handle.createWritable();
    return new HandleSink(handle.name, stream.getWriter(), onAbort);
  } catch (cause) {
    throw handleError(`Cannot write to "${handle.name}"`, handle.name, cause);
  }
}

class HandleSink implements Sink {
  readonly label: string;
  readonly #writer: WritableStreamDefaultWriter;
  readonly #onAbort: (() => Promise<void>) | undefined;
  #position = 0;
  /** The end of what was written: reserved room after it does not exist yet. */
  #end = 0;
  #state: "open" | "committing" | "done" = "open";

  constructor(label: string, writer: WritableStreamDefaultWriter, onAbort: (() => Promise<void>) | undefined) {
    this.label = label;
    this.#writer = writer;
    this.#onAbort = onAbort;
  }

  get position(): number {
    return this.#position;
  }

  append(bytes: Bytes): Promise<void> {
    const position = this.#position;
    this.#position += bytes.byteLength;
    return this.#write(position, bytes);
  }

  reserve(byteLength: number): number {
    if (this.#state !== "open") throw doneError(this.label);
    checkReserve(byteLength, this.label);
    const at = this.#position;
    this.#position += byteLength;
    return at;
  }

  async fill(offset: number, bytes: Bytes): Promise<void> {
    checkFill(offset, bytes.byteLength, this);
    await this.#write(offset, bytes);
  }

  /** The standard's writable takes positions, so nothing depends on where its cursor is. */
  async #write(position: number, data: Bytes): Promise<void> {
    if (this.#state !== "open") throw doneError(this.label);
    this.#end = Math.max(this.#end, position + data.byteLength);
    try {
      await this.#writer.write({ type: "write", position, data });
    } catch (cause) {
      throw handleError(`Cannot write to "${this.label}"`, this.label, cause);
    }
  }

  async commit(): Promise<void> {
    if (this.#state !== "open") throw doneError(this.label);
    this.#state = "committing";
    try {
      // Room that was reserved at the end and never filled is part of the file.
      if (this.#end < this.#position) await this.#writer.write({ type: "truncate", size: this.#position });
      await this.#writer.close();
    } catch (cause) {
      throw handleError(`Cannot finish "${this.label}"`, this.label, cause);
    }
    this.#state = "done";
  }

  async abort(): Promise<void> {
    if (this.#state === "done") return;
    this.#state = "done";
    await untilGrace(() => this.#writer.abort()); // it has failed already, and holds nothing more
    await untilGrace(() => this.#onAbort?.());
  }
}
