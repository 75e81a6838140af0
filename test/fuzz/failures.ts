import { createHash } from "node:crypto";
import { mkdirSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { type FuzzInput, primaryBytes } from "./fuzz-input.ts";

const FOLDER = fileURLToPath(new URL("failures/", import.meta.url));

/** What is kept of an input that broke the promise. */
export interface KeptFailure {
  readonly seed: number;
  readonly index: number;
  readonly format: string;
  readonly problem: string;
  readonly input: FuzzInput;
}

/** Writes the file, its siblings and how to try it again into test/fuzz/failures; returns the path of the file. */
export function keepFailure({ input, ...facts }: KeptFailure): string {
  mkdirSync(FOLDER, { recursive: true });
  const bytes = primaryBytes(input);
  const name = createHash("sha256").update(bytes).digest("hex").slice(0, 16);
  const siblings: Record<string, string> = {};
  for (const [sibling, content] of input.files) {
    if (sibling !== input.primary) siblings[sibling] = Buffer.from(content).toString("hex");
  }
  writeFileSync(`${FOLDER}${name}.bin`, bytes);
  writeFileSync(`${FOLDER}${name}.json`, JSON.stringify({ ...facts, primary: input.primary, siblings }, undefined, 2));
  return `${FOLDER}${name}.bin`;
}
