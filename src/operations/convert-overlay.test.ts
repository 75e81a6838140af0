import { describe, expect, it } from "vitest";
import { encodeUtf8 } from "../base/text.ts";
import { Metadata, stringValue } from "../model/metadata.ts";
import { decodeOverlay, overlayMetadata } from "./convert.ts";

const model = new Metadata([
  { key: "format", value: stringValue("pt") },
  { key: "model_type", value: stringValue("old") },
]);
const overlay = (text: string) => decodeOverlay(encodeUtf8(text), "config.json");

describe("overlayMetadata", () => {
  it("makes a configuration the architecture", () => {
    const laid = overlayMetadata(model, overlay('{"model_type":"bert","hidden_size":384,"architectures":["X"]}'));
    expect(laid.entries.map(({ key }) => key)).toEqual(["format", "model_type", "architecture"]);
    expect(laid.text("model_type")).toBe("bert");
    expect(laid.get("architecture")).toMatchObject({
      type: "map",
      entries: [{ key: "model_type" }, { key: "hidden_size", value: { value: 384 } }, { key: "architectures" }],
    });
  });

  it("keeps the model's own type where the configuration names none", () => {
    expect(overlayMetadata(model, overlay('{"hidden_size":384}')).text("model_type")).toBe("old");
    expect(overlayMetadata(new Metadata(), overlay("{}")).text("model_type")).toBe("unknown");
  });

  it("lays metadata of APR over the model's, key by key", () => {
    const laid = overlayMetadata(model, overlay('{"architecture":{"n":1},"format":"apr","vocab":["a"]}'));
    expect(laid.entries.map(({ key }) => key)).toEqual(["format", "model_type", "architecture", "vocab"]);
    expect(laid.text("format")).toBe("apr");
  });

  it("refuses what is no object", () => {
    expect(() => overlay("[1]")).toThrow(expect.objectContaining({ code: "format/json.object" }));
    expect(() => overlay('{"a":Infinity}')).toThrow(expect.objectContaining({ code: "format/json.syntax" }));
  });
});
