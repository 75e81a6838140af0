import { expect } from "vitest";
import type { DirectoryHandle, FileHandle } from "../../src/bytes/handles/handle.ts";
import { isTareError } from "../../src/index.ts";
import { callTare } from "../cli/run-tare.ts";

/** A result as JSON has it. */
export function plain(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value)) as unknown;
}

/** The document that a command prints with --json. */
export async function documentOf(args: readonly string[], cwd: string): Promise<unknown> {
  const { out } = await callTare([...args, "--json"], { cwd });
  return JSON.parse(out) as unknown;
}

/** The function gives what the command prints, or throws its error: messages of usage name options in place of flags. */
export async function expectSame(call: () => Promise<unknown>, args: readonly string[], cwd: string): Promise<unknown> {
  const said = (await documentOf(args, cwd)) as { readonly type?: string; readonly code?: string };
  if (said.type !== "error") {
    const result = await call();
    expect(plain(result)).toEqual(said);
    return result;
  }
  const error: unknown = await call().then(
    (result) => expect.fail(`the command says ${said.code}, the function ${JSON.stringify(result)}`),
    (thrown: unknown) => thrown,
  );
  if (!isTareError(error)) throw error;
  const { code, message, at } = error.toJSON();
  const wanted = said.code?.startsWith("usage/") === true ? { code, at } : { code, at, message };
  expect(said).toMatchObject(plain(wanted) as object);
  return undefined;
}

/** A FileSystemFileHandle in memory: what is written appears when the writable is closed. */
export class MemoryHandle implements FileHandle {
  readonly kind = "file";
  readonly name: string;
  content: Uint8Array<ArrayBuffer>;
  /** Writables that are neither closed nor aborted. */
  open = 0;
  /** Fails the write that would go beyond this length. */
  capacity = Number.POSITIVE_INFINITY;

  constructor(name: string, content: Uint8Array = new Uint8Array(0)) {
    this.name = name;
    this.content = new Uint8Array(content);
  }

  async getFile(): Promise<Blob> {
    return new Blob([this.content]);
  }

  async createWritable(): Promise<WritableStream> {
    let bytes = new Uint8Array(0);
    this.open++;
    return new WritableStream({
      write: (command: { type: string; position?: number; data?: Uint8Array; size?: number }) => {
        const end =
          command.type === "truncate" ? (command.size ?? 0) : (command.position ?? 0) + (command.data?.byteLength ?? 0);
        if (end > this.capacity) throw new DOMException("no room", "QuotaExceededError");
        if (end > bytes.byteLength || command.type === "truncate") {
          const longer = new Uint8Array(end);
          longer.set(bytes.subarray(0, end));
          bytes = longer;
        }
        if (command.data !== undefined) bytes.set(command.data, command.position);
      },
      close: () => {
        this.open--;
        this.content = bytes;
      },
      abort: () => {
        this.open--;
      },
    });
  }
}

/** A FileSystemDirectoryHandle in memory. */
export class MemoryDirectory implements DirectoryHandle {
  readonly kind = "directory";
  readonly name: string;
  readonly files = new Map<string, MemoryHandle>();
  readonly folders = new Map<string, MemoryDirectory>();

  constructor(name = "picked") {
    this.name = name;
  }

  /** Every file and directory below this one, those with a slash at the end. */
  get paths(): readonly string[] {
    const below = [...this.folders].flatMap(([name, { paths }]) => [
      `${name}/`,
      ...paths.map((path) => `${name}/${path}`),
    ]);
    return [...this.files.keys(), ...below];
  }

  /** Makes the handle of a new file. */
  makeFile(name: string): MemoryHandle {
    return new MemoryHandle(name);
  }

  async getFileHandle(name: string, options: { create?: boolean } = {}): Promise<FileHandle> {
    checkStep(name);
    const found = this.files.get(name);
    if (found !== undefined) return found;
    if (options.create !== true) throw new DOMException(name, "NotFoundError");
    const made = this.makeFile(name);
    this.files.set(name, made);
    return made;
  }

  async getDirectoryHandle(name: string, options: { create?: boolean } = {}): Promise<DirectoryHandle> {
    checkStep(name);
    const found = this.folders.get(name);
    if (found !== undefined) return found;
    if (options.create !== true) throw new DOMException(name, "NotFoundError");
    const made = new MemoryDirectory(name);
    made.makeFile = (file) => this.makeFile(file);
    this.folders.set(name, made);
    return made;
  }

  async *keys(): AsyncIterable<string> {
    yield* [...this.files.keys(), ...this.folders.keys()];
  }

  async removeEntry(name: string): Promise<void> {
    checkStep(name);
    if ((this.folders.get(name)?.paths.length ?? 0) > 0) throw new DOMException(name, "InvalidModificationError");
    if (!this.files.delete(name) && !this.folders.delete(name)) throw new DOMException(name, "NotFoundError");
  }
}

/** The standard refuses paths: a name is one step. */
function checkStep(name: string): void {
  if (name === "" || name.includes("/")) throw new TypeError(`Name is not allowed: ${name}`);
}
