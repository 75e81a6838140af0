import { describe, expect, test } from "vitest";
import type { Bytes } from "../../src/base/bytes.ts";
import { memorySource } from "../../src/bytes/memory.ts";
import { openSource } from "../../src/open.ts";
import { buildAero, mmsg, tidx, wtsh } from "../builders/aero.ts";
import { buildApr } from "../builders/apr.ts";
import { buildEmbd } from "../builders/embd.ts";
import { buildOnnx } from "../builders/onnx.ts";
import { measureProcessorTime } from "../support/processor-time.ts";

/** Tables as long as files of a few megabytes can have them: opening takes its time, in proportion, and hears who calls it off. */
const names = (count: number): string[] => Array.from({ length: count }, (_, i) => `model.layers.weight.${i}`);
const four = new Uint8Array(4);

const FILES: Readonly<Record<string, (count: number) => Bytes>> = {
  "AERO tensors": (count) => {
    const tensors = names(count).map((name, i) => ({ name, shape: [1], shard: 0, off: 4 * i, len: 4 }));
    return buildAero({ chunks: [mmsg("m"), tidx(tensors), wtsh(new Uint8Array(4 * count), 0)] });
  },
  "AERO chunks": (count) => {
    const shards = Array.from({ length: count }, (_, i) => wtsh(new Uint8Array(1), i));
    return buildAero({ chunks: [mmsg("m"), tidx([]), ...shards] });
  },
  "ONNX initializers": (count) =>
    buildOnnx({ nodes: [], tensors: names(count).map((name) => ({ name, dims: [1], raw: four })) }),
  "ONNX nodes": (count) => {
    const nodes = names(count).map((_, i) => ({ op: "Mul", inputs: [`v${i}`, "w"], outputs: [`v${i + 1}`] }));
    return buildOnnx({ nodes, tensors: [{ name: "w", dims: [1], raw: four }] });
  },
  "APR tensors": (count) =>
    buildApr({ tensors: names(count).map((name) => ({ name, dims: [1], data: four.slice(3) })) }),
  "EMBD tensors": (count) =>
    buildEmbd({ tensors: names(count).map((name) => ({ name, dtype: 0, shape: [1], bytes: four })) }),
  "EMBD metadata": (count) => buildEmbd({ metadata: names(count).map((name) => [name, "v"] as const) }),
};

const open = (bytes: Bytes, signal?: AbortSignal) => openSource(memorySource(bytes, "m"), { signal });

describe.each(Object.entries(FILES))("%s", (_, build) => {
  test("a timer runs while they are read, and its abort is heard", async () => {
    const bytes = build(20_000);
    await open(build(1)); // what reads the format is loaded by now
    const stop = new AbortController();
    const asked = new Error("asked to stop");
    setTimeout(() => stop.abort(asked), 0);
    await expect(open(bytes, stop.signal)).rejects.toBe(asked);
  });

  test("four times as many take about four times as long", async () => {
    const [few, many] = [build(10_000), build(40_000)];
    await open(few);
    const once = await measureProcessorTime(() => open(few));
    const more = await measureProcessorTime(() => open(many));
    // The square would be sixteen times as long; short times are not measured well.
    expect(more.milliseconds).toBeLessThan(10 * once.milliseconds + 100);
  });
});
