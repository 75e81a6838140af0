import { randomBytes } from "node:crypto";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import type { Outcome } from "../outcome.ts";
import { Program } from "../s3/program.ts";
import { installReference, Reference } from "./reference.ts";
import { readByReference, readByTare, type Setting } from "./rounds.ts";

/**
 * Compares vaults with the reference's command line, after every verb, both ways. Run with: tsx
 * interop/aerovault/run.ts [--install]
 */

const { values } = parseArgs({ options: { install: { type: "boolean" } } });
if (values.install === true) installReference();
const reference = Reference.find();
if (reference === undefined) {
  console.log(
    "aerovault: nothing was compared; install it with: tsx interop/aerovault/run.ts --install (needs cargo),",
  );
  console.log("or name the program in AEROVAULT");
} else {
  const folder = mkdtempSync(join(tmpdir(), "tare-interop-vault-"));
  try {
    const outcomes = await compare(reference, folder);
    for (const outcome of outcomes) outcome.print();
    process.exitCode = outcomes.every(({ problems }) => problems.length === 0) ? 0 : 1;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

async function compare(reference: Reference, folder: string): Promise<Outcome[]> {
  const tare = new Program(new URL("../../dist/bin/tare.js", import.meta.url).pathname, {});
  const setting: Setting = { tare, reference, tree: join(folder, "tree"), folder };
  makeTree(setting.tree);
  const outcomes: Outcome[] = [];
  for (const flags of [["--profile", "fast"], [], ["--profile", "archive", "--parity", "20%"]]) {
    outcomes.push(await readByReference(setting, flags));
  }
  for (const flags of [[], ["--zstd-level", "3", "--ec", "embedded"]]) outcomes.push(await readByTare(setting, flags));
  return outcomes;
}

/** Text that compresses, noise of several chunks, a model cut at its tensors, empty and many small files, nesting. */
function makeTree(tree: string): void {
  mkdirSync(join(tree, "a/b/c"), { recursive: true });
  mkdirSync(join(tree, "empty"));
  mkdirSync(join(tree, "small"));
  writeFileSync(join(tree, "text.txt"), "the weight of the container\n".repeat(50_000));
  writeFileSync(join(tree, "noise.bin"), randomBytes(6 << 20));
  writeFileSync(join(tree, "empty.txt"), "");
  writeFileSync(join(tree, "a/b/c/größe.txt"), "umlaut");
  for (let i = 0; i < 300; i++)
    writeFileSync(join(tree, `small/${i}.json`), JSON.stringify({ i, text: "x".repeat(i) }));
  const elements = 700_000;
  const range = (i: number) => ({
    dtype: "F32",
    shape: [elements],
    data_offsets: [4 * elements * i, 4 * elements * (i + 1)],
  });
  const header = Buffer.from(JSON.stringify({ a: range(0), b: range(1) }));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(header.length));
  writeFileSync(join(tree, "model.safetensors"), Buffer.concat([length, header, randomBytes(8 * elements)]));
}
