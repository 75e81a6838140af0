import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { appendFile, mkdtemp, rm, symlink, truncate, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { Worker } from "node:worker_threads";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { drain, expectBytes, patternBytes, sourceContract } from "../../../../test/contracts/source-contract.ts";
import { openModel } from "../index.ts";
import { hasFileChanged, openFile, openSidecarFile } from "./source.ts";

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "tare-file-source-"));
});
afterAll(() => rm(folder, { recursive: true }));

let count = 0;
async function write(bytes: Uint8Array): Promise<string> {
  const path = join(folder, `${count++}.bin`);
  await writeFile(path, bytes);
  return path;
}

sourceContract("file", async (bytes) => ({ source: await openFile(await write(bytes)) }));

describe("openFile()", () => {
  test("reads and streams runs longer than one piece", async () => {
    const expected = patternBytes((21 << 20) + 5);
    const source = await openFile(await write(expected));
    const into = new Uint8Array(expected.byteLength - 3);
    expect(await source.read(3, into.byteLength, { into })).toBe(into);
    expectBytes(into, expected.subarray(3));
    expectBytes(await drain(source, 1), expected.subarray(1));
    await source.close();
  });
  test("returns separate buffers, never views of a shared pool", async () => {
    const source = await openFile(await write(patternBytes(100)));
    const bytes = await source.read(10, 20);
    expect(bytes.buffer.byteLength).toBe(20);
    expect(Buffer.isBuffer(bytes)).toBe(false);
    await source.close();
  });
  test("opens an empty file", async () => {
    const source = await openFile(await write(new Uint8Array(0)));
    expect(source.byteLength).toBe(0);
    await source.close();
  });
  test("names the problem: missing, or a folder", async () => {
    const missing = openFile(join(folder, "none"));
    await expect(missing).rejects.toMatchObject({ name: "SourceError", code: "source/not-found" });
    await expect(openFile(join(folder, "none", "below"))).rejects.toMatchObject({ code: "source/not-found" });
    const own = await write(patternBytes(1));
    await expect(openFile(join(own, "below"))).rejects.toMatchObject({ code: "source/not-found" });
    await expect(openFile(folder)).rejects.toMatchObject({ code: "source/is-directory" });
  });
  test("reports a file that became shorter", async () => {
    const path = await write(patternBytes(1000));
    const source = await openFile(path);
    await truncate(path, 600);
    const read = source.read(500, 200);
    await expect(read).rejects.toMatchObject({ code: "source/truncated", at: { source: path, offset: 600 } });
    await expect(drain(source, 0)).rejects.toMatchObject({ code: "source/truncated" });
    await source.close();
  });
  test("notices a change on demand", async () => {
    const path = await write(patternBytes(10));
    const source = await openFile(path);
    expect(await hasFileChanged(source)).toBe(false);
    await appendFile(path, "more");
    expect(await hasFileChanged(source)).toBe(true);
    await source.close();
  });
  test("finishes a read that runs while the source is closed", async () => {
    const expected = patternBytes(100_000);
    const source = await openFile(await write(expected));
    const read = source.read(0, 100_000);
    await source.close();
    expectBytes(await read, expected);
  });
});

const moduleAt = (path: string): string => JSON.stringify(fileURLToPath(new URL(path, import.meta.url)));

/** Threads cannot wait for a pipe without holding a thread of the system: what lets go of it comes last. */
const THREAD_SCRIPT = `
  const { writeFile } = require("node:fs/promises");
  const { parentPort, workerData: pipe } = require("node:worker_threads");
  (async () => {
    (await import("tsx/esm/api")).register();
    const { openFile } = await import(${moduleAt("./source.ts")});
    const { openModel } = await import(${moduleAt("../index.ts")});
    const stop = new AbortController();
    setTimeout(() => stop.abort("asked"), 50);
    const { signal } = stop;
    const opened = await Promise.allSettled([openFile(pipe, { signal }), openModel(pipe, { signal })]);
    parentPort.postMessage(opened.map(({ reason }) => reason));
    await writeFile(pipe, "");
  })();
`;

describe.skipIf(process.platform === "win32")("special files", () => {
  test("spools a pipe, and has no descriptor for it", async () => {
    const pipe = join(folder, "pipe");
    execFileSync("mkfifo", [pipe]);
    const expected = patternBytes(300_000);
    const [source] = await Promise.all([openFile(pipe), writeFile(pipe, expected)]);
    expectBytes(await source.read(0, 300_000), expected);
    expect(source.descriptor).toBeUndefined();
    expect(source.label).toBe(pipe);
    await source.close();
  });
  test("a pipe that nobody writes to is called off at once", async () => {
    const pipe = join(folder, "silent");
    execFileSync("mkfifo", [pipe]);
    const asked = new Error("asked to stop");
    const stop = new AbortController();
    setTimeout(() => stop.abort(asked), 50);
    const { signal } = stop;
    const opened = await Promise.allSettled([openFile(pipe, { signal }), openModel(pipe, { signal })]);
    for (const result of opened) expect(result).toMatchObject({ reason: asked });
  });
  test("a pipe that nobody writes to is called off at once, in a thread too", async () => {
    const pipe = join(folder, "silent-thread");
    execFileSync("mkfifo", [pipe]);
    const worker = new Worker(THREAD_SCRIPT, { eval: true, workerData: pipe });
    const ended = once(worker, "exit");
    expect(await once(worker, "message")).toEqual([["asked", "asked"]]);
    await ended;
  });
  test("refuses to spool without end", async () => {
    const open = openFile("/dev/zero", { maxSpoolBytes: 3 << 20 });
    await expect(open).rejects.toMatchObject({ name: "LimitError", code: "limit/spool" });
  });
  test.skipIf(process.platform !== "linux")("reads procfs files, whose length shows as 0", async () => {
    const source = await openFile("/proc/self/status");
    expect(source.byteLength).toBeGreaterThan(100);
    await source.close();
  });
  test("follows a link to a file", async () => {
    const path = join(folder, "link");
    await symlink(await write(patternBytes(5)), path);
    const source = await openFile(path);
    expect(source.byteLength).toBe(5);
    await source.close();
  });
});

