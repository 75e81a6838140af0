import { readdir, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { type CommandLine, nodeCommand, runCapturing } from "./child.ts";
import type { BenchContext } from "./job.ts";

/** The output of children that read over HTTP. They time themselves, from the first request on. */
export interface RemoteResult {
  readonly milliseconds: number;
  readonly bytes: number;
  /** Most bytes seen in live array buffers; only for commands of `watched`. */
  readonly buffers?: number;
}

export type PlainRange = readonly [url: string, offset: number, byteLength: number];

const READER = fileURLToPath(new URL("./remote-reader.mjs", import.meta.url));
const PLAIN = fileURLToPath(new URL("./plain-fetch.mjs", import.meta.url));

/** Our side: see remote-reader.mjs for modes. */
export function readerCommand({ root }: BenchContext, ...args: readonly string[]): CommandLine {
  return nodeCommand(READER, `${root}dist`, ...args);
}

/** The same command in a process that watches its buffers, which makes its time worthless. */
export function watched(command: CommandLine): CommandLine {
  return { program: command.program, args: ["--expose-gc", ...command.args] };
}

/** The plain side, for the ranges in `file`. */
export function plainCommand(concurrency: number, file: string): CommandLine {
  return nodeCommand(PLAIN, String(concurrency), file);
}

/** Runs a child to its end. Throws if it did not read enough bytes. */
export async function runRemote(command: CommandLine, leastBytes: number): Promise<RemoteResult> {
  const result = JSON.parse((await runCapturing(command)).stdout) as RemoteResult;
  if (result.bytes >= leastBytes) return result;
  throw new Error(`Cannot measure: at least ${leastBytes} bytes must be read, found ${result.bytes}`);
}

/** Cuts the files of a folder below an address into ranges, and writes these to a file for the plain side. */
export async function writeFolderRanges(
  folder: string,
  base: string,
  options: { readonly pieceBytes: number; readonly into: string },
): Promise<number> {
  const ranges: PlainRange[] = [];
  let total = 0;
  for (const name of (await readdir(folder)).sort()) {
    const { size } = await stat(join(folder, name));
    total += size;
    for (let offset = 0; offset < size; offset += options.pieceBytes) {
      ranges.push([base + name, offset, Math.min(options.pieceBytes, size - offset)]);
    }
  }
  await writeFile(options.into, JSON.stringify(ranges));
  return total;
}
