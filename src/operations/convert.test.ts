import { expect, test } from "vitest";
import { buildAero, smallAero } from "../../test/builders/aero.ts";
import { READERS, writerById } from "../../test/builders/loaded-formats.ts";
import { buildSafetensors } from "../../test/builders/safetensors.ts";
import type { Bytes } from "../base/bytes.ts";
import { encodeUtf8 } from "../base/text.ts";
import { memoryOutput, memorySource } from "../bytes/memory.ts";
import type { Container } from "../model/archive.ts";
import type { FormatWriter } from "../model/format.ts";
import type { Model } from "../model/model.ts";
import { castTensor } from "../model/values/casts.ts";
import { openSource } from "../open.ts";
import { portableEngine } from "../primitives/portable.ts";
import type { ConversionOptions } from "./convert/content.ts";
import { planConversion, prepareConversion, writeConversion } from "./convert.ts";

const engine = portableEngine();
const WIDTH = 32;

/** A model that was converted from a GGUF without tare: all of its metadata is text. */
function textual(metadata: Readonly<Record<string, string>>): Bytes {
  const bytes = new Uint8Array(4 * WIDTH * WIDTH);
  const tensors = [{ name: "blk.0.attn_q.weight", dtype: "F32", shape: [WIDTH, WIDTH], bytes }];
  return buildSafetensors(tensors, { metadata });
}

async function convert(bytes: Bytes, to: string, options: Partial<ConversionOptions>): Promise<Model> {
  const name = `m.${to}`;
  const opened = await openSource(memorySource(bytes, "m.safetensors"), { engine });
  const conversion = await prepareConversion(opened, writerById(to), { name, formats: READERS, ...options });
  const output = memoryOutput(name);
  await writeConversion(conversion, output, { engine });
  return (await openSource(memorySource(output.files.get(name) as Bytes, name), { engine })).container as Model;
}

const told = ({ metadata }: Model): unknown[] =>
  ["general.file_type", "general.quantization_version"].map((key) => {
    const value = metadata.get(key);
    return value !== undefined && "value" in value ? Number(value.value) : undefined;
  });

test.each(["safetensors", "gguf", "aero", "apr"])(
  "texts about types are true in %s after types have changed",
  async (to) => {
    const source = textual({ "general.file_type": "0", "general.quantization_version": "1" });
    expect(told(await convert(source, to, {}))).toEqual([0, 1]);
    expect(told(await convert(source, to, { dtype: "F16" }))).toEqual([1, undefined]);
    expect(told(await convert(source, to, { transform: (tensor) => castTensor(tensor, "BF16") }))).toEqual([
      32,
      undefined,
    ]);
  },
);

test("a version of blocks without a file type is corrected as well", async () => {
  const source = textual({ "general.quantization_version": "1" });
  expect(told(await convert(source, "safetensors", { dtype: "F16" }))).toEqual([undefined, undefined]);
});

test("planConversion() refuses to drop metadata that could not be read", async () => {
  const broken = { fourcc: "MJSN", name: "metadata.json", content: encodeUtf8('{"a":1,"a":2}') };
  const opened = await openSource(memorySource(buildAero({ chunks: [broken, ...smallAero().slice(1)] }), "m.aero"));
  const target = writerById("safetensors");
  const options = { name: "m.safetensors", formats: READERS };
  const refusal = expect.objectContaining({
    code: "unsupported/lossy",
    message: expect.stringContaining("metadata.json"),
  });
  expect(() => planConversion(opened, target, options)).toThrow(refusal);
  const { plan } = planConversion(opened, target, { ...options, allowLossy: "allow-lossy" });
  expect(plan.losses).toEqual([{ name: "metadata.json", reason: "its metadata cannot be read" }]);
});

test.each(["describe", "plan"] as const)(
  "an abort that comes during %s is heard before the next step",
  async (when) => {
    const opened = await openSource(memorySource(buildAero({ chunks: smallAero() }), "m.aero"));
    const target = writerById("safetensors");
    const controller = new AbortController();
    const steps: string[] = [];
    const step = (name: string): void => {
      steps.push(name);
      if (name === when) setTimeout(() => controller.abort(), 0);
    };
    const reader = {
      ...opened.reader,
      describe: (container: Container) => {
        step("describe");
        return opened.reader.describe?.(container);
      },
    };
    const writer: FormatWriter = {
      ...target,
      plan: (content, options) => {
        step("plan");
        return target.plan(content, options);
      },
    };
    const options = { name: "m.safetensors", formats: [], signal: controller.signal };
    await expect(prepareConversion({ ...opened, reader }, writer, options)).rejects.toMatchObject({
      name: "AbortError",
    });
    expect(steps.at(-1)).toBe(when);
  },
);
