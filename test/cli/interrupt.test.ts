import { type ChildProcessByStdio, execFileSync, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import {
  closeSync,
  ftruncateSync,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  statSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import type { Readable } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, it } from "vitest";
import { rawSafetensors } from "../builders/safetensors.ts";
import { callTare, scratch, TARE } from "./run-tare.ts";
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

const PROGRAM = new URL("interrupted-program.ts", import.meta.url).pathname;

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
  expect(await once(child, "exit")).toEqual([130, null]);
  expect(readdirSync(file("."))).toEqual(["big.safetensors"]);
});

it("a second signal while writing leaves no half file either", async () => {
  const file = scratch();
  writeSparseModel(file("big.safetensors"));
  const child = start(["cat", file("big.safetensors"), "w", "-o", file("out.bin")]);
  while (!readdirSync(file(".")).some((name) => name.includes("partial"))) await sleep(5);
  child.kill("SIGINT");
  // As a terminal and a program around ours send it both. The command may be done with cleaning up by then; the test below
  // is about how the process ends if it is not.
  child.kill("SIGTERM");
  await once(child, "exit");
  expect(readdirSync(file("."))).toEqual(["big.safetensors"]);
});

it("Ctrl-C while vault add waits for standard input puts the vault back as it was", async () => {
  const file = scratch();
  const env = { XDG_STATE_HOME: file("state") };
  writeFileSync(file("base"), randomBytes(18 << 20)); // more than 16 MiB: the vault is changed in place
  for (const words of [
    ["create", file("v"), "--no-encryption", "--profile", "fast"],
    ["add", file("v"), file("base")],
  ]) {
    expect((await callTare(["vault", ...words], { env })).code).toBe(0);
  }
  const before = readFileSync(file("v"));
  const child = spawn(process.execPath, [TARE, "vault", "add", file("v"), "-"], {
    stdio: ["pipe", "ignore", "ignore"],
    env: { ...process.env, ...env },
  });
  child.stdin.on("error", () => undefined);
  child.stdin.write(randomBytes(32 << 20)); // several jobs, and it stays open: more may come
  while (statSync(file("v")).size === before.byteLength) await sleep(5);
  child.kill("SIGINT");
  child.stdin.end(); // Ctrl-C in a pipeline ends the writer too: what came until then must not count as all of it
  expect(await once(child, "exit")).toEqual([130, null]);
  expect(readFileSync(file("v")).equals(before)).toBe(true);
});

/** What comes next on standard output. */
async function nextText({ stdout }: Child): Promise<string> {
  const [piece] = (await once(stdout, "data")) as [Buffer];
  return piece.toString();
}

const PAIRS = [
  ["SIGINT", "SIGINT"],
  ["SIGTERM", "SIGTERM"],
  ["SIGHUP", "SIGINT"],
  ["SIGINT", "SIGTERM"],
] as const;

it.skipIf(process.platform === "win32").each(PAIRS)(
  "a second signal ends the process at once, by that signal: %s, %s",
  async (first, second) => {
    const file = scratch();
    const child = spawn(process.execPath, ["--import", "tsx", PROGRAM, file("marker")], {
      stdio: ["ignore", "pipe", "pipe"],
    });
    const ended = once(child, "exit");
    expect(await nextText(child)).toBe("ready\n");
    child.kill(first);
    expect(await nextText(child)).toBe("interrupted\n");
    child.kill(second);
    expect(await ended).toEqual([null, second]);
    expect(readFileSync(file("marker"), "utf8")).toBe("cleaned up");
  },
);

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

/** Waits until no signal is on its way to the program: one that is sent now is not taken for the one before it. */
async function untilDelivered({ pid }: Child): Promise<void> {
  while (!/^ShdPnd:\s*0+$/m.test(readFileSync(`/proc/${pid}/status`, "utf8"))) await sleep(1);
}

interface Ending {
  readonly end: readonly [number | null, string | null];
  readonly err: string;
}

/** How the program ends that waits for a pipe and is sent these signals. */
async function endBy(args: readonly string[], pipe: string, signals: readonly NodeJS.Signals[]): Promise<Ending> {
  const child = start(args);
  const err: Buffer[] = [];
  child.stderr.on("data", (piece: Buffer) => err.push(piece));
  const ended = once(child, "close") as Promise<[number | null, string | null]>;
  await untilBlocked(child, pipe);
  for (const signal of signals) {
    child.kill(signal);
    if (signals.length > 1) await untilDelivered(child).catch(() => undefined); // it has ended: nothing is on its way
  }
  return { end: await ended, err: Buffer.concat(err).toString() };
}

