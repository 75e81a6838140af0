import { randomFillSync } from "node:crypto";
import { closeSync, existsSync, mkdtempSync, openSync, rmSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import type { Outcome } from "../outcome.ts";
import { Amazon } from "./amazon.ts";
import { Cluster, findMinio, KEY } from "./minio.ts";
import { Program } from "./program.ts";
import { roundConvert, roundKill, roundPush, roundRace, roundRead, type Setting } from "./rounds.ts";
import { compareSignatures } from "./signatures.ts";
import type { Store } from "./store.ts";
import { Swift, swiftObstacle } from "./swift.ts";
import { SWIFT_KEY } from "./swift-config.ts";

/** Runs tare against real object stores. Run with: tsx interop/s3/run.ts [--store minio|swift] */

const { values } = parseArgs({
  options: {
    tare: { type: "string", default: fileURLToPath(new URL("../../dist/bin/tare.js", import.meta.url)) },
    megabytes: { type: "string", default: "256" },
    only: { type: "string", default: "" },
    store: { type: "string", default: "" },
  },
});
const BUCKET = "models";
const TENSOR_BYTES = 4 << 20;

async function main(): Promise<readonly Outcome[]> {
  const amazon = Amazon.find();
  if (amazon === undefined) {
    console.log("Skipped: Amazon's client is missing. Install it with: pip install boto3");
    return [];
  }
  const signatures = await compareSignatures(amazon);
  if (!existsSync(values.tare)) {
    console.log("Skipped the store: the program is missing. Build it with: npm run build");
    return [signatures];
  }
  const outcomes = [signatures];
  for (const [name, start] of Object.entries(STORES)) {
    if (values.store !== "" && values.store !== name) continue;
    const opened = await start();
    if (typeof opened === "string") console.log(`Skipped a store: ${opened}`);
    else outcomes.push(...(await runRounds(amazon, opened)));
  }
  return outcomes;
}

interface OpenedStore {
  readonly cluster: Store;
  readonly key: { readonly id: string; readonly secret: string };
}

/** Starts each store, or says what is missing. */
const STORES: Readonly<Record<string, () => Promise<OpenedStore | string>>> = {
  async minio() {
    const binary = findMinio();
    if (binary === undefined)
      return "MinIO is missing and cannot be built. Install Go 1.24 or newer, and have a network";
    return { cluster: await Cluster.start(binary), key: KEY };
  },
  async swift() {
    return swiftObstacle() ?? { cluster: await Swift.start(), key: SWIFT_KEY };
  },
};

async function runRounds(amazon: Amazon, { cluster, key }: OpenedStore): Promise<Outcome[]> {
  const folder = mkdtempSync(join(tmpdir(), "tare-s3-"));
  try {
    const store = { endpoint: cluster.endpoint(), id: key.id, secret: key.secret, bucket: BUCKET };
    amazon.makeBucket(store);
    console.log(`store: ${cluster.kind}`);
    const [model, otherModel] = [join(folder, "model.safetensors"), join(folder, "other.safetensors")];
    const count = Math.max(10, Math.round((Number(values.megabytes) * 1e6) / TENSOR_BYTES));
    for (const path of [model, otherModel]) writeModel(path, count);
    const program = new Program(values.tare, {
      AWS_ENDPOINT_URL_S3: store.endpoint,
      AWS_ACCESS_KEY_ID: store.id,
      AWS_SECRET_ACCESS_KEY: store.secret,
      AWS_REGION: "us-east-1",
      TARE_CACHE: join(folder, "cache"),
    });
    const setting: Setting = { program, amazon, cluster, store, folder, model, otherModel };
    const outcomes: Outcome[] = [];
    for (const round of [roundConvert, roundRead, roundPush, roundRace, roundKill]) {
      if (round.name.includes(values.only)) outcomes.push(await round(setting));
    }
    return outcomes;
  } finally {
    await cluster.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

/** A SafeTensors file of F32 tensors t0, t1, … with random bytes. */
function writeModel(path: string, count: number): void {
  const entries = Array.from({ length: count }, (_, i) => {
    const data_offsets = [i * TENSOR_BYTES, (i + 1) * TENSOR_BYTES];
    return [`t${i}`, { dtype: "F32", shape: [1024, TENSOR_BYTES / 4096], data_offsets }];
  });
  const json = Buffer.from(JSON.stringify(Object.fromEntries(entries)));
  const header = Buffer.concat([json, Buffer.alloc((8 - (json.byteLength % 8)) % 8, " ")]);
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(header.byteLength));
  const file = openSync(path, "w");
  writeSync(file, Buffer.concat([length, header]));
  const data = Buffer.alloc(TENSOR_BYTES);
  for (let i = 0; i < count; i++) writeSync(file, randomFillSync(data));
  closeSync(file);
}

const outcomes = await main();
for (const outcome of outcomes) outcome.print();
process.exitCode = outcomes.every(({ problems }) => problems.length === 0) ? 0 : 1;
