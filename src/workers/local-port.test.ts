import { describe, expect, it } from "vitest";
import { encodeHex } from "../base/text.ts";
import { memorySource } from "../bytes/memory.ts";
import { portableEngine } from "../primitives/portable.ts";
import type { JobHost } from "./jobs.ts";
import { WorkerPool } from "./pool.ts";
import { localPort } from "./serve.ts";

const ABC_SHA256 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
const FILE = { kind: "file", path: "/x", byteLength: 3, identity: "1" } as const;
const RANGE = { algorithm: "sha256", descriptor: FILE, offset: 0, byteLength: 3 } as const;

function poolWith(host: Partial<JobHost>): WorkerPool {
  const engine = portableEngine({ tier: "javascript" });
  const openDescriptor: JobHost["openDescriptor"] = async () => memorySource(new TextEncoder().encode("abc"));
  return new WorkerPool({ size: 1, spawn: () => localPort({ engine, openDescriptor, ...host }) });
}

describe("localPort", () => {
  it("answers the jobs of a pool without a thread, one behind the other", async () => {
    const pool = poolWith({});
    const digests = await Promise.all([pool.run("digest-range", RANGE), pool.run("digest-range", RANGE)]);
    expect(digests.map(encodeHex)).toEqual([ABC_SHA256, ABC_SHA256]);
    await pool.close();
  });

  it("stops the job it is busy with when the pool closes", async () => {
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
