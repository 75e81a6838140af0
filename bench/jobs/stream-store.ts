import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";
import { Cluster, findMinio, KEY } from "../../interop/s3/minio.ts";
import { type CommandLine, commandText, nodeCommand, runCapturing, timeRun } from "../child.ts";
import { shortNames } from "../expect.ts";
import { type BenchContext, type Job, type JobResult, type Row, rateRow } from "../job.ts";
import { interleave } from "../measure.ts";
import { readerCommand, runRemote } from "../remote-run.ts";
import { makeRemoteSet } from "./stream-set.ts";

const AT_LEAST = 0.8;
const CONCURRENCIES = [1, 2, 4, 8];
const SET_NAME = "model.aeroset.json";
const BUCKET = "models";
/** Next to the server that interop/s3 builds. `go install github.com/minio/mc@latest` with GOBIN puts it there. */
const CLIENT = join(homedir(), ".cache", "tare-interop", "bin", "mc");

/**
 * Every byte of a set in a distributed store, checked page by page, compared with the store's client, which checks
 * none.
 */
export const streamStore: Job = {
  name: "stream-store",
  title: "stream a 4 GB AEROSET from four nodes of MinIO, verified",
  run: runStreamStore,
};

async function runStreamStore(context: BenchContext): Promise<JobResult> {
  const missing = "MinIO is missing: install Go, run `npm run interop` once, and build the client github.com/minio/mc";
  const binary = findMinio();
  if (binary === undefined || !existsSync(CLIENT)) return { rows: [], commands: [], notes: [missing] };
  const folder = await makeRemoteSet(context);
  const cluster = await Cluster.start(binary);
  try {
    const store = new Store(context, cluster, (await readdir(folder)).sort());
    await store.fill(folder);
    const best = await store.bestConcurrency();
    const whole = await store.compare(`four nodes, against mc, ${best} at a time`, best);
    cluster.kill(cluster.nodeCount - 1);
    const wounded = await store.compare(`one node dead, against mc, ${best} at a time`, best);
    const short = [...shortNames(context.root, context.workspace), [CLIENT, "mc"] as const];
    const commands = [store.ours(), store.theirs(best)].map((command) => commandText(command, short));
    const notes = [
      `the store ran as ${cluster.kind}, on the same two cores`,
      "both sides read every byte of the same objects, four parts at a time; tare checks each page, counted from its first request on, mc writes to /dev/null, its starts included",
    ];
    return { rows: [whole, wounded], commands, notes };
  } finally {
    await cluster.stop();
  }
}

class Store {
  readonly #context: BenchContext;
  readonly #names: readonly string[];
  readonly #env: readonly string[];
  readonly #configuration: string;

  constructor(context: BenchContext, cluster: Cluster, names: readonly string[]) {
    this.#context = context;
    this.#names = names;
    this.#env = [
      `AWS_ENDPOINT_URL_S3=${cluster.endpoint()}`,
      `AWS_ACCESS_KEY_ID=${KEY.id}`,
      `AWS_SECRET_ACCESS_KEY=${KEY.secret}`,
      "AWS_REGION=us-east-1",
    ];
    this.#configuration = context.workspace.path("mc");
    this.#client("alias", "set", "store", cluster.endpoint(), KEY.id, KEY.secret);
    this.#client("mb", `store/${BUCKET}`);
  }

  #client(...args: readonly string[]): void {
    const { status, stderr } = spawnSync(CLIENT, ["-C", this.#configuration, ...args], { encoding: "utf8" });
    if (status !== 0) throw new Error(`mc ${args[0]} failed: ${stderr}`);
  }

  async fill(folder: string): Promise<void> {
    const { tare } = this.#context;
    await runCapturing(this.#inStore(nodeCommand(tare, "push", `${folder}/${SET_NAME}`, `s3://${BUCKET}/set/`)));
  }

  #inStore({ program, args }: CommandLine): CommandLine {
    return { program: "env", args: [...this.#env, program, ...args] };
  }

  ours(): CommandLine {
    return this.#inStore(readerCommand(this.#context, "parts", `s3://${BUCKET}/set/${SET_NAME}`));
  }

  theirs(concurrency: number): CommandLine {
    const keys = this.#names.map((name) => `store/${BUCKET}/set/${name}`).join(" ");
    const cat = `${CLIENT} -C ${this.#configuration} cat`;
    return { program: "sh", args: ["-c", `printf '%s\\n' ${keys} | xargs -P ${concurrency} -n 1 ${cat} > /dev/null`] };
  }

  /** Three runs each in turn. Ours is compared with the fastest. */
  async bestConcurrency(): Promise<number> {
    let best = { concurrency: 1, time: Number.POSITIVE_INFINITY };
    for (const concurrency of [...CONCURRENCIES, ...CONCURRENCIES, ...CONCURRENCIES]) {
      const time = await timeRun(this.theirs(concurrency));
      if (time < best.time) best = { concurrency, time };
    }
    return best.concurrency;
  }

  async compare(measure: string, concurrency: number): Promise<Row> {
    const { bytes } = await runRemote(this.ours(), 1);
    const sides = await interleave(
      this.#context.runs,
      async () => (await runRemote(this.ours(), bytes)).milliseconds,
      () => timeRun(this.theirs(concurrency)),
    );
    return rateRow({ job: streamStore.name, measure, byteLength: bytes }, sides, AT_LEAST);
  }
}
