import { execFileSync, spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { equalBytes } from "../../src/base/bytes.ts";
import { openAero } from "../../src/formats/aero/read.ts";
import { planSafetensors } from "../../src/formats/safetensors/plan.ts";
import { writeSafetensors } from "../../src/formats/safetensors/write.ts";
import type { Tensor } from "../../src/model/tensor.ts";
import { directoryOutput } from "../../src/platform/node/files/directory.ts";
import { openFile } from "../../src/platform/node/files/source.ts";
import { portableEngine } from "../../src/primitives/portable.ts";
import { Outcome } from "../outcome.ts";
import type { WrittenModel } from "./models.ts";

/** Types that the reference's SafeTensors converter accepts. */
const CONVERTIBLE = new Set(["F16", "F32", "BF16", "F64", "I8", "U8", "I16", "U16", "I32", "I64", "BOOL"]);
/** Runs the command line of the Python package, which is in the folder that AEROTENSOR_PY names. */
const COMMAND = "import sys; from aerotensor.cli import main; sys.exit(main())";

const engine = portableEngine();

/**
 * Runs the reference implementations that are available: AEROTENSOR_PY names the folder of the Python package, AERO_CPP
 * the folder of the C++ tools. They are not part of this repository.
 */
export async function compareWithReference(written: readonly WrittenModel[], folder: string): Promise<Outcome[]> {
  const python = process.env["AEROTENSOR_PY"];
  const tools = process.env["AERO_CPP"];
  if (python === undefined) console.log("Not read by the Python reference: AEROTENSOR_PY names no folder.");
  if (tools === undefined) console.log("Not read by the C++ reference: AERO_CPP names no folder.");
  return [
    ...(python === undefined ? [] : [validateInPython(written, python), await readFromPython(written, folder, python)]),
    ...(tools === undefined ? [] : [await extractInCpp(written, folder, tools)]),
  ];
}

function runPython(folder: string, args: readonly string[]): readonly string[] {
  const env = { ...process.env, PYTHONPATH: folder, PYTHONDONTWRITEBYTECODE: "1" };
  const { status, stderr, stdout } = spawnSync("python3", ["-c", COMMAND, ...args], { env, encoding: "utf8" });
  return status === 0 ? [] : [`exit ${status}: ${(stderr || stdout).trim().split("\n").at(-1)}`];
}

/**
 * Runs their full validation over our files. It fails for an empty shard with page hashes, which is a known fault of
 * theirs.
 */
function validateInPython(written: readonly WrittenModel[], folder: string): Outcome {
  const outcome = new Outcome("the Python reference validates what we write");
  for (const { path } of written) outcome.check(path, runPython(folder, ["validate", "--full", path]));
  return outcome;
}

/** Reads what they convert from SafeTensors. */
async function readFromPython(written: readonly WrittenModel[], folder: string, package_: string): Promise<Outcome> {
  const outcome = new Outcome("we read what the Python reference writes");
  for (const [i, { model }] of written.slice(0, 20).entries()) {
    const tensors = model.tensors.filter(({ dtype }) => CONVERTIBLE.has(dtype));
    if (tensors.length === 0) continue;
    const name = `reference-${i}.safetensors`;
    const content = { tensors, metadata: model.metadata, chain: [] };
    const output = directoryOutput(folder, name, { overwrite: "replace" });
    await writeSafetensors(planSafetensors(content, { name }), output, { engine });
    const path = join(folder, `reference-${i}.aero`);
    const failure = runPython(package_, ["convert-safetensors", join(folder, name), path]);
    outcome.check(path, failure.length > 0 ? failure : await differences(path, tensors));
  }
  return outcome;
}

async function differences(path: string, tensors: readonly Tensor[]): Promise<string[]> {
  const model = await openAero(await openFile(path), { engine, limits: {} });
  try {
    const found: string[] = [];
    for (const tensor of tensors) {
      const other = model.tensor(tensor.name);
      const isSame = other.dtype === tensor.dtype && equalBytes(await other.bytes(), await tensor.bytes());
      if (!isSame) found.push(`"${tensor.name}" differs`);
    }
    return found;
  } finally {
    await model.close();
  }
}

/** Runs their validation, then extracts one tensor of each file and compares it. */
async function extractInCpp(written: readonly WrittenModel[], folder: string, tools: string): Promise<Outcome> {
  const outcome = new Outcome("the C++ reference reads what we write");
  const extracted = join(folder, "extracted.bin");
  for (const { path, model } of written) {
    const { status, stdout } = spawnSync(join(tools, "aero_validate"), ["--full", path], { encoding: "utf8" });
    outcome.check(path, status === 0 ? [] : [`aero_validate: exit ${status}, ${stdout.trim().split("\n").at(-1)}`]);
    const tensor = model.tensors.find(({ byteLength }) => byteLength > 0);
    if (tensor === undefined) continue;
    execFileSync(join(tools, "aero_extract_tensor"), [path, tensor.name, extracted]);
    const isSame = equalBytes(new Uint8Array(readFileSync(extracted)), await tensor.bytes());
    outcome.check(path, isSame ? [] : [`"${tensor.name}" differs`]);
  }
  return outcome;
}
