import { execFileSync, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { planAero } from "../../src/formats/aero/plan.ts";
import { writeAero } from "../../src/formats/aero/write.ts";
import { directoryOutput } from "../../src/platform/node/files/directory.ts";
import { portableEngine } from "../../src/primitives/portable.ts";
import { Outcome } from "../outcome.ts";
import { optionSets, randomModel, randomNumbers, type WrittenModel } from "./models.ts";
import { compareWithReference } from "./reference.ts";

/** Writes random models in every way and has other programs read them. Run with: tsx interop/aero/run.ts */

const READER = fileURLToPath(new URL("read_aero.py", import.meta.url));
const { values } = parseArgs({
  options: { seed: { type: "string", default: "1" }, keep: { type: "boolean" } },
});

interface Reading {
  readonly problems: readonly string[];
  readonly tensors: readonly { readonly name: string; readonly shape: readonly number[]; readonly sha256: string }[];
}

async function writeModels(folder: string, seed: number): Promise<WrittenModel[]> {
  const random = randomNumbers(seed);
  const engine = portableEngine();
  const written: WrittenModel[] = [];
  for (const options of optionSets()) {
    const model = randomModel(random);
    const name = `model-${written.length}.aero`;
    const chain = [{ format: "gguf", facts: { version: 3 } }];
    const plan = planAero({ ...model, chain }, { name, ...options });
    await writeAero(plan, directoryOutput(folder, name, { overwrite: "refuse" }), { engine });
    written.push({ path: join(folder, name), align: options.align ?? 64, model });
  }
  return written;
}

/** Our own reader in another language, written from the specification alone. */
async function compareWithSpec(python: string, written: readonly WrittenModel[]): Promise<Outcome> {
  const outcome = new Outcome("files as the specification reads");
  const input = JSON.stringify(written.map(({ path, align }) => ({ path, align })));
  const env = { ...process.env, PYTHONDONTWRITEBYTECODE: "1" };
  const output = execFileSync(python, [READER], { input, encoding: "utf8", maxBuffer: 1 << 28, env });
  const readings = JSON.parse(output) as readonly Reading[];
  for (const [i, { path, model }] of written.entries()) {
    const reading = readings[i];
    const wanted = await Promise.all(
      model.tensors.map(async (tensor) => {
        const sha256 = createHash("sha256")
          .update(await tensor.bytes())
          .digest("hex");
        return JSON.stringify([tensor.name, tensor.shape, sha256]);
      }),
    );
    const found = (reading?.tensors ?? []).map(({ name, shape, sha256 }) => JSON.stringify([name, shape, sha256]));
    const differences = wanted.filter((row, at) => row !== found[at]).map((row) => `not read: ${row}`);
    outcome.check(path, [...(reading?.problems ?? ["not read"]), ...differences]);
  }
  return outcome;
}

function findPython(): string | undefined {
  const hasPackages = spawnSync("python3", ["-c", "import blake3, msgpack, zstandard"]).status === 0;
  return hasPackages ? "python3" : undefined;
}

const folder = mkdtempSync(join(tmpdir(), "tare-aero-"));
try {
  const written = await writeModels(folder, Number(values.seed));
  console.log(`${written.length} files written; seed ${values.seed}`);
  const python = findPython();
  const outcomes = [...(python === undefined ? [] : [await compareWithSpec(python, written)])];
  if (python === undefined) console.log("Not read by Python: the packages blake3, msgpack and zstandard are missing.");
  outcomes.push(...(await compareWithReference(written, folder)));
  for (const outcome of outcomes) outcome.print();
  process.exitCode = outcomes.every(({ problems }) => problems.length === 0) ? 0 : 1;
} finally {
  if (values.keep === true) console.log(`files are in ${folder}`);
  else rmSync(folder, { recursive: true });
}
