import { describe, expect, it } from "vitest";
import { writerById } from "../../../test/builders/loaded-formats.ts";
import { encodeUtf8 } from "../../base/text.ts";
import { Metadata, stringValue } from "../../model/metadata.ts";
import { parseEntered } from "../stamp/values.ts";
import { decodeOverlay, type GivenMetadata, overlayMetadata, withGiven } from "./given-metadata.ts";

const model = new Metadata([
  { key: "format", value: stringValue("pt") },
  { key: "model_type", value: stringValue("old") },
]);
const overlay = (text: string) => decodeOverlay(encodeUtf8(text), "config.json");
const keysOf = (metadata: Metadata): string[] => metadata.entries.map(({ key }) => key);

describe("an overlay", () => {
  it("is stored as the architecture if it is a configuration", () => {
    const laid = overlayMetadata(model, overlay('{"model_type":"bert","hidden_size":384,"architectures":["X"]}'));
    expect(keysOf(laid)).toEqual(["format", "model_type", "architecture"]);
    expect(laid.text("model_type")).toBe("bert");
    expect(laid.get("architecture")).toMatchObject({
      type: "map",
      entries: [{ key: "model_type" }, { key: "hidden_size", value: { value: 384 } }, { key: "architectures" }],
    });
  });

  it("keeps the model's own type if the configuration names none", () => {
    expect(overlayMetadata(model, overlay('{"architectures":["X"]}')).text("model_type")).toBe("old");
    expect(overlayMetadata(new Metadata(), overlay('{"architectures":[]}')).text("model_type")).toBe("unknown");
  });

  it("sets its keys if it is any other object", () => {
    const laid = overlayMetadata(model, overlay('{"model_name":"m","architecture":"transformer","hidden_size":384}'));
    expect(keysOf(laid)).toEqual(["format", "model_type", "model_name", "architecture", "hidden_size"]);
    expect([laid.text("model_name"), laid.text("architecture"), laid.number("hidden_size")]).toEqual([
      "m",
      "transformer",
      384,
    ]);
    expect(overlayMetadata(model, overlay("{}")).toJSON()).toEqual(model.toJSON());
  });

  it("overlays metadata of APR on the model's, key by key", () => {
    const laid = overlayMetadata(model, overlay('{"architecture":{"n":1},"format":"apr","vocab":["a"]}'));
    expect(keysOf(laid)).toEqual(["format", "model_type", "architecture", "vocab"]);
    expect(laid.text("format")).toBe("apr");
  });

  it("has the format's types where it has one, and stays as it is elsewhere", () => {
    const laid = overlayMetadata(new Metadata(), overlay('{"a":7,"b":1.5,"c":{"d":1}}'), "typed");
    expect(laid.entries.map(({ value }) => value.type)).toEqual(["u32", "f32", "map"]);
    expect(overlayMetadata(new Metadata(), overlay('{"a":7}'), "text").get("a")).toEqual(stringValue("7"));
  });

  it("refuses anything but an object", () => {
    expect(() => overlay("[1]")).toThrow(expect.objectContaining({ code: "format/json.object" }));
    expect(() => overlay('{"a":Infinity}')).toThrow(expect.objectContaining({ code: "format/json.syntax" }));
  });
});

describe("what is given to a conversion", () => {
  const to = async (format: string, given: GivenMetadata, metadata = model): Promise<Metadata> =>
    withGiven(metadata, given, await writerById(format));
  const set = (...texts: readonly string[]): GivenMetadata => ({
    set: texts.map((text) => [text.slice(0, text.indexOf("=")), parseEntered(text.slice(text.indexOf("=") + 1))]),
  });

  it.each([
    ["gguf", { "general.name": "N", "general.architecture": "A" }],
    ["aero", { model_name: "N", architecture: "A" }],
    ["aeroset", { model_name: "N", architecture: "A" }],
    ["apr", { name: "N", model_type: "A" }],
    ["safetensors", { model_name: "N", architecture: "A" }],
  ])("names the model under the keys of %s", async (format, wanted) => {
    const laid = await to(format, { modelName: "N", architecture: "A" });
    expect(laid.toJSON()).toEqual({ format: "pt", model_type: "old", ...wanted });
  });

  it("refuses a name that the format has no place for", async () => {
    const run = to("embd", { architecture: "A" });
    await expect(run).rejects.toMatchObject({ code: "usage/write-option" });
    expect((await to("embd", { modelName: "N" })).text("model_name")).toBe("N");
  });

  it("leaves no other name behind", async () => {
    const named = new Metadata([{ key: "general.name", value: stringValue("old") }]);
    expect((await to("aero", { modelName: "N" }, named)).toJSON()).toEqual({ "general.name": "N", model_name: "N" });
  });

  it("is laid over in turn: the object, the names, single keys", async () => {
    const given = { overlay: overlay('{"general.name":"one","note":1}'), modelName: "two", ...set("note=9") };
    const laid = await to("gguf", given, new Metadata());
    expect(laid.toJSON()).toEqual({ "general.name": "two", note: 9 });
    expect((await to("gguf", { ...given, ...set("general.name=three") })).text("general.name")).toBe("three");
  });

  it("has the types of stamp, and its refusals", async () => {
    const typed = await to("gguf", set("a=8", "b=-1.5", "c=true", 'd=["x"]', "e=made by hand"));
    expect(["a", "b", "c", "d", "e"].map((key) => typed.get(key)?.type)).toEqual([
      "u32",
      "f32",
      "bool",
      "array",
      "string",
    ]);
    expect((await to("safetensors", set("a=1.0"))).get("a")).toEqual(stringValue("1.0"));
    expect((await to("aero", set('a={"b":1}'))).toJSON()).toMatchObject({ a: { b: 1 } });
    await expect(to("gguf", set("general.alignment=64"))).rejects.toMatchObject({ code: "usage/stamp.key" });
    await expect(to("safetensors", set("tare.origin=x"))).rejects.toMatchObject({ code: "usage/stamp.key" });
    await expect(to("gguf", set('a={"b":1}'))).rejects.toMatchObject({ code: "unsupported/stamp.value" });
  });
});
