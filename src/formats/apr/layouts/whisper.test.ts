import { expect, test } from "vitest";
import { faultsOf, openBytes, refusalOf, survives } from "../../../../test/builders/apr-layout-reading.ts";
import { buildWhisper, f32, whisperExtras } from "../../../../test/builders/apr-layouts.ts";
import { encodeUtf8 } from "../../../base/text.ts";
import type { MetadataValue } from "../../../model/metadata.ts";

const W = { name: "encoder.weight", shape: [2, 2], bytes: f32(1, 2, 3, 4) };
const items = (value: MetadataValue | undefined): readonly MetadataValue[] =>
  value?.type === "array" ? value.slice() : [];

test("whisper.apr gives its header as metadata and its tensors by name", async () => {
  const bytes = buildWhisper({ tensors: [W, { name: "x".repeat(60), shape: [1], bytes: f32(5) }] });
  const model = await openBytes(bytes);
  expect(model.layout).toBe("whisper");
  expect(model.tensors.map(({ name, dtype, shape }) => [name, dtype, shape])).toEqual([
    ["encoder.weight", "F32", [2, 2]],
    ["x".repeat(47), "F32", [1]],
  ]);
  expect([...(await model.tensor("encoder.weight").toFloat32())]).toEqual([1, 2, 3, 4]);
  expect(model.metadata.text("name")).toBe("whisper-base.en");
  const architecture = model.metadata.get("architecture");
  expect(architecture?.type === "map" && architecture.entries.map(({ key }) => key)).toEqual([
    "n_vocab",
    "n_audio_ctx",
    "n_audio_state",
    "n_audio_head",
    "n_audio_layer",
    "n_text_ctx",
    "n_text_state",
    "n_text_head",
    "n_text_layer",
    "n_mels",
  ]);
  expect(architecture?.type === "map" && architecture.entries[9]?.value).toEqual({ type: "u32", value: 110 });
  expect(await faultsOf(bytes)).toEqual([]);
});

test("whisper.apr gives int8 weights as they are stored, and their scales as metadata", async () => {
  const stored = Uint8Array.of(1, 0xff, 0x7f, 0x81);
  const bytes = buildWhisper({ quantization: 2, tensors: [{ ...W, bytes: stored, scale: 0.5 }] });
  const model = await openBytes(bytes);
  expect(model.tensor("encoder.weight").dtype).toBe("I8");
  expect(await model.tensor("encoder.weight").bytes()).toEqual(stored);
  const scales = model.metadata.get("tensor_scales");
  expect(scales?.type === "map" && scales.entries).toEqual([
    { key: "encoder.weight", value: { type: "f32", value: 0.5 } },
  ]);
});

test.each([
  ["bytes behind the name", 20, "format/apr.reserved"],
  ["shape behind the last dimension", 80, "format/apr.reserved"],
  ["reserved", 95, "format/apr.reserved"],
  ["element count", 64, "format/apr.tensor-size"],
])("whisper.apr: a conversion loses the %s of an entry, and opening warns", async (what, offset, code) => {
  const bytes = buildWhisper({ tensors: [W] });
  bytes[52 + offset] = 9;
  const model = await openBytes(bytes);
  expect(model.warnings.map((warning) => [warning.code, warning.name])).toEqual([[code, "encoder.weight"]]);
  expect(model.unread?.map(({ name }) => name)).toEqual([`${what} of encoder.weight`]);
  expect((await openBytes(buildWhisper({ tensors: [W] }))).unread).toEqual([]);
});

test("whisper.apr gives vocabulary and filterbank, byte strings included", async () => {
  const extras = whisperExtras([encodeUtf8("a"), Uint8Array.of(0xc3)], [["a", "b"]]);
  const { metadata } = await openBytes(buildWhisper({ flags: 3, tensors: [W], extras }));
  expect(items(metadata.get("vocab"))).toEqual([
    { type: "string", value: "a" },
    { type: "string", value: "\ufffd", raw: Uint8Array.of(0xc3) },
  ]);
  expect(items(items(metadata.get("merges"))[0])).toEqual([
    { type: "string", value: "a" },
    { type: "string", value: "b" },
  ]);
  expect(items(metadata.get("mel_filterbank")).map((item) => (item.type === "f32" ? item.value : undefined))).toEqual([
    0, 0.5, 1, 1.5, 2, 2.5,
  ]);
});

test("whisper.apr is refused if its meaning is unknown", async () => {
  expect(await refusalOf(buildWhisper({ compressed: 1, tensors: [W] }))).toBe("unsupported/apr.whisper-compressed");
  expect(await refusalOf(buildWhisper({ tensors: [{ ...W, shape: [1, 1, 1, 1, 1] }] }))).toBe(
    "unsupported/apr.whisper-entries",
  );
  // The header announces a vocabulary that is not there.
  expect(await refusalOf(buildWhisper({ flags: 1, tensors: [W] }))).toBe("format/apr.truncated");
  const lying = whisperExtras([], []);
  new DataView(lying.buffer).setUint32(4, 0xffff_ffff, true);
  expect(await refusalOf(buildWhisper({ flags: 3, tensors: [W], extras: lying }))).toBe("limit/apr.extras");
  const four = buildWhisper({ quantization: 3, tensors: [{ ...W, bytes: new Uint8Array(2) }] });
  expect((await openBytes(four)).tensors[0]?.dtype).toBe("UNKNOWN_3");
});

test("whisper.apr never crashes on damage", async () => {
  const extras = whisperExtras([encodeUtf8("ab")], [["a", "b"]]);
  expect(
    await survives(buildWhisper({ flags: 3, quantization: 2, tensors: [{ ...W, bytes: new Uint8Array(4) }], extras })),
  ).toBeGreaterThan(50);
});
