import type { ChildProcess } from "node:child_process";
import { createHash } from "node:crypto";
import { createReadStream, statSync } from "node:fs";
import { join } from "node:path";
import { Outcome } from "../outcome.ts";
import type { Amazon, StoreAccess } from "./amazon.ts";
import { expectCode, type Program } from "./program.ts";
import type { Store } from "./store.ts";

/** What every round works with. */
export interface Setting {
  readonly program: Program;
  readonly amazon: Amazon;
  readonly cluster: Store;
  readonly store: StoreAccess;
  readonly folder: string;
  /** A SafeTensors file of some hundred megabytes, and another one with the same shape and other bytes. */
  readonly model: string;
  readonly otherModel: string;
}

/** Converts to the store and to the disk; by Amazon's client, the objects must equal the files. */
export async function roundConvert(setting: Setting): Promise<Outcome> {
  const { program, amazon, store, folder, model } = setting;
  const outcome = new Outcome("convert to the store");
  const uuid = ["--uuid", "00112233445566778899aabbccddeeff"];
  const cases: [name: string, flags: string[]][] = [
    ["big.aero", ["--page-hashes", ...uuid]],
    ["big.safetensors", []],
    ["big.gguf", []],
  ];
  for (const [name, flags] of cases) {
    const local = join(folder, `local-${name}`);
    outcome.check(`${name} on disk`, expectCode(await program.run(["convert", model, local, ...flags]), 0));
    const ended = await program.run(["convert", model, url(store, `convert/${name}`), ...flags]);
    outcome.check(name, expectCode(ended, 0));
    const { [`convert/${name}`]: found } = amazon.digests(store, [`convert/${name}`]);
    const wanted = await digestOf(local);
    outcome.check(`${name} by boto3`, found === wanted ? [] : [`${found} is not ${wanted}`]);
    outcome.note(`${name}: ${rate(statSync(local).size, ended.seconds)} including start-up`);
  }
  const set = url(store, "set/model.aeroset.json");
  const flags = ["--max-shard-size", "32MiB", "--max-part-shards", "1"];
  outcome.check("aeroset", expectCode(await program.run(["convert", model, set, ...flags]), 0));
  outcome.check("aeroset verified", expectCode(await program.run(["verify", url(store, "set/"), "--full"]), 0));
  const interrupted = program.start(["convert", model, url(store, "convert/never.aero"), "--progress", "json"]);
  await Promise.race([reached(interrupted.child, statSync(model).size / 5), interrupted.ended]);
  interrupted.child.kill("SIGINT");
  outcome.check("Ctrl-C", expectCode(await interrupted.ended, 130));
  const { "convert/never.aero": never } = amazon.digests(store, ["convert/never.aero"]);
  outcome.check("no object after Ctrl-C", never === null ? [] : ["there is one"]);
  outcome.check("nothing left behind", amazon.uploads(store));
  return outcome;
}

/** Reads single tensors and slices of rows. */
export async function roundRead(setting: Setting): Promise<Outcome> {
  const { program, store, folder, model } = setting;
  const outcome = new Outcome("ranged reads from the store");
  for (const [object, name] of [
    ["convert/big.aero", "t3"],
    ["convert/big.safetensors", "t0"],
    ["convert/big.gguf", "t7"],
    ["set/", "t5"],
  ] as const) {
    const [mine, wanted] = [join(folder, "a.bin"), join(folder, "b.bin")];
    const read = await program.run(["cat", url(store, object), name, "-o", mine, "--force"]);
    outcome.check(`${object} ${name}`, expectCode(read, 0));
    await program.run(["cat", model, name, "-o", wanted, "--force"]);
    const same = read.code === 0 && (await digestOf(mine)) === (await digestOf(wanted));
    outcome.check(`${object} ${name}, its bytes`, same ? [] : ["they differ"]);
  }
  const copy = join(folder, "pulled");
  outcome.check("pull", expectCode(await program.run(["pull", url(store, "set/model.aeroset.json"), "-o", copy]), 0));
  outcome.check("pulled set", expectCode(await program.run(["verify", copy, "--full"]), 0));
  return outcome;
}

/** Uploads, with kill -9 each time a bit more is sent, until the upload is complete. */
export async function roundPush(setting: Setting): Promise<Outcome> {
  const { program, amazon, store, model } = setting;
  const outcome = new Outcome("push, killed with -9 again and again");
  const size = statSync(model).size;
  const [partBytes, connections, kills] = [5 << 20, 4, 4];
  const key = "push/model";
  const flags = ["--part-size", String(partBytes), "--concurrency", String(connections), "--json"];
  const args = ["push", model, url(store, key), ...flags, "--progress", "json"];
  for (let i = 1; i <= kills; i++) {
    const { child, ended } = program.start(args);
    await Promise.race([reached(child, (size * i) / (kills + 2)), ended]);
    outcome.check(`kill ${i}`, child.exitCode === null ? [] : ["it had ended"]);
    child.kill("SIGKILL");
    await ended;
  }
  const last = await program.run(args);
  outcome.check("the last run", expectCode(last, 0));
  const { [key]: found } = amazon.digests(store, [key]);
  outcome.check("the object", found === (await digestOf(model)) ? [] : [`${found} is another one`]);
  if (last.code === 0) {
    const { sentBytes } = JSON.parse(last.out) as { readonly sentBytes: number };
    const most = size - (size * kills) / (kills + 2) + connections * partBytes;
    outcome.note(`after ${kills} kills the last run sent ${sentBytes} of ${size} bytes`);
    outcome.check("resumed", sentBytes <= most ? [] : [`${sentBytes} bytes were sent, wanted at most ${most}`]);
  }
  outcome.check("nothing left behind", amazon.uploads(store));
  outcome.check("a second push is refused", expectCode(await program.run(["push", model, url(store, key)]), 2));
  return outcome;
}

