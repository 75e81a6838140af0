import { describe, expect, test } from "vitest";
import { chooseCandidates } from "./registry.ts";

describe("chooseCandidates()", () => {
  test("a set represents the files next to it, whatever their names", () => {
    const parts = ["index.aero", "part-000.aero", "part-001.aero"];
    expect(chooseCandidates([...parts, "model.aeroset.json"])).toEqual(["model.aeroset.json"]);
    expect(chooseCandidates([...parts, "x.AEROSET.json", "notes.txt"])).toEqual(["x.AEROSET.json"]);
  });

  test("the usual name comes before other sets and before other formats", () => {
    const names = ["a.aeroset.json", "model.aeroset.json", "model.safetensors"];
    expect(chooseCandidates(names)).toEqual(["model.aeroset.json"]);
    expect(chooseCandidates(["b.aeroset.json", "a.aeroset.json"])).toEqual(["a.aeroset.json", "b.aeroset.json"]);
  });

  test("without a set, each part is a separate model", () => {
    expect(chooseCandidates(["part-001.aero", "part-000.aero"])).toEqual(["part-000.aero", "part-001.aero"]);
  });

  test("the manifest of an APR set represents its shards", () => {
    const names = ["m-00001-of-00002.apr", "m-00002-of-00002.apr", "m.apr"];
    expect(chooseCandidates(names)).toEqual(["m.apr"]);
    expect(chooseCandidates(names.slice(0, 2))).toEqual(["m-00001-of-00002.apr"]);
  });

  test("an ONNX export is the model only if there is no other", () => {
    expect(chooseCandidates(["model.onnx", "model.safetensors"])).toEqual(["model.safetensors"]);
    expect(chooseCandidates(["model.onnx", "config.json"])).toEqual(["model.onnx"]);
  });
});
