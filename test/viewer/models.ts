import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "vitest";
import { callTare } from "../cli/run-tare.ts";

export const PASSWORD = "correct horse";

/** Files to look at, made by the program itself. */
export interface Models {
  readonly folder: string;
  path(name: string): string;
  remove(): void;
}

export type ModelName = "quantized" | "paged" | "vault" | "apr";

/** The demo's model in every format, and beside it what is asked for. */
export async function makeModels(...names: readonly ModelName[]): Promise<Models> {
  const folder = mkdtempSync(join(tmpdir(), "tare-viewer-"));
  const path = (name: string): string => join(folder, name);
  await run("demo", folder, "--force");
  if (names.includes("quantized")) await run("quantize", path("demo.gguf"), path("q4.gguf"), "-t", "q4_0");
  if (names.includes("paged")) {
    const hashes = ["--page-hashes", "64KiB", "--tensor-hashes", "--control-hash"];
    await run("convert", path("demo.safetensors"), path("paged.aero"), ...hashes);
    const bytes = readFileSync(path("paged.aero"));
    bytes[DAMAGE_OFFSET] = (bytes[DAMAGE_OFFSET] ?? 0) ^ 1;
    writeFileSync(path("broken.aero"), bytes);
  }
  if (names.includes("vault") || names.includes("apr")) writeFileSync(path("password"), PASSWORD);
  if (names.includes("vault")) await makeVault(path);
  if (names.includes("apr")) {
    await run("convert", path("demo.safetensors"), path("wild.apr"), "--layout", "aprender");
    await run("convert", path("demo.safetensors"), path("sealed.apr"), "--encrypt", ...secret(path));
  }
  return { folder, path, remove: () => rmSync(folder, { recursive: true, force: true }) };
}

/** In a page of a tensor, far from the tables. */
export const DAMAGE_OFFSET = 1_500_000;

async function makeVault(path: (name: string) => string): Promise<void> {
  mkdirSync(path("tree/docs"), { recursive: true });
  writeFileSync(path("tree/docs/notes.md"), "# Notes\n\nWeights and what they weigh.\n");
  writeFileSync(path("tree/docs/dot.png"), Buffer.from(DOT, "base64"));
  for (const name of ["model.gguf", "copy.gguf"]) writeFileSync(path(`tree/${name}`), readFileSync(path("demo.gguf")));
  await run("vault", "create", path("v.aerovault"), ...secret(path));
  await run("vault", "add", path("v.aerovault"), path("tree/."), ...secret(path));
}

function secret(path: (name: string) => string): string[] {
  return ["--password-file", path("password")];
}

/** One pixel. */
const DOT = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

async function run(...args: readonly string[]): Promise<void> {
  const { code, err } = await callTare(args);
  expect(code, err).toBe(0);
}
