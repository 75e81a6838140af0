import { describe, expect, test } from "vitest";
import { openBytes } from "../../../../test/builders/apr-layout-reading.ts";
import { float32Tensor, memoryTensor } from "../../../../test/builders/tensors.ts";
import { encodeHex } from "../../../base/text.ts";
import { memoryOutput } from "../../../bytes/memory.ts";
import type { ModelContent, WriteOptions } from "../../../model/format.ts";
import { Metadata, type MetadataValue, stringValue } from "../../../model/metadata.ts";
import type { Tensor } from "../../../model/tensor.ts";
import { portableEngine } from "../../../primitives/portable.ts";
import { planAprender, writeAprender } from "./write.ts";

const engine = portableEngine();

function contentOf(metadata: Readonly<Record<string, MetadataValue>>, tensors: readonly Tensor[]): ModelContent {
  const entries = Object.entries(metadata).map(([key, value]) => ({ key, value }));
  return { metadata: new Metadata(entries), tensors, chain: [] };
}

async function write(content: ModelContent, options: Partial<WriteOptions> = {}): Promise<Uint8Array<ArrayBuffer>> {
  const output = memoryOutput("m.apr");
  const plan = planAprender(content, { name: "m.apr", ...options });
  await writeAprender(plan, output, { engine });
  const bytes = output.files.get("m.apr") ?? new Uint8Array(0);
  expect(bytes.byteLength).toBe(plan.files[0]?.byteLength);
  return bytes;
}

const none: MetadataValue = { type: "null" };
const count = (value: number): MetadataValue => ({ type: "i64", value });

describe("planAprender()", () => {
  test("reproduces the reference's golden file byte for byte", async () => {
    const metadata = {
      model_type: stringValue("linear_regression"),
      name: stringValue("golden-v2"),
      license: none,
      data_source: none,
      data_license: none,
      version: stringValue("0.0.0-golden"),
      created_at: stringValue("1700000000"),
      total_size: count(0),
      param_count: count(8),
    };
    const weights = float32Tensor("weights", [1, 2, 0.5, -0.5, 4, -2, 0.25, 8]);
    const bytes = await write(contentOf(metadata, [weights, float32Tensor("bias", [0.125])]));
    expect(bytes.byteLength).toBe(516);
    expect(encodeHex(bytes.subarray(36, 44))).toBe("00000000028cc03b");
    expect(encodeHex(bytes.subarray(512))).toBe("353f0f55");
    // The file of the apr-format package (MIT OR Apache-2.0), which its own tests compare with.
    expect(encodeHex(await engine.digest("sha256", bytes))).toBe(
      "047642c8a09f5807466374928c28e370855ddb96f527d4445ee359a591594c2c",
    );
  });

  test("writes every type that aprender knows, and reads it back", async () => {
    const tensors = [
      memoryTensor("bf16", "BF16", [3], new Uint8Array(6)),
      memoryTensor("f64", "F64", [2], new Uint8Array(16)),
      memoryTensor("i64", "I64", [], new Uint8Array(8)),
      memoryTensor("q4", "APR_Q4", [2, 35], new Uint8Array(54)),
      memoryTensor("q4k", "Q4_K", [5, 300], new Uint8Array(1440)),
      memoryTensor("q6k", "Q6_K", [1, 256], new Uint8Array(210)),
      memoryTensor("q8", "APR_Q8", [9], new Uint8Array(13)),
      memoryTensor("zero", "F16", [0, 3], new Uint8Array(0)),
    ];
    const model = await openBytes(await write(contentOf({}, tensors)));
    expect(model.warnings).toEqual([]);
    expect(model.layout).toBe("aprender");
    expect(model.tensors.map(({ name, dtype, shape }) => [name, dtype, shape])).toEqual(
      tensors.map(({ name, dtype, shape }) => [name, dtype, shape]),
    );
    expect(new Map(model.facts).get("flags")).toBe("QUANTIZED, LAYOUT_ROW_MAJOR");
  });

  test("refuses what aprender has no place for, by name", () => {
    const tensors = [
      memoryTensor("q", "Q8_0", [32], new Uint8Array(34)),
      memoryTensor("u", "U16", [1], new Uint8Array(2)),
      memoryTensor("deep", "U8", [1, 1, 1, 1, 1, 1, 1, 1, 1], new Uint8Array(1)),
      memoryTensor("n".repeat(257), "U8", [1], new Uint8Array(1)),
      memoryTensor("flag", "BOOL", [1], new Uint8Array(1)),
    ];
    const { losses } = planAprender(contentOf({}, tensors), { name: "m.apr" });
    expect(losses.map(({ name }) => name)).toEqual(["q", "u", "deep", "n".repeat(257)]);
  });

  test("gives aprender only metadata of the types that it reads", async () => {
    const object: MetadataValue = { type: "map", entries: [{ key: "name", value: stringValue("llama") }] };
    const bytes = await write(
      contentOf({ architecture: object, created_at: count(17), hidden_size: count(4), n_embd: count(4) }, []),
    );
    const size = new DataView(bytes.buffer).getUint32(20, true);
    const json = JSON.parse(new TextDecoder().decode(bytes.subarray(64, 64 + size))) as Record<string, unknown>;
    expect(json).toMatchObject({
      model_type: "llama",
      architecture: "llama",
      license: null,
      hidden_size: 4,
      param_count: 0,
    });
    expect(Object.hasOwn(json, "created_at")).toBe(false);
    expect(Object.hasOwn(json, "n_embd")).toBe(false);
    // Nothing is lost: what aprender would refuse is kept for the way back.
    expect(json["tare.origin"]).toContain("created_at");
  });

  test("refuses options that the layout does not have", () => {
    const plan = (options: Partial<WriteOptions>) => () =>
      planAprender(contentOf({}, []), { name: "m.apr", ...options });
    expect(plan({ align: 32 })).toThrow(expect.objectContaining({ code: "usage/apr.align" }));
    expect(plan({ maxShardBytes: 10 })).toThrow(expect.objectContaining({ code: "usage/apr.layout" }));
    expect(plan({ compress: "lz4" })).toThrow(expect.objectContaining({ code: "usage/apr.layout" }));
    expect(plan({ align: 64 })).not.toThrow();
  });
});