const CODES = { SIGHUP: 129, SIGINT: 130, SIGTERM: 143 } as const;

it.skipIf(process.platform !== "linux")("a pipe that nothing writes to does not hold the process", async () => {
  const file = scratch();
  const model = file("m.gguf", smallGguf());
  const pipe = file("pipe");
  execFileSync("mkfifo", [pipe]);
  // Waiting for an input, or for what an option names, can be called off: the command ends as it should.
  const patient: readonly (readonly [keyof typeof CODES, readonly string[]])[] = [
    ["SIGINT", ["inspect", pipe]],
    ["SIGTERM", ["verify", pipe]],
    ["SIGHUP", ["diff", model, pipe]],
    ["SIGINT", ["convert", pipe, file("out.aero")]],
    ["SIGTERM", ["correct", "gen", pipe]],
    ["SIGTERM", ["convert", model, file("out.aero"), "--metadata", pipe]],
    ["SIGHUP", ["sign", model, "--key", pipe]],
    ["SIGINT", ["verify", model, "--digests", pipe]],
    ["SIGTERM", ["inspect", model, "--limits", pipe]],
  ];
  const calledOff = await Promise.all(patient.map(([signal, args]) => endBy(args, pipe, [signal])));
  for (const [i, [signal, args]] of patient.entries()) {
    expect(calledOff[i]?.end, args.join(" ")).toEqual([CODES[signal], null]);
    expect(calledOff[i]?.err).toContain("Interrupted");
  }
  // Opening a file with a password cannot: the process ends by the signal, after a while or by the second one.
  const stuck: readonly (readonly [keyof typeof CODES, readonly string[]])[] = [
    ["SIGINT", ["vault", "create", file("v.aerovault"), "--password-file", pipe]],
    ["SIGTERM", ["vault", "create", file("w.aerovault"), "--password-file", pipe]],
  ];
  const afterAWhile = await Promise.all(stuck.map(([signal, args]) => endBy(args, pipe, [signal])));
  const atOnce = await Promise.all(stuck.map(([signal, args]) => endBy(args, pipe, [signal, signal])));
  for (const [i, [signal, args]] of stuck.entries()) {
    expect(afterAWhile[i]?.end, args.join(" ")).toEqual([null, signal]);
    expect(afterAWhile[i]?.err).toContain("Interrupted");
    expect(atOnce[i], args.join(" ")).toEqual({ end: [null, signal], err: "" });
  }
  expect(readdirSync(file(".")).sort()).toEqual(["m.gguf", "pipe"]);
});

it.runIf(process.platform === "linux").each(["SIGTERM", "SIGINT"] as const)(
  "%s ends TARE_PASSWORD_COMMAND with what it started",
  async (signal) => {
    const file = scratch();
    const env = { XDG_STATE_HOME: file("state"), TARE_PASSWORD: "correct horse" };
    expect((await callTare(["vault", "create", file("v")], { env })).code).toBe(0);
    const command = `sleep 600 & echo $! > '${file("pid.new")}'; mv '${file("pid.new")}' '${file("pid")}'; wait; echo`;
    const child = spawn(process.execPath, [TARE, "vault", "ls", file("v")], {
      stdio: "ignore",
      env: { ...process.env, XDG_STATE_HOME: file("state"), TARE_PASSWORD_COMMAND: command },
    });
    while (!readdirSync(file(".")).includes("pid")) await sleep(5);
    const pid = Number(readFileSync(file("pid"), "utf8"));
    const ended = once(child, "exit");
    child.kill(signal);
    expect((await ended)[0]).toBe(signal === "SIGINT" ? 130 : 143);
    const isRunning = (): boolean => {
      // A process that has ended stays in the list until its parent asks for it.
      const [, state] = /^\d+ \(.*\) (.)/s.exec(statusOf(pid)) ?? [];
      return state !== undefined && state !== "Z";
    };
    try {
      while (isRunning()) await sleep(5);
    } finally {
      if (isRunning()) process.kill(pid, "SIGKILL");
    }
  },
);

/** The line of a process under /proc; empty if there is none. */
function statusOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/stat`, "latin1");
  } catch {
    return "";
  }
}