/** Prints how often opening was cancelled, and what a pipe gives afterwards. */
const PIPE_SCRIPT = `
  import { spawn } from "node:child_process";
  import { writeFile } from "node:fs/promises";
  import { openFile } from ${JSON.stringify(fileURLToPath(new URL("./source.ts", import.meta.url)))};
  const [pipe] = process.argv.slice(-1);
  const callOff = async () => {
    const stop = new AbortController();
    setTimeout(() => stop.abort("asked"), 50);
    return openFile(pipe, { signal: stop.signal }).catch((reason) => reason);
  };
  // More than there are threads for files: none of them may stay behind.
  const nobody = await Promise.all(Array.from({ length: 6 }, callOff));
  const silent = spawn("sh", ["-c", 'exec 3> "$0"; printf abc >&3; exec sleep 60', pipe], { stdio: "ignore" });
  const somebody = await callOff();
  silent.kill();
  const [source] = await Promise.all([openFile(pipe), writeFile(pipe, "x".repeat(200000))]);
  console.log(nobody.join(), somebody, source.byteLength);
  await source.close();
`;

test.skipIf(process.platform !== "linux")("no thread stays blocked by a pipe without a writer", () => {
  const pipe = join(folder, "unwritten");
  execFileSync("mkfifo", [pipe]);
  const args = ["--import", "tsx", "--input-type=module", "--eval", PIPE_SCRIPT, pipe];
  const output = execFileSync(process.execPath, args, { encoding: "utf8" });
  expect(output).toBe(`${Array(6).fill("asked").join()} asked 200000\n`);
});

const STDIN_SCRIPT = `
  import { openStdin } from ${JSON.stringify(fileURLToPath(new URL("./source.ts", import.meta.url)))};
  const source = await openStdin();
  const bytes = await source.read(0, source.byteLength);
  console.log(source.byteLength, bytes.reduce((a, b) => a + b, 0));
  await source.close();
`;

describe.skipIf(process.platform === "win32")("openStdin()", () => {
  const expected = patternBytes(200_000);
  const answer = `200000 ${expected.reduce((a, b) => a + b, 0)}`;
  const command = [process.execPath, "--import", "tsx", "--input-type=module", "-e", STDIN_SCRIPT] as const;

  test("reads a pipe", async () => {
    const child = spawn(command[0], command.slice(1), { stdio: ["pipe", "pipe", "inherit"] });
    child.stdin.end(expected);
    let output = "";
    for await (const piece of child.stdout) output += piece;
    expect(output.trim()).toBe(answer);
  });
  test("reads a redirected file", async () => {
    const script = `exec "$0" "$@" < "${await write(expected)}"`;
    const output = execFileSync("sh", ["-c", script, ...command], { encoding: "utf8" });
    expect(output.trim()).toBe(answer);
  });
  test.runIf(process.platform === "linux").each(["openStdin()", 'openFile("/dev/stdin")'])(
    "reads a device that never ends up to a limit: %s",
    (call) => {
      const open = `
        import { openFile, openStdin } from ${JSON.stringify(fileURLToPath(new URL("./source.ts", import.meta.url)))};
        await ${call}.catch(({ code, message }) => console.log(code, message));
      `;
      const script = 'exec "$0" "$@" < /dev/zero';
      const args = ["-c", script, process.execPath, "--import", "tsx", "--input-type=module", "-e", open];
      expect(execFileSync("sh", args, { encoding: "utf8" })).toMatch(/^limit\/spool .* at most 67108864 bytes\n$/);
    },
  );
});

test.skipIf(process.platform !== "linux")("a device that never ends is read up to a limit", async () => {
  const limit = { code: "limit/spool", message: expect.stringContaining(`at most ${64 << 20} bytes`) };
  await expect(openFile("/dev/zero")).rejects.toMatchObject(limit);
});

test.skipIf(process.platform === "win32")(
  "a named device ends at a limit, and any other device is not read",
  async () => {
    await expect(openSidecarFile("/dev/zero", "named")).rejects.toMatchObject({ code: "limit/spool" });
    await expect(openSidecarFile("/dev/zero", "beside")).rejects.toMatchObject({ code: "source/io" });
  },
);
