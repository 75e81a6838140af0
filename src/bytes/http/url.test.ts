import { describe, expect, test } from "vitest";
import { memorySource } from "../memory.ts";
import type { PinnedFile, ResolveOptions } from "../resolver.ts";
import type { HttpResolverOptions } from "./index.ts";
import { checkHeaders, checkOrigin, checkRequest, httpResolver, parseHttpUrl, parseOrigin } from "./url.ts";

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

describe("checkRequest()", () => {
  const refusal = (headers: Record<string, string>): unknown => {
    try {
      return checkRequest({ url: "http://example.org/x", method: "GET", headers });
    } catch (error) {
      return error;
    }
  };
  test("speaks of line breaks only if characters are the problem", () => {
    const code = "usage/http.header";
    expect(refusal({ "x-key": "k\n" })).toMatchObject({ code, hint: expect.stringContaining("line break") });
    expect(refusal({ "content-length": "3" })).toMatchObject({ code, hint: undefined });
    expect(refusal({ "if-match": "no tag" })).toMatchObject({ code, hint: undefined });
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

describe("parseOrigin()", () => {
  test("takes scheme, host and port, and refuses what has none", () => {
    expect(parseOrigin("https://Host.example/path?x")).toBe("https://host.example");
    expect(parseOrigin("http://host:8080")).toBe("http://host:8080");
    for (const text of ["host.example", "file:///etc", "*", ""]) {
      expect(() => parseOrigin(text)).toThrow(expect.objectContaining({ code: "usage/allow-origin" }));
    }
  });
});

describe("httpResolver().resolveUrl()", () => {
  const opened: [string, ResolveOptions][] = [];
  const resolveUrl = async (url: string, options: HttpResolverOptions = {}, how?: ResolveOptions): Promise<string> => {
    opened.length = 0;
    const resolver = httpResolver(
      "https://host/set/model.aeroset.json",
      async (address, resolveOptions) => {
        opened.push([address, resolveOptions]);
        return memorySource(new Uint8Array(0));
      },
      options,
    );
    await resolver.resolveUrl?.(url, how);
    return opened[0]?.[0] ?? "";
  };

  test("opens addresses on the same origin, pinned as the index says", async () => {
    const pinned: PinnedFile = { byteLength: 5, sha256: "0".repeat(64) };
    expect(await resolveUrl("https://host/elsewhere/part.aero", {}, { pinned })).toBe(
      "https://host/elsewhere/part.aero",
    );
    const namedBy = expect.stringMatching(/^https:\/\/host\//);
    expect(opened[0]?.[1]).toEqual({ pinned, namedBy, onRedirect: expect.any(Function) });
    expect(await resolveUrl("HTTPS://HOST:443/part.aero")).toBe("HTTPS://HOST:443/part.aero");
  });
  test("judges where redirects of such addresses lead by the same rule", async () => {
    await resolveUrl("https://host/part.aero", { allowedOrigins: new Set(["https://cdn"]) });
    const judge = opened[0]?.[1]?.onRedirect;
    expect(() => judge?.("https://host/x")).not.toThrow();
    expect(() => judge?.("https://cdn/x")).not.toThrow();
    expect(() => judge?.("https://other/x")).toThrow(expect.objectContaining({ code: "source/resolver.origin" }));
  });
  test.each([
    ["another host", "https://other/part.aero", "https://other"],
    ["another port", "https://host:444/part.aero", "https://host:444"],
    ["another scheme", "http://host/part.aero", "http://host"],
    ["a private address", "http://169.254.169.254/latest", "http://169.254.169.254"],
    ["a user that looks like the host", "https://host@other/part.aero", "https://other"],
  ])("refuses %s unless it was allowed, and names the option", async (_, url, origin) => {
    await expect(resolveUrl(url)).rejects.toMatchObject({
      name: "SourceError",
      code: "source/resolver.origin",
      hint: expect.stringMatching(new RegExp(`the option allowOrigin ${origin}$`)),
    });
    expect(opened).toEqual([]);
    expect(await resolveUrl(url, { allowedOrigins: new Set([origin]) })).toBe(url);
  });
  test("refuses what is no http address", async () => {
    for (const url of ["file:///etc/passwd", "//other/x", "ftp://host/x"]) {
      await expect(resolveUrl(url)).rejects.toMatchObject({ code: "usage/http.url" });
    }
  });
});

describe("checkOrigin()", () => {
  test("lets a local file refer to no server that was not named", () => {
    const from = { label: "model.aeroset.json", own: undefined };
    const refused = () => checkOrigin("https://user:s3cret@host/x?key=s3cret", { ...from, allowed: new Set() });
    expect(refused).toThrow(expect.objectContaining({ code: "source/resolver.origin" }));
    expect(refused).not.toThrow(/s3cret/);
    expect(() => checkOrigin("https://host/x", { ...from, allowed: new Set(["https://host"]) })).not.toThrow();
  });
});
