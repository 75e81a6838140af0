import { describe, expect, it } from "vitest";
import { tinyBert } from "../../test/builders/tiny-bert.ts";
import { createEncoder } from "../embedding/encoder/encoder.ts";
import { portableEngine } from "../primitives/portable.ts";
import { encoderRunner, WorkerPool } from "./pool.ts";
import { localPort } from "./serve.ts";

const HOST = {
  engine: portableEngine({ tier: "javascript" }),
  openDescriptor: () => Promise.reject(new Error("nothing to open")),
};

/** 60 sentences of up to 40 tokens: more than one group, and enough to be spread. */
const BATCH = Array.from({ length: 60 }, (_, i) =>
  Int32Array.from({ length: 1 + ((i * 7) % 40) }, (_, t) => (t * i + 3) % 30),
);

/** Workers on this thread. Their messages are cloned like messages to another thread. */
function cloningPool(size: number, seen: string[]): WorkerPool {
  return new WorkerPool({
    size,
    spawn: () => {
      const port = localPort(HOST);
      return {
        ...port,
        post(message, transfer) {
          if (message.type === "run") seen.push("image" in message.request ? "with image" : "without");
          port.post(structuredClone(message), transfer);
        },
      };
    },
  });
}

describe("encoderRunner()", () => {
  it.each(["simd", "scalar"] as const)("workers compute the same as the calling thread: %s", async (kernel) => {
    const bert = tinyBert({ hidden: 20, heads: 4, intermediate: 36 });
    const alone = await createEncoder(bert, { kernel });
    const seen: string[] = [];
    const spread = await createEncoder(bert, { kernel, runner: encoderRunner(cloningPool(2, seen), 2) });
    expect(await spread.embed(BATCH)).toEqual(await alone.embed(BATCH));
    expect(seen).toContain("with image");
    const before = seen.length;
    await spread.embed(BATCH);
    // The workers have the encoder by now.
    expect(seen.slice(before)).not.toContain("with image");
    await spread.close();
  });

  it("concurrent callers, and one that aborts, do not disturb each other", async () => {
    const bert = tinyBert({ hidden: 20, heads: 4, intermediate: 36 });
    const expected = await (await createEncoder(bert)).embed(BATCH);
    const encoder = await createEncoder(bert, { runner: encoderRunner(cloningPool(2, []), 2) });
    const giveUp = new AbortController();
    const abandoned = encoder.embed(BATCH, { signal: giveUp.signal });
    const both = Promise.all([encoder.embed(BATCH), encoder.embed(BATCH)]);
    giveUp.abort(new Error("enough"));
    await expect(abandoned).rejects.toThrow("enough");
    expect(await both).toEqual([expected, expected]);
    await encoder.close();
  });

  it("leaves few sentences to the calling thread", async () => {
    const seen: string[] = [];
    const encoder = await createEncoder(tinyBert(), { runner: encoderRunner(cloningPool(2, seen), 2) });
    await encoder.embed(BATCH.slice(0, 3));
    expect(seen).toEqual([]);
    await encoder.close();
  });

  it("does everything on the calling thread if no worker starts", async () => {
    const spawn = (): never => {
      throw new Error("no workers here");
    };
    const bert = tinyBert();
    const encoder = await createEncoder(bert, { runner: encoderRunner(new WorkerPool({ size: 2, spawn }), 2) });
    expect(await encoder.embed(BATCH)).toEqual(await (await createEncoder(bert)).embed(BATCH));
  });

  it("stops with the signal's reason", async () => {
    const encoder = await createEncoder(tinyBert(), { runner: encoderRunner(cloningPool(2, []), 2) });
    const signal = AbortSignal.abort(new Error("enough"));
    await expect(encoder.embed(BATCH, { signal })).rejects.toThrow("enough");
    await encoder.close();
  });
});
