import { describe, expect, test } from "vitest";
import { type BuiltChunk, buildAero, mjsn, mmsg, smallAero } from "../../../../test/builders/aero.ts";
import { openedBy, READERS } from "../../../../test/builders/loaded-formats.ts";
import { float32Tensor } from "../../../../test/builders/tensors.ts";
import type { Bytes } from "../../../base/bytes.ts";
import { encodeUtf8 } from "../../../base/text.ts";
import { memoryOutput, memorySource } from "../../../bytes/memory.ts";
import type { Format, ModelContent } from "../../../model/format.ts";
import { Metadata, stringValue } from "../../../model/metadata.ts";
import { contentOf } from "../../../operations/convert/content.ts";
import { planConversion, requireWriter, writeConversion } from "../../../operations/convert.ts";
import { portableEngine } from "../../../primitives/portable.ts";
import { formatById } from "../../registry.ts";
import { aero } from "../index.ts";
import type { AeroModel } from "../model.ts";
import { planAero } from "../plan.ts";
import { openAero, reader } from "../read.ts";
import { writeAero } from "../write.ts";

const engine = portableEngine();
const open = (bytes: Bytes): Promise<AeroModel> => openAero(memorySource(bytes), { engine, limits: {} });
const contentIn = (container: AeroModel): ModelContent =>
  contentOf({ container, format: aero, reader, notes: [] }, { name: "m", formats: READERS });

describe("the name and architecture of the manifest", () => {
  test.each([
    [
      { name: "Hand", model_type: "bert" },
      { name: "Hand", architecture: "bert" },
    ],
    [
      { name: "Hand", "general.name": "Gguf", model_type: "bert", "general.architecture": "llama" },
      { name: "Gguf", architecture: "llama" },
    ],
    [
      { "general.name": "Gguf", model_name: "Own", architecture: "own" },
      { name: "Own", architecture: "own" },
    ],
    [
      { name: "", "general.name": "\ud800", model_type: "" },
      { name: "converted", architecture: "unknown" },
    ],
  ])("come from %j, and the metadata comes back unchanged", async (texts, manifest) => {
    const metadata = new Metadata(Object.entries(texts).map(([key, value]) => ({ key, value: stringValue(value) })));
    const output = memoryOutput("m");
    const plan = planAero({ metadata, tensors: [float32Tensor("t", [1])], chain: [] }, { name: "m" });
    await writeAero(plan, output, { engine });
    const model = await open(output.files.get("m") as Bytes);
    expect(model.content.manifest).toEqual(manifest);
    expect(model.metadata.text("model_name")).toBe(manifest.name);
    expect(model.warnings).toEqual([]);
    expect(contentIn(model).metadata.entries).toEqual(metadata.entries);
  });
});

/** Converts a foreign file with this MJSN text through other formats and back to AERO. */
async function through(text: string, ...formats: readonly string[]): Promise<AeroModel> {
  const json: BuiltChunk = { ...mjsn({}), content: encodeUtf8(text) };
  let bytes = buildAero({ chunks: [json, mmsg("", ""), ...smallAero().slice(2)] });
  let format: Format = aero;
  for (const id of [...formats, "aero"]) {
    const opened = await openedBy(format, memorySource(bytes), { engine, limits: {} });
    const output = memoryOutput("m");
    const target = formatById(id) as Format;
    const options = { name: "m", formats: READERS };
    await writeConversion(planConversion(opened, await requireWriter(target), options), output, { engine });
    bytes = output.files.get("m") as Bytes;
    format = target;
  }
  return open(bytes);
}

/** The JSON that readers see that do not know `tare.origin`. */
function jsonText({ content }: AeroModel, bytes: Bytes): string {
  const chunk = content.control.toc.first("MJSN");
  return new TextDecoder().decode(bytes.subarray(chunk?.offset, (chunk?.offset ?? 0) + (chunk?.byteLength ?? 0)));
}

async function textOf(model: AeroModel): Promise<string> {
  const [part] = model.parts;
  return jsonText(model, await (part as NonNullable<typeof part>).source.read(0, part?.byteLength ?? 0));
}

const FOREIGN = `{ "zeta": 1e2, "alpha": {"z": [1, 2.50, null], "a": {"y": true, "b": "é"}},\n\t"list": [${"7,".repeat(99)}7] }`;

describe("JSON of another writer", () => {
  test.each([[[]], [["safetensors"]], [["gguf"]]])("keeps keys, order and values through %j", async (formats) => {
    const { metadata } = contentIn(await through(FOREIGN, ...formats));
    expect(metadata.entries.map(({ key }) => key)).toEqual(["zeta", "alpha", "list"]);
    expect(metadata.get("zeta")).toEqual({ type: "f64", value: 100 });
    const alpha = metadata.get("alpha");
    expect(alpha?.type === "map" && alpha.entries.map(({ key }) => key)).toEqual(["z", "a"]);
    expect(metadata.get("list")).toMatchObject({ type: "array", length: 100, elementType: "i64" });
  });

  test("is readable without knowing tare: compact, sorted at the top, ASCII", async () => {
    const text = await textOf(await through(FOREIGN));
    expect(text).toContain(
      '{"alpha":{"z":[1,2.5,null],"a":{"y":true,"b":"\\u00e9"}},"architecture":"unknown","list":[7,',
    );
    expect(text).toContain('"zeta":100.0}');
    const plain = JSON.parse(text) as Record<string, unknown>;
    expect(plain["list"]).toEqual(new Array(100).fill(7));
  });

  test("keeps numbers that no type holds digit by digit", async () => {
    const digits = "123456789012345678901234567890";
    const text = await textOf(await through(`{"big":${digits},"in":[{"more":[0.1000000000000000055,1e-400]}]}`));
    expect(text).toContain(`"big":${digits}`);
    expect(text).toContain('"in":[{"more":[0.1000000000000000055,1e-400]}]');
  });
});
