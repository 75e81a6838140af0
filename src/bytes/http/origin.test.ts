import { describe, expect, test } from "vitest";
import { memorySource } from "../memory.ts";
import type { PinnedFile, ResolveOptions } from "../resolver.ts";
import { type HttpResolverOptions, httpResolver } from "./index.ts";
import { checkOrigin, parseOrigin } from "./url.ts";

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
  ])("refuses %s unless it was allowed, and names the flag", async (_, url, origin) => {
    await expect(resolveUrl(url)).rejects.toMatchObject({
      name: "SourceError",
      code: "source/resolver.origin",
      hint: expect.stringMatching(new RegExp(`--allow-origin ${origin}$`)),
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
