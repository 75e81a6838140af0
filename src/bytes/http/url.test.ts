import { describe, expect, test } from "vitest";
import { memorySource } from "../memory.ts";
import { checkHeaders, httpResolver, parseHttpUrl } from "./url.ts";

describe("parseHttpUrl()", () => {
  test("keeps secrets out of the label and out of the URL", () => {
    expect(parseHttpUrl("https://user:pa%20ss@example.org:8443/a/b.gguf?token=secret#frag")).toEqual({
      url: "https://example.org:8443/a/b.gguf?token=secret",
      label: "https://example.org:8443/a/b.gguf?…",
      authorization: `Basic ${btoa("user:pa ss")}`,
    });
  });
  test("has no authorization where the URL has no user", () => {
    expect(parseHttpUrl("http://example.org/x")).toEqual({
      url: "http://example.org/x",
      label: "http://example.org/x",
      authorization: undefined,
    });
  });
  test.each(["ftp://example.org/x", "model.gguf", "file:///x", "", "http://"])("refuses %j", (text) => {
    expect(() => parseHttpUrl(text)).toThrow(expect.objectContaining({ name: "UsageError", code: "usage/http.url" }));
  });
});

describe("checkHeaders()", () => {
  test("lower-cases names", () => {
    expect(checkHeaders({ "X-Api-Key": "k", Authorization: "Bearer t" }, "s")).toEqual({
      "x-api-key": "k",
      authorization: "Bearer t",
    });
  });
  test("refuses line breaks without repeating the value", () => {
    const check = () => checkHeaders({ authorization: "Bearer secret\r\nX: y" }, "s");
    expect(check).toThrow(expect.objectContaining({ code: "usage/http.header" }));
    expect(check).toThrow(expect.objectContaining({ message: expect.not.stringContaining("secret") }));
    expect(() => checkHeaders({ "a b": "x" }, "s")).toThrow(expect.objectContaining({ code: "usage/http.header" }));
  });
});

describe("httpResolver()", () => {
  const opened: string[] = [];
  const open = async (url: string) => {
    opened.push(url);
    return memorySource(new Uint8Array(0), url);
  };
  const resolver = httpResolver("https://example.org/org/model/resolve/main/a%20b.json?rev=1#x", open);

  test("opens siblings and files below, with the query of the file", async () => {
    expect(resolver.name).toBe("a b.json");
    await resolver.resolve("model-1.safetensors");
    await resolver.resolve("sub/100% #?.bin");
    expect(opened).toEqual([
      "https://example.org/org/model/resolve/main/model-1.safetensors?rev=1",
      "https://example.org/org/model/resolve/main/sub/100%25%20%23%3F.bin?rev=1",
    ]);
  });
  test("reaches what stands above a folder of exports, and only there", async () => {
    opened.length = 0;
    const { above } = httpResolver("https://example.org/m/resolve/main/onnx/model.onnx?rev=1", open);
    await above?.resolve("config.json");
    expect(opened).toEqual(["https://example.org/m/resolve/main/config.json?rev=1"]);
    expect(above?.above).toBeUndefined();
    expect(resolver.above).toBeUndefined();
    expect(httpResolver("https://example.org/model.onnx", open).above).toBeUndefined();
  });
  test.each([
    "https://evil.example/x",
    "//evil.example/x",
    "/x",
    "../x",
    "sub/../../x",
    "..\\x",
    "%2e%2e/x",
    "a%2Fb",
    "a%5cb",
    "a\0",
    "",
  ])("refuses %j", async (name) => {
    const before = opened.length;
    await expect(resolver.resolve(name)).rejects.toMatchObject({ code: "source/resolver.escape" });
    expect(opened).toHaveLength(before);
  });
});