/** Resolves when the program has reported that `byteLength` bytes are done. */
function reached(child: ChildProcess, byteLength: number): Promise<void> {
  return new Promise((resolve) => {
    child.stderr?.on("data", (text: Buffer) => {
      const reports = [...text.toString().matchAll(/"done":(\d+)/g)];
      if (reports.some(([, done]) => Number(done) >= byteLength)) resolve();
    });
  });
}

/**
 * Two writers of different bytes, again and again: one wins, the other gets an error, and the object is the winner's. A
 * store without conditional writes cannot decide: there both may succeed, but nothing is mixed.
 */
export async function roundRace(setting: Setting): Promise<Outcome> {
  const { program, amazon, cluster, store, model, otherModel } = setting;
  const outcome = new Outcome("two writers racing");
  const digests = [await digestOf(model), await digestOf(otherModel)];
  for (let i = 0; i < 3; i++) {
    const key = `race/${i}`;
    const ended = await Promise.all([model, otherModel].map((path) => program.run(["push", path, url(store, key)])));
    const codes = ended.map(({ code }) => code);
    const allowed = cluster.conditions === "known" ? ["0,2"] : ["0,2", "0,0"];
    outcome.check(`race ${i}, exit codes`, allowed.includes([...codes].sort().join()) ? [] : [codes.join()]);
    const { [key]: found } = amazon.digests(store, [key]);
    const isWinners = codes.some((code, side) => code === 0 && found === digests[side]);
    outcome.check(`race ${i}, the object`, isWinners ? [] : ["it is not a winner's"]);
    if (cluster.conditions === "known") continue;
    const winners = ended.filter(({ code }) => code === 0);
    const silent = winners.filter(({ err }) => !err.includes("knows no conditional writes"));
    outcome.note(`race ${i}: ${winners.length} were told that they won, ${silent.length} without a warning`);
  }
  outcome.check("nothing left behind", amazon.uploads(store));
  return outcome;
}

/** One node of four dies in the middle of a read, and stays down for the next one. */
export async function roundKill(setting: Setting): Promise<Outcome> {
  const { program, amazon, cluster, store, folder, model } = setting;
  const outcome = new Outcome("one node killed with -9 in the middle of a read");
  if (cluster.nodeCount < 4) {
    outcome.note("skipped: this store is one process");
    return outcome;
  }
  const key = "convert/big.aero";
  const size = statSync(model).size;
  const read = (name: string) =>
    program.start(["convert", url(store, key), join(folder, name), "--progress", "json"], { TARE_CACHE_SIZE: "0" });
  const whole = await read("whole.safetensors").ended;
  outcome.check("with four nodes", expectCode(whole, 0));
  const reading = read("killed.safetensors");
  await Promise.race([reached(reading.child, size / 10), reading.ended]);
  outcome.check("still reading when the node dies", reading.child.exitCode === null ? [] : ["it had ended"]);
  cluster.kill(cluster.nodeCount - 1);
  const killed = await reading.ended;
  outcome.check("the read", expectCode(killed, 0));
  const after = await read("after.safetensors").ended;
  outcome.check("another read with three nodes", expectCode(after, 0));
  const wanted = await digestOf(join(folder, "whole.safetensors"));
  for (const name of ["killed.safetensors", "after.safetensors"]) {
    const same = (await digestOf(join(folder, name)).catch(() => "")) === wanted;
    outcome.check(name, same ? [] : ["its bytes differ"]);
  }
  outcome.note(
    `${rate(size, whole.seconds)} with four nodes, ${rate(size, killed.seconds)} while one dies, ${rate(size, after.seconds)} with three; with start-up and writing to disk`,
  );
  const verified = await program.run(["verify", url(store, key), "--full"], { TARE_CACHE_SIZE: "0" });
  outcome.check("verified with three nodes", expectCode(verified, 0));
  const own = amazon.downloadSeconds(store, key);
  outcome.note(
    `verify --full with three nodes ${rate(size, verified.seconds)}; boto3 downloads to nowhere at ${rate(size, own)}`,
  );
  return outcome;
}

function url({ bucket }: StoreAccess, key: string): string {
  return `s3://${bucket}/${key}`;
}

function rate(byteLength: number, seconds: number): string {
  return `${Math.round(byteLength / 1e6 / seconds)} MB/s`;
}

async function digestOf(path: string): Promise<string> {
  const hash = createHash("sha256");
  for await (const piece of createReadStream(path)) hash.update(piece as Buffer);
  return hash.digest("hex");
}
