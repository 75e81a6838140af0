import { describe, expect, it } from "vitest";
import type { Bytes } from "../base/bytes.ts";
import { encodeHex } from "../base/text.ts";
import { memorySource } from "../bytes/memory.ts";
import type { Source } from "../bytes/source.ts";
import { portableEngine } from "../primitives/portable.ts";
import { flattenDescriptor, type JobHost } from "./jobs.ts";
import { WorkerPool } from "./pool.ts";
import { type FromWorker, PROTOCOL_VERSION, type ToWorker } from "./protocol.ts";
import { localPort, serveJobs } from "./serve.ts";

const FILE = { kind: "file", path: "/x", byteLength: 100, identity: "1" } as const;
const ABC_SHA256 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

/** Runs the loop with these messages and collects its messages until the job ends. */
async function serve(messages: readonly ToWorker[], host: Partial<JobHost> = {}): Promise<FromWorker[]> {
  const said: FromWorker[] = [];
  let tell: (message: ToWorker) => void = () => {};
  const ended = new Promise<void>((resolve) => {
    const post = (message: FromWorker): void => {
      said.push(message);
      if (message.type === "done" || message.type === "failed") resolve();
    };
    const openDescriptor = async (): Promise<Source> => memorySource(new TextEncoder().encode("..abc.."));
    const listen = (onMessage: (message: ToWorker) => void): void => {
      tell = onMessage;
    };
    serveJobs({ post, listen }, { engine: portableEngine({ tier: "javascript" }), openDescriptor, ...host });
  });
  for (const message of messages) tell(message);
  await ended;
  return said;
}

function digestRange(
  descriptor: Parameters<typeof flattenDescriptor>[0],
  offset: number,
  byteLength: number,
): ToWorker {
  return { type: "run", id: 4, kind: "digest-range", request: { algorithm: "sha256", descriptor, offset, byteLength } };
}

describe("serveJobs()", () => {
  it("reports that it is ready, then progress, then the digest of a run of a slice of a slice", async () => {
    const inner = { kind: "slice", of: FILE, offset: 1, byteLength: 6 } as const;
    const outer = { kind: "slice", of: inner, offset: 1, byteLength: 4 } as const;
    const [ready, progress, done] = await serve([digestRange(outer, 0, 3)]);
    expect(ready).toEqual({ type: "ready", protocol: PROTOCOL_VERSION });
    expect(progress).toEqual({ type: "progress", id: 4, byteLength: 3 });
    expect(done?.type === "done" && encodeHex(done.result as Bytes)).toBe(ABC_SHA256);
  });

  it("hashes the bytes of the request", async () => {
    const request = { algorithm: "sha256", bytes: new TextEncoder().encode("abc") } as const;
    const said = await serve([{ type: "run", id: 1, kind: "digest", request }]);
    const done = said.at(-1);
    expect(done?.type === "done" && encodeHex(done.result as Bytes)).toBe(ABC_SHA256);
  });

  it("closes the source, also when hashing fails", async () => {
    let closed = 0;
    const openDescriptor = async (): Promise<Source> => {
      const source = memorySource(new Uint8Array(2));
      const close = async (): Promise<void> => void closed++;
      const read = source.read.bind(source);
      return { label: source.label, byteLength: 2, descriptor: FILE, read, stream: source.stream, close };
    };
    const said = await serve([digestRange(FILE, 0, 3)], { openDescriptor });
    expect(said.at(-1)).toMatchObject({ type: "failed", id: 4, error: { code: "source/out-of-range" } });
    expect(closed).toBe(1);
  });

  it("reports any other error under one code, with its message", async () => {
    const openDescriptor = (): never => {
      throw new TypeError("x is not a function");
    };
    const said = await serve([digestRange(FILE, 0, 3)], { openDescriptor });
    expect(said.at(-1)).toMatchObject({
      type: "failed",
      error: {
        name: "SourceError",
        code: "source/worker.failed",
        message: "Cannot finish the work on a worker: TypeError: x is not a function",
      },
    });
  });

  it("stops a job on request", async () => {
    const said = await serve([digestRange(FILE, 0, 3), { type: "cancel", id: 4 }]);
    expect(said.map(({ type }) => type)).toEqual(["ready", "failed"]);
  });
});

describe("flattenDescriptor()", () => {
  it("refuses a run that exceeds its slice, although it is within the file", () => {
    const slice = { kind: "slice", of: FILE, offset: 10, byteLength: 20 } as const;
    expect(flattenDescriptor(slice, 5, 15)).toEqual({ descriptor: FILE, offset: 15 });
    expect(() => flattenDescriptor(slice, 5, 16)).toThrow(expect.objectContaining({ code: "source/out-of-range" }));
  });
});

it("a worker quantises a run of a tensor that it reads itself", async () => {
  const floats = Float32Array.from({ length: 128 }, (_, i) => Math.sin(i));
  const stored = new Uint8Array(floats.buffer);
  const descriptor = { ...FILE, byteLength: stored.byteLength };
  const request = {
    type: "Q8_0",
    dtype: "F32",
    shape: [2, 64],
    descriptor,
    storedBytes: 512,
    offset: 10,
    byteLength: 90,
  } as const;
  const openDescriptor = async (): Promise<Source> => memorySource(stored);
  const said = await serve([{ type: "run", id: 1, kind: "quantize-range", request }], { openDescriptor });
  const whole = new Uint8Array(4 * 34);
  (await portableEngine({ tier: "javascript" }).quantizer()).encode("Q8_0", floats, whole);
  expect(said.at(-1)).toMatchObject({ type: "done", result: { bytes: whole.slice(10, 100), badBlocks: [] } });
});

const ABC_FILE = { kind: "file", path: "/x", byteLength: 3, identity: "1" } as const;
const RANGE = { algorithm: "sha256", descriptor: ABC_FILE, offset: 0, byteLength: 3 } as const;

function poolWith(host: Partial<JobHost>): WorkerPool {
  const engine = portableEngine({ tier: "javascript" });
  const openDescriptor: JobHost["openDescriptor"] = async () => memorySource(new TextEncoder().encode("abc"));
  return new WorkerPool({ size: 1, spawn: () => localPort({ engine, openDescriptor, ...host }) });
}

describe("localPort", () => {
  it("runs the jobs of a pool without a thread, one after the other", async () => {
    const pool = poolWith({});
    const digests = await Promise.all([pool.run("digest-range", RANGE), pool.run("digest-range", RANGE)]);
    expect(digests.map(encodeHex)).toEqual([ABC_SHA256, ABC_SHA256]);
    await pool.close();
  });

  it("stops its current job when the pool closes", async () => {
    let wasClosed: (value: "closed") => void = () => {};
    const closed = new Promise<"closed">((resolve) => {
      wasClosed = resolve;
    });
    const endless = memorySource(new Uint8Array(3));
    const pool = poolWith({
      openDescriptor: async () => ({
        ...endless,
        label: "endless",
        byteLength: 3,
        read: (_offset, _length, options) =>
          new Promise((_resolve, reject) => {
            options?.signal?.addEventListener("abort", () => reject(options.signal?.reason));
          }),
        stream: () => endless.stream(0),
        close: async () => wasClosed("closed"),
      }),
    });
    const job = pool.run("digest-range", RANGE);
    await Promise.resolve();
    await Promise.resolve();
    const [outcome] = await Promise.allSettled([job, pool.close()]);
    expect(outcome).toMatchObject({ status: "rejected", reason: { code: "usage/worker.closed" } });
    expect(await closed).toBe("closed");
  });
});
