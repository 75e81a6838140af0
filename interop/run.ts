import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { compareVerdicts } from "./header-agreement.ts";
import { compareWithLlama } from "./llama-tools.ts";
import { findPython, installPython, pythonVersions, runScript } from "./python.ts";
import { type Bench, type ForeignModel, readForeign, writeForThem } from "./rounds.ts";

const { values } = parseArgs({
  options: {
    install: { type: "boolean" },
    seed: { type: "string", default: "1" },
    models: { type: "string", default: "40" },
    headers: { type: "string", default: "400" },
    keep: { type: "boolean" },
  },
});

/** Returns true if everything agrees. */
async function run(python: string, folder: string): Promise<boolean> {
  const bench: Bench = { python, folder };
  const seed = Number(values.seed);
  console.log(`comparing with ${pythonVersions(python)}; seed ${seed}`);
  const args = [folder, String(seed), values.models];
  const models = runScript<ForeignModel[]>(python, "write_models.py", { args });
  const outcomes = [
    await readForeign(models, bench),
    await writeForThem(models, bench),
    await compareVerdicts(bench, { seed, count: Number(values.headers) }),
    await compareWithLlama(models, bench),
  ];
  for (const outcome of outcomes) outcome.print();
  return outcomes.every(({ problems }) => problems.length === 0);
}

if (values.install === true) installPython();
const python = findPython();
if (python === undefined) {
  console.log("Nothing was compared: the Python packages safetensors and gguf are missing.");
  console.log("Install them into interop/.venv with: npm run interop -- --install");
} else {
  const folder = mkdtempSync(join(tmpdir(), "tare-interop-"));
  try {
    process.exitCode = (await run(python, folder)) ? 0 : 1;
  } finally {
    if (values.keep === true) console.log(`files are in ${folder}`);
    else rmSync(folder, { recursive: true });
  }
}
