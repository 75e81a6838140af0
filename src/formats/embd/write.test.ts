import { describe, expect, test } from "vitest";
import { buildEmbd, f32, SPECIAL_TOKENS } from "../../../test/builders/embd.ts";
import { loadFixture } from "../../../test/support/fixtures.ts";
import type { Bytes } from "../../base/bytes.ts";
import { memorySink, memorySource } from "../../bytes/memory.ts";
import { stringsOf } from "../../model/bert/vocabulary.ts";
import type { Model } from "../../model/model.ts";
import { openSource } from "../../open.ts";
import { type MetadataEdit, parseEntered, planStamp, type StampPlan, writeStamp } from "../../operations/stamp.ts";
import { verify } from "../../operations/verify.ts";
import { portableEngine } from "../../primitives/portable.ts";

const engine = portableEngine();
const open = (bytes: Bytes) => openSource(memorySource(bytes, "x.weights"), { engine });
const set = (key: string, text: string): MetadataEdit => ({ kind: "set", key, entered: parseEntered(text) });

async function stamp(bytes: Bytes, ...edits: readonly MetadataEdit[]): Promise<{ plan: StampPlan; bytes: Bytes }> {
  const plan = await planStamp(await open(bytes), edits, { engine });
  const sink = memorySink();
  await writeStamp(plan, sink);
  await sink.commit();
  return { plan, bytes: sink.published as Bytes };
}

async function errorsOf(bytes: Bytes): Promise<string[]> {
  const { findings } = await verify(await open(bytes), { level: "full", engine });
  return findings.filter(({ severity }) => severity === "error").map(({ code }) => code);
}

describe("tare stamp on EMBD", () => {
  test.each(["tiny", "relative", "specials-first", "no-vocabulary", "unaligned", "base-not-64"])(
    "%s: metadata grows and shrinks, everything else stays",
    async (name) => {
      const before = loadFixture("embd", name);
      const { bytes } = await stamp(before, set("note", "x".repeat(500)), set("added", "ü"));
      const model = (await open(bytes)).container as Model;
      expect(model.metadata.text("added")).toBe("ü");
      expect(model.metadata.text("note")).toHaveLength(500);
      expect(await errorsOf(bytes)).toEqual([]);
      expect(await model.tensor("w").toFloat32()).toEqual(Float32Array.of(0, 1, 2, 3, 4, 5));
      if (name !== "no-vocabulary") {
        expect(stringsOf(model.metadata.get("vocabulary.tokens"))?.slice(5, 8)).toEqual(["a", "##b", "日"]);
        expect(model.warnings.map(({ code }) => code)).not.toContain("format/embd.special-tokens");
      }
      const smaller = await stamp(bytes, { kind: "unset", key: "note" });
      expect(await errorsOf(smaller.bytes)).toEqual([]);
      expect(((await open(smaller.bytes)).container as Model).metadata.get("note")).toBeUndefined();
    },
  );
  test("if the padding suffices, the file is edited in place", async () => {
    const tensors = [{ name: "w", dtype: 0, shape: [2], bytes: f32(1, 2) }];
    const bytes = buildEmbd({ tensors, tokens: [...SPECIAL_TOKENS], metadata: [["k", "123456"]] });
    const { plan, bytes: after } = await stamp(bytes, set("k", "1"));
    expect(plan.patches).toBeDefined();
    expect(after.byteLength).toBe(bytes.byteLength);
    expect(await errorsOf(after)).toEqual([]);
  });
  test("earlier damage is still detected", async () => {
    const bytes = loadFixture("embd", "tiny").slice();
    bytes[0x142] = 1;
    expect(await errorsOf((await stamp(bytes, set("k", "v"))).bytes)).toEqual([
      "integrity/embd.data-checksum",
      "integrity/embd.file-checksum",
    ]);
  });
  test("refuses the vocabulary's keys, other layouts and values that are too long", async () => {
    const tiny = loadFixture("embd", "tiny");
    await expect(stamp(tiny, set("vocabulary.tokens", "x"))).rejects.toMatchObject({ code: "usage/stamp.key" });
    await expect(stamp(tiny, set("k", "x".repeat(65536)))).rejects.toMatchObject({ code: "usage/stamp.key" });
    await expect(stamp(loadFixture("embd", "stream"), set("k", "v"))).rejects.toMatchObject({
      code: "unsupported/stamp.layout",
    });
  });
});
