import { describe, expect, test } from "vitest";
import { buildApr } from "../../test/builders/apr.ts";
import { buildApr1, buildAprender, buildAprn, buildWhisper, f32 } from "../../test/builders/apr-layouts.ts";
import type { Bytes } from "../base/bytes.ts";
import { memoryOutput, memorySource } from "../bytes/memory.ts";
import { reader } from "../formats/apr/read.ts";
import { writer } from "../formats/apr/write.ts";
import type { MetadataValue } from "../model/metadata.ts";
import type { Model } from "../model/model.ts";
import { openSource } from "../open.ts";
import { portableEngine } from "../primitives/portable.ts";
import { planConversion, writeConversion } from "./convert.ts";
import { type UpgradeOptions, upgrade } from "./upgrade.ts";

const engine = portableEngine();
const W = { name: "w", shape: [2], bytes: f32(1, 2) };

async function upgraded(bytes: Bytes, options: Partial<UpgradeOptions> = {}): Promise<Model> {
  const opened = await openSource(memorySource(bytes, "old.apr"), { name: "old.apr" });
  const newer = await upgrade(opened, { engine, limits: {}, ...options });
  const conversion = planConversion(newer, writer, { name: "new.apr", formats: [reader] });
  const output = memoryOutput("new.apr");
  await writeConversion(conversion, output, { engine, verify: {} });
  const written = memorySource(output.files.get("new.apr") ?? new Uint8Array(0), "new.apr");
  return (await openSource(written, { name: "new.apr" })).container as Model;
}

const refusal = (bytes: Bytes, options?: Partial<UpgradeOptions>): Promise<string> =>
  upgraded(bytes, options).then(
    () => "upgraded",
    (error: { code: string }) => error.code,
  );

const member = (value: MetadataValue | undefined, key: string): MetadataValue | undefined =>
  value?.type === "map" ? value.entries.find((entry) => entry.key === key)?.value : undefined;

describe("upgrade()", () => {
  test("keeps bytes and keys, and adds what the specification requires", async () => {
    const model = await upgraded(buildApr1('{"model":"t","n_mels":80,"apr_version":"1.0"}', [W]));
    expect((model as unknown as { layout: string }).layout).toBe("spec");
    expect([...(await model.tensor("w").toFloat32())]).toEqual([1, 2]);
    expect(model.metadata.text("apr_version")).toBe("2.0.0");
    expect(model.metadata.text("model_type")).toBe("unknown");
    expect(model.metadata.text("model")).toBe("t");
    expect(model.metadata.number("n_mels")).toBe(80);
    expect(member(model.metadata.get("architecture"), "n_mels")).toEqual({ type: "i64", value: 80 });
    expect(model.warnings).toEqual([]);
  });

  test("turns an architecture that is a string into an object, and keeps the string", async () => {
    const tensors = [{ name: "w", dtype: 0, shape: [2], bytes: f32(1, 2) }];
    const metadata = '{"model_type":"qwen2","architecture":"qwen2","source_metadata":{"format":"pt"}}';
    const model = await upgraded(buildAprender({ metadata, tensors }));
    expect(member(model.metadata.get("architecture"), "name")).toEqual({ type: "string", value: "qwen2" });
    const source = model.metadata.get("source_metadata");
    expect(member(source, "format")).toEqual({ type: "string", value: "pt" });
    expect(member(source, "architecture")).toEqual({ type: "string", value: "qwen2" });
  });

  test("turns int8 weights into floats, and keeps their scales only in source_metadata", async () => {
    const tensors = [{ name: "w", shape: [4], bytes: Uint8Array.of(1, 0xff, 0x7f, 0), scale: 0.5 }];
    const model = await upgraded(buildWhisper({ quantization: 2, tensors }));
    expect(model.tensor("w").dtype).toBe("F32");
    expect([...(await model.tensor("w").toFloat32())]).toEqual([0.5, -0.5, 63.5, 0]);
    expect(model.metadata.get("tensor_scales")).toBeUndefined();
    expect(model.metadata.get("quantization")).toBeUndefined();
    expect(member(model.metadata.get("source_metadata"), "tensor_scales")).toBeDefined();
    expect(member(model.metadata.get("architecture"), "n_vocab")).toEqual({ type: "i64", value: 11 });
  });

  test("keeps the payload of APRN on request", async () => {
    const payload = Uint8Array.of(9, 8, 7);
    expect(await refusal(buildAprn({ payload }))).toBe("unsupported/upgrade.aprn");
    const model = await upgraded(buildAprn({ payload }), { payload: "wrap" });
    expect(await model.tensor("payload").bytes()).toEqual(payload);
    expect(model.metadata.text("source_format")).toBe("APRN");
    expect(member(model.metadata.get("source_header"), "quality")).toEqual({ type: "i64", value: 85 });
    expect(model.unread ?? []).toEqual([]);
  });

  test("refuses damaged, current and foreign files", async () => {
    expect(await refusal(buildApr1("{}", [W], { crc: "wrong" }))).toBe("integrity/apr.crc");
    expect(await refusal(buildApr())).toBe("usage/upgrade.current");
    const mislabelled = [{ name: "w", dtype: 0, shape: [2], bytes: f32(1, 2, 3) }];
    expect(await refusal(buildAprender({ tensors: mislabelled }))).toBe("format/apr.mislabelled");
    const quantized = [{ name: "q", dtype: 128, shape: [32], bytes: new Uint8Array(18) }];
    expect(await refusal(buildAprender({ tensors: quantized }))).toBe("unsupported/lossy");
  });
});
