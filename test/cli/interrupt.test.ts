import { type ChildProcessByStdio, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, ftruncateSync, openSync, readdirSync, readFileSync, readlinkSync, writeSync } from "node:fs";
import type { Readable } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, it } from "vitest";
import { rawSafetensors } from "../builders/safetensors.ts";
import { scratch, TARE } from "./run-tare.ts";
import { smallGguf } from "./small-models.ts";

/** Mostly a hole: takes no room on disk, and long enough to copy. */
const DATA_BYTES = 4 * 2 ** 30;

function writeSparseModel(path: string): void {
  const entry = { dtype: "U8", shape: [DATA_BYTES], data_offsets: [0, DATA_BYTES] };
  const head = rawSafetensors(JSON.stringify({ w: entry }));
  const descriptor = openSync(path, "w");
  writeSync(descriptor, head);
  ftruncateSync(descriptor, head.byteLength + DATA_BYTES);
  closeSync(descriptor);
}

type Child = ChildProcessByStdio<null, Readable, Readable>;

function start(args: readonly string[]): Child {
  return spawn(process.execPath, [TARE, ...args], {
    stdio: ["ignore", "pipe", "pipe"],
    env: { ...process.env, NO_COLOR: "1", TARE_CACHE_SIZE: "0" },
  });
}

it("Ctrl-C while writing ends with 130 and leaves no half file", async () => {
  const file = scratch();
  writeSparseModel(file("big.safetensors"));
  const child = start(["cat", file("big.safetensors"), "w", "-o", file("out.bin")]);
  while (!readdirSync(file(".")).some((name) => name.includes("partial"))) await sleep(5);
  child.kill("SIGINT");
  // As a terminal and a program around ours send it both; the second one must not cut off the cleaning up.
  child.kill("SIGINT");
  const [code, signal] = (await once(child, "exit")) as [number | null, string | null];
  // The second one may find a write under way, which an exit would wait for: then the signal itself ends the process. Shells
  // tell both as 130.
  expect([130, "SIGINT"]).toContain(code ?? signal);
  expect(readdirSync(file("."))).toEqual(["big.safetensors"]);
});

/** Waits until the program has the pipe, or a thread of it sleeps in opening one, which Linux calls waiting for a partner. */
async function untilBlocked({ pid }: Child, pipe: string): Promise<void> {
  const holds = (descriptor: string): boolean => {
    try {
      return readlinkSync(`/proc/${pid}/fd/${descriptor}`) === pipe;
    } catch {
      return false; // closed by now
    }
  };
  const waits = (task: string): boolean => {
    try {
      return readFileSync(`/proc/${pid}/task/${task}/wchan`, "utf8") === "wait_for_partner";
    } catch {
      return false; // the thread is gone
    }
  };
  const isBlocked = (): boolean =>
    readdirSync(`/proc/${pid}/task`).some(waits) || readdirSync(`/proc/${pid}/fd`).some(holds);
  while (!isBlocked()) await sleep(10);
}

/** What the program says in reply to signals, each sent once the one before it had its time to work. */
async function endBy(
  child: Child,
  pipe: string,
  signals: readonly NodeJS.Signals[],
): Promise<[number | null, string | null]> {
  const ended = once(child, "exit") as Promise<[number | null, string | null]>;
  await untilBlocked(child, pipe);
  for (const signal of signals) child.kill(signal);
  return ended;
}

it.skipIf(process.platform !== "linux")("a pipe that nobody writes to does not hold the process", async () => {
  const file = scratch();
  const model = file("m.gguf", smallGguf());
  const pipe = file("pipe");
  execFileSync("mkfifo", [pipe]);
  const commands = [
    ["inspect", pipe],
    ["verify", pipe],
    ["diff", model, pipe],
    ["convert", pipe, file("out.aero")],
    ["correct", "gen", pipe],
    ["vault", "create", file("v.aerovault"), "--password-file", pipe],
    ["convert", model, file("out.aero"), "--metadata", pipe],
    ["sign", model, "--key", pipe],
    ["verify", model, "--digests", pipe],
    ["inspect", model, "--limits", pipe],
  ];
  // Two signals end it at once, one after a while.
  const ways = [["SIGINT", "SIGINT"], ["SIGTERM", "SIGTERM"], ["SIGINT"], ["SIGHUP"], ["SIGTERM"]] as const;
  const results = await Promise.all(
    commands.map((args, i) => endBy(start(args), pipe, ways[i % ways.length] as readonly NodeJS.Signals[])),
  );
  for (const [i, [code, signal]] of results.entries()) {
    const name = ways[i % ways.length]?.[0] as "SIGINT" | "SIGTERM" | "SIGHUP";
    const expected = { SIGINT: 130, SIGTERM: 143, SIGHUP: 129 }[name];
    expect([code ?? expected, signal ?? name], commands[i]?.join(" ")).toEqual([expected, name]);
  }
  expect(readdirSync(file(".")).sort()).toEqual(["m.gguf", "pipe"]);
});
