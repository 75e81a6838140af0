import { describe, expect, test } from "vitest";
import { READERS, writerById } from "../../../test/builders/loaded-formats.ts";
import { buildSafetensors } from "../../../test/builders/safetensors.ts";
import type { Bytes } from "../../base/bytes.ts";
import { type MemoryOutput, type MemorySink, memoryOutput, memorySource } from "../../bytes/memory.ts";
import type { Output } from "../../bytes/sink.ts";
import type { WriteHashes } from "../../model/format.ts";
import { openSource } from "../../open.ts";
import { portableEngine } from "../../primitives/portable.ts";
import { type ConversionContext, planConversion, writeConversion } from "../convert.ts";

const engine = portableEngine();
/** One tensor that is hashed at once, and one that is hashed by range. */
const MODEL = buildSafetensors([
  { name: "first", dtype: "F32", shape: [3], bytes: Uint8Array.from({ length: 12 }, (_, i) => i) },
  { name: "second", dtype: "I8", shape: [70_000], bytes: new Uint8Array(70_000).fill(7) },
  { name: "empty", dtype: "F16", shape: [0], bytes: new Uint8Array(0) },
]);

interface Target {
  readonly format: string;
  readonly hashes?: WriteHashes;
}

async function convert(target: Target, output: Output, context: Partial<ConversionContext>): Promise<void> {
  const opened = await openSource(memorySource(MODEL, "model.safetensors"), { engine });
  const options = { name: output.name, formats: READERS, uuid: new Uint8Array(16), hashes: target.hashes };
  const conversion = planConversion(opened, writerById(target.format), options);
  await writeConversion(conversion, output, { engine, ...context });
}

/** The offset of each tensor in an undamaged result. */
async function offsetsIn(target: Target): Promise<Map<string, number>> {
  const output = memoryOutput("out");
  await convert(target, output, {});
  const { container } = await openSource(memorySource(output.files.get("out") as Bytes), { engine });
  if (container.kind !== "model") throw new Error("not a model");
  return new Map(container.tensors.map(({ name, offset }) => [name, offset]));
}

/** Memory in which the byte at `at` is stored changed. */
function damagingOutput(at: number): MemoryOutput {
  const inner = memoryOutput("out");
  const flipped = (bytes: Bytes, start: number): Bytes => {
    if (at < start || at >= start + bytes.byteLength) return bytes;
    const copy = bytes.slice();
    copy[at - start] = (copy[at - start] as number) ^ 0x10;
    return copy;
  };
  const create = async (name: string): Promise<MemorySink> => {
    const sink = (await inner.create(name)) as MemorySink;
    const { append, fill } = sink;
    sink.append = (bytes) => append.call(sink, flipped(bytes, sink.position));
    sink.fill = (offset, bytes) => fill.call(sink, offset, flipped(bytes, offset));
    return sink;
  };
  return { label: inner.label, name: inner.name, files: inner.files, create };
}

const TARGETS: readonly (readonly [what: string, target: Target])[] = [
  ["SafeTensors", { format: "safetensors" }],
  ["GGUF", { format: "gguf" }],
  ["AERO with digests of its shards", { format: "aero" }],
  ["AERO with page hashes", { format: "aero", hashes: { pageBytes: 4096 } }],
  ["AERO with tensor hashes", { format: "aero", hashes: { tensors: "tensors", control: "control" } }],
];

describe.each(TARGETS)("writeConversion() with verify, to %s", (_, target) => {
  test("keeps a file that reads back unchanged, and reports progress", async () => {
    const output = memoryOutput("out");
    let bytes = 0;
    await convert(target, output, { verify: { onProgress: (byteLength) => (bytes += byteLength) } });
    expect([...output.files.keys()]).toEqual(["out"]);
    expect(bytes).toBeGreaterThanOrEqual(70_012);
  });

  test.each(["first", "second"])("drops a file in which a byte of %j changed on the way", async (name) => {
    const at = (await offsetsIn(target)).get(name) as number;
    const output = damagingOutput(at + 5);
    await expect(convert(target, output, { verify: {} })).rejects.toMatchObject({
      name: "IntegrityError",
      code: "integrity/written",
      message: expect.stringContaining(`tensor "${name}" is not what was written`),
      at: { source: "memory/out", offset: at, path: name },
    });
    expect(output.files.size).toBe(0);
  });

  test("detects the damage: without it the damaged file is kept", async () => {
    const at = (await offsetsIn(target)).get("second") as number;
    const output = damagingOutput(at + 5);
    await convert(target, output, {});
    expect(output.files.size).toBe(1);
  });

  test("drops a file whose header changed on the way", async () => {
    const output = damagingOutput(target.format === "safetensors" ? 8 : 4);
    const code = expect.stringMatching(/^(integrity\/written|unsupported\/)/);
    await expect(convert(target, output, { verify: {} })).rejects.toMatchObject({ code });
    expect(output.files.size).toBe(0);
  });
});

test("writeConversion() refuses to verify an output that cannot be read back, and drops it", async () => {
  let aborted = 0;
  const output: Output = {
    label: "pipe",
    name: "out",
    create: async () => ({
      label: "pipe",
      position: 0,
      append: () => Promise.reject(new Error("written although it cannot be verified")),
      commit: () => Promise.reject(new Error("committed although it cannot be verified")),
      abort: async () => void aborted++,
    }),
  };
  const target = { format: "safetensors" };
  await expect(convert(target, output, { verify: {} })).rejects.toMatchObject({ code: "usage/verify-output" });
  expect(aborted).toBe(1);
});

test("writeConversion() runs the caller's own check after its own", async () => {
  const output = memoryOutput("out");
  const refusal = new Error("not this one");
  const check = () => Promise.reject(refusal);
  await expect(convert({ format: "gguf" }, output, { check })).rejects.toBe(refusal);
  expect(output.files.size).toBe(0);
});
