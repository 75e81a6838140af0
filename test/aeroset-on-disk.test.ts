import { mkdtempSync, readdirSync, rmSync, statSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import type { Output } from "../src/bytes/sink.ts";
import { planAeroset } from "../src/formats/aeroset/plan.ts";
import { writeAeroset } from "../src/formats/aeroset/write.ts";
import { reader } from "../src/formats/safetensors/read.ts";
import { Metadata } from "../src/model/metadata.ts";
import { directoryOutput } from "../src/platform/node/files/directory.ts";
import { openFile } from "../src/platform/node/files/source.ts";
import { openTarget } from "../src/platform/node/targets.ts";
import { portableEngine } from "../src/primitives/portable.ts";
import { buildSafetensors, patternBytes } from "./builders/safetensors.ts";

const engine = portableEngine();
const NAME = "model.aeroset.json";
const COUNT = 5;
const TENSOR_BYTES = 5000;

interface Place {
  readonly input: string;
  readonly output: string;
}

function makePlace(): Place {
  const folder = mkdtempSync(join(tmpdir(), "tare-set-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const bytes = patternBytes(TENSOR_BYTES);
  const tensors = Array.from({ length: COUNT }, (_, i) => ({
    name: `t${i}`,
    dtype: "U8",
    shape: [TENSOR_BYTES],
    bytes,
  }));
  writeFileSync(join(folder, "m.safetensors"), buildSafetensors(tensors));
  return { input: join(folder, "m.safetensors"), output: join(folder, "set") };
}

/** Writes one tensor to a part; the run ends where it would create `stopAt`. */
async function run({ input, output: folder }: Place, stopAt?: string): Promise<void> {
  const model = await reader.open(await openFile(input), { engine, limits: {} });
  if (model.kind !== "model") throw new Error("no model");
  const content = { metadata: new Metadata(), tensors: model.tensors, chain: [] };
  const plan = planAeroset(content, { name: NAME, maxShardBytes: TENSOR_BYTES, maxPartShards: 1 });
  const output = directoryOutput(folder, NAME, { overwrite: "refuse" });
  let asked = 0;
  const stopping: Output = {
    ...output,
    create: (name) => {
      // Every name is tried once before anything is written.
      if (name === stopAt && ++asked > 1) throw new Error("killed");
      return output.create(name);
    },
  };
  try {
    await writeAeroset(plan, stopping, { engine });
  } finally {
    await model.close();
  }
}

const stampOf = (path: string): string => {
  const { ino, mtimeNs } = statSync(path, { bigint: true });
  return `${ino} ${mtimeNs}`;
};

test("an interrupted set on disk is gone on with, and the journal goes", async () => {
  const place = makePlace();
  await expect(run(place, "part-003.aero")).rejects.toThrowError("killed");
  expect(readdirSync(place.output).sort()).toEqual([
    `.${NAME}.tare-resume`,
    "part-000.aero",
    "part-001.aero",
    "part-002.aero",
  ]);
  const finished = ["part-000.aero", "part-001.aero", "part-002.aero"].map((name) => join(place.output, name));
  const before = finished.map(stampOf);
  await run(place);
  expect(finished.map(stampOf)).toEqual(before);
  expect(readdirSync(place.output).sort()).toEqual([
    "index.aero",
    NAME,
    ...Array.from({ length: COUNT }, (_, i) => `part-00${i}.aero`),
  ]);
  const { container, close } = await openTarget(place.output, { engine });
  onTestFinished(close);
  if (container.kind !== "model") throw new Error("no model");
  for (const tensor of container.tensors) expect(await tensor.bytes()).toEqual(patternBytes(TENSOR_BYTES));
});

test("parts of a file that was written to since are made anew", async () => {
  const place = makePlace();
  await expect(run(place, "part-003.aero")).rejects.toThrowError("killed");
  const part = join(place.output, "part-000.aero");
  const before = stampOf(part);
  utimesSync(place.input, new Date(0), new Date(0));
  await run(place);
  expect(stampOf(part)).not.toBe(before);
});
