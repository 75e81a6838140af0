import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import { callTare, type RunOptions } from "../cli/run-tare.ts";

/** A folder of one test. */
export type At = (...names: readonly string[]) => string;

/** Makes a folder for one test with these files in it. */
export function folderWith(files: Readonly<Record<string, Uint8Array | string>> = {}): At {
  const folder = mkdtempSync(join(tmpdir(), "tare-node-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const at: At = (...names) => join(folder, ...names);
  for (const [name, bytes] of Object.entries(files)) {
    mkdirSync(at(name, ".."), { recursive: true });
    writeFileSync(at(name), bytes);
  }
  return at;
}

/** A copy of the folder, for the command to work in. */
export function copyOf(at: At): At {
  const copy = folderWith();
  cpSync(at(), copy(), { recursive: true });
  return copy;
}

/** What is in a folder: names, lengths and contents. */
export function snapshot(at: At): readonly string[] {
  return readdirSync(at(), { recursive: true, withFileTypes: true })
    .map((entry) => join(entry.parentPath, entry.name))
    .map((path) => (statSync(path).isFile() ? `${path} ${readFileSync(path).toString("latin1")}` : path))
    .sort();
}

/** The document of a command, as if it had worked in the folder of the function. */
export async function documentOf(
  args: (at: At) => readonly string[],
  { from, to }: { readonly from: At; readonly to: At },
  options: RunOptions = {},
): Promise<unknown> {
  const { out, err } = await callTare([...args(from), "--json"], options);
  if (out === "") throw new Error(err);
  return JSON.parse(out.replaceAll(from(), to())) as unknown;
}

/** A result as JSON has it, without what measures time or chance: "seconds", "files.url". */
export function plain(value: unknown, ...dropped: readonly string[]): unknown {
  const copy = JSON.parse(JSON.stringify(value)) as unknown;
  for (const path of dropped) drop(copy, path.split("."));
  return copy;
}

function drop(value: unknown, [name = "", ...rest]: readonly string[]): void {
  if (Array.isArray(value)) for (const one of value) drop(one, [name, ...rest]);
  else if (typeof value === "object" && value !== null) {
    if (rest.length === 0) Reflect.deleteProperty(value, name);
    else drop(Reflect.get(value, name), rest);
  }
}

/** Bytes that differ everywhere, the same for the same seed. */
export function noise(byteLength: number, seed = 1): Uint8Array<ArrayBuffer> {
  const words = new Uint32Array(Math.ceil(byteLength / 4));
  let state = seed;
  for (let i = 0; i < words.length; i++) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0; // Numerical Recipes
    words[i] = state;
  }
  return new Uint8Array(words.buffer, 0, byteLength).slice();
}
