import { execFileSync, spawnSync } from "node:child_process";
import { mkdirSync, readdirSync } from "node:fs";
import { basename, join } from "node:path";
import { compareFacts, readFacts } from "./model-facts.ts";
import { Outcome } from "./outcome.ts";
import type { Bench, ForeignModel } from "./rounds.ts";
import { writeWithTare } from "./write-with-tare.ts";

const SPLIT = "llama-gguf-split";
const HASH = "llama-gguf-hash";
const FIELDS = ["name", "dtype", "shape", "sha256"] as const;

/** Splits, merges and hashes with llama.cpp's own tools, if they are on the PATH. */
export async function compareWithLlama(models: readonly ForeignModel[], bench: Bench): Promise<Outcome> {
  const outcome = new Outcome("llama.cpp's tools");
  const files = models.filter(({ path, tensors }) => path.endsWith(".gguf") && tensors.length > 2).slice(0, 10);
  for (const tool of [SPLIT, HASH]) {
    if (!isOnPath(tool))
      outcome.note(`${tool} is not on the PATH: build llama.cpp and add its bin folder to compare with it`);
  }
  mkdirSync(join(bench.folder, "llama"));
  for (const model of files) {
    if (isOnPath(SPLIT)) {
      outcome.check(`${basename(model.path)} split by llama.cpp`, await readTheirSplit(model, bench));
      outcome.check(`${basename(model.path)} split by tare`, await mergeOurSplit(model, bench));
    }
    if (isOnPath(HASH)) outcome.check(`${basename(model.path)} hashed`, compareHashes(model));
  }
  return outcome;
}

function isOnPath(tool: string): boolean {
  return spawnSync(tool, ["--help"]).error === undefined;
}

async function readTheirSplit(model: ForeignModel, { folder }: Bench): Promise<string[]> {
  const prefix = join(folder, "llama", `${basename(model.path, ".gguf")}-theirs`);
  execFileSync(SPLIT, ["--split", "--split-max-tensors", "2", model.path, prefix], { stdio: "ignore" });
  const names = readdirSync(join(folder, "llama")).filter((name) => name.startsWith(`${basename(prefix)}-00001-of-`));
  return compareFacts(await readFacts(join(folder, "llama", names[0] ?? "")), model, FIELDS);
}

async function mergeOurSplit(model: ForeignModel, { folder }: Bench): Promise<string[]> {
  const base = join(folder, "llama", `${basename(model.path, ".gguf")}-ours`);
  const written = await writeWithTare(model.path, `${base}.gguf`, { format: "gguf", maxShardBytes: 200 });
  if (written === undefined || written.files.length < 2) return [];
  execFileSync(SPLIT, ["--merge", written.primary, `${base}-merged.gguf`], { stdio: "ignore" });
  return compareFacts(await readFacts(`${base}-merged.gguf`), model, FIELDS);
}

/** The tool prints "sha256  HEX  FILE:TENSOR" for each tensor. */
function compareHashes({ path, tensors }: ForeignModel): string[] {
  const output = execFileSync(HASH, ["--sha256", path], { encoding: "utf8" });
  return tensors.flatMap(({ name, sha256 }) => {
    const line = output.split("\n").find((text) => text.trimEnd().endsWith(`:${name}`));
    return line?.includes(sha256) === true ? [] : [`${JSON.stringify(name)}: must be ${sha256}, found ${line}`];
  });
}
