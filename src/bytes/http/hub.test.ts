import { describe, expect, it } from "vitest";
import { hubFileAddress, isHubAddress } from "./hub.ts";

const HUB = "https://huggingface.co";

describe("hubFileAddress()", () => {
  it.each([
    ["/org/model/blob/main/model.gguf", "/org/model/resolve/main/model.gguf"],
    ["/gpt2/blob/main/onnx/model.onnx", "/gpt2/resolve/main/onnx/model.onnx"],
    ["/datasets/org/data/blob/v1.0/a.safetensors", "/datasets/org/data/resolve/v1.0/a.safetensors"],
    ["/org/model/blob/main/a%20b.gguf?download=true", "/org/model/resolve/main/a%20b.gguf?download=true"],
    ["/org/blob/blob/main/blob/x.gguf", "/org/blob/resolve/main/blob/x.gguf"],
  ])("the page %s means its file", (page, file) => {
    const notes: string[] = [];
    expect(hubFileAddress(HUB + page, { onNote: (note) => notes.push(note) })).toBe(HUB + file);
    const [shown] = file.split("?");
    expect(notes).toEqual([expect.stringContaining(`${HUB}${shown}`)]);
    expect(notes[0]).not.toContain("download");
  });

  it.each([
    `${HUB}/org/model/resolve/main/blob/model.gguf`,
    `${HUB}/org/model/blob/main`,
    `${HUB}/org/model/tree/main/blob/x`,
    "https://models.example/org/model/blob/main/model.gguf",
    "http://huggingface.co/org/model/blob/main/model.gguf",
    "s3://org/model/blob/main/model.gguf",
    "https://[::1/x",
  ])("leaves %s as it is", (address) => {
    const onNote = (): never => expect.unreachable();
    expect(hubFileAddress(address, { onNote })).toBe(address);
  });

  it("knows the mirror that HF_ENDPOINT names, and no host that ends alike", () => {
    const mirror = "http://127.0.0.1:8080/hub";
    expect(hubFileAddress("http://127.0.0.1:8080/o/m/blob/main/x", { mirror })).toContain("/resolve/");
    expect(isHubAddress("https://nothuggingface.co/o/m", undefined)).toBe(false);
    expect(isHubAddress("https://cdn.hf.co/o/m", "no address")).toBe(true);
  });
});
