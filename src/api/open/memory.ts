import type { Bytes } from "../../base/bytes.ts";
import { UsageError } from "../../base/errors.ts";
import { memoryOutput } from "../../bytes/memory.ts";
import { checkOptions, HELD_BYTES, type Size, sizeIn, sizeRule } from "../options.ts";
import type { Folder } from "../outputs.ts";

export interface MemoryOptions {
  /** Most bytes of all files together; 256 MiB if absent. */
  readonly maxBytes?: Size | undefined;
}

/** What was written into memory. */
export interface MemoryOutput extends Folder {
  /** By name, once they are complete. */
  readonly files: ReadonlyMap<string, Bytes>;
  /** Of the one file; `usage/memory.files` if there is none, or more than one. */
  readonly bytes: Bytes;
}

/**
 * Collects what is written; beyond `maxBytes` the write fails with `limit/memory`.
 *
 * @example
 * const out = memory();
 * await convert("https://models.example/model.safetensors", out, { to: "gguf" });
 * console.log(out.bytes.byteLength);
 */
export function memory(options: MemoryOptions = {}): MemoryOutput {
  checkOptions("memory", options, { maxBytes: sizeRule });
  const output = memoryOutput("", "memory", sizeIn(options.maxBytes) ?? HELD_BYTES);
  const { files } = output;
  return Object.defineProperty({ ...output }, "bytes", {
    get: () => onlyFile(files),
  }) as MemoryOutput;
}

function onlyFile(files: ReadonlyMap<string, Bytes>): Bytes {
  const [bytes, second] = files.values();
  if (bytes !== undefined && second === undefined) return bytes;
  const message = `Cannot give the bytes of the one file: memory() holds ${files.size} files`;
  throw new UsageError("usage/memory.files", message, { source: "memory" }, { hint: "Look at files, by name" });
}
