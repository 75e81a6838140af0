import { describe, expect, test } from "vitest";
import { TareError } from "../../base/errors.ts";
import { resolveLimits } from "../../base/limits.ts";
import { atOnce } from "../../base/turns.ts";
import { AEROSET_LIMITS } from "./limits.ts";
import { encodeSetFile, parseSetFile, type SetFile } from "./set-file.ts";

const limits = resolveLimits("aeroset", AEROSET_LIMITS);
const parse = (value: unknown) => parseText(JSON.stringify(value));
const parseText = (text: string) => atOnce(parseSetFile(text, "set.json", limits));

const SET = {
  format: { name: "AEROSET", version: [0, 1] },
  model: { name: "m", architecture: "a" },
  parts: [{ path: "p.aero", sha256: "AB".repeat(32), size_bytes: 7, shards: [0, 1] }],
  global_tidx: { path: "index.aero", sha256: null, size_bytes: null },
} as const;

function faultOf(work: () => unknown): Pick<TareError, "code" | "at" | "message"> {
  try {
    work();
  } catch (error) {
    if (error instanceof TareError) return error;
    throw error;
  }
  throw new Error("nothing was refused");
}

describe("parseSetFile()", () => {
  test("reads v0.1 and leaves out what is null", () => {
    expect(parse(SET)).toEqual({
      version: [0, 1],
      model: { name: "m", architecture: "a" },
      parts: [{ path: "p.aero", sha256: "ab".repeat(32), sizeBytes: 7, shards: [0, 1] }],
      globalIndex: { path: "index.aero" },
      warnings: [],
      further: [],
      locate: expect.any(Function),
    });
  });

  test("names the keys that the specification does not, wherever they are", () => {
    const { further } = parse({
      ...SET,
      license: "MIT",
      format: { ...SET.format, dialect: 1 },
      model: { ...SET.model, family: "x" },
      parts: SET.parts.map((part) => ({ ...part, mirrors: [] })),
      global_tidx: { ...SET.global_tidx, etag: "y" },
      cache: { enabled: true, ttl: 3, recommended: "often" },
    });
    expect([...further].sort()).toEqual([
      "cache.recommended",
      "cache.ttl",
      "format.dialect",
      "global_tidx.etag",
      "license",
      "model.family",
      "parts[0].mirrors",
    ]);
  });

  test("finds the byte where a text begins", () => {
    const { locate } = parse({ ...SET, model: { name: "ä" } });
    const written = new TextEncoder().encode(JSON.stringify({ ...SET, model: { name: "ä" } }));
    const offset = locate("p.aero", "parts[0].path").offset ?? 0;
    expect(new TextDecoder().decode(written.subarray(offset, offset + 8))).toBe('"p.aero"');
    expect(locate("not there", "x")).toEqual({ source: "set.json", offset: 0, path: "x" });
  });

  test("reads what v0.2 added; skips unknown keys", () => {
    const remote = {
      ...SET,
      format: { name: "AEROSET", version: [0, 2] },
      base_url: "https://h.example/m",
      cache: { enabled: true, recommended: false, ttl: 3 },
      x: [{ deep: null }],
    };
    expect(parse(remote)).toMatchObject({
      version: [0, 2],
      baseUrl: "https://h.example/m",
      cache: { enabled: true, recommended: false },
    });
    expect(parse({ ...remote, base_url: "" })).not.toHaveProperty("baseUrl");
  });

  test.each([
    [{ ...SET, format: undefined }, ["format/aeroset.format", "format/aeroset.format"]],
    [{ ...SET, format: { name: "aeroset", version: [0, 1] } }, ["format/aeroset.format"]],
    [{ ...SET, format: { name: "AEROSET", version: [1, 0] } }, ["format/aeroset.format"]],
    [{ ...SET, parts: [{ path: "p", shards: [], sha256: "abc123…" }] }, ["format/aeroset.sha256"]],
  ])("tolerates with a warning %#", (json, codes) => {
    expect(parse(json).warnings.map((finding) => finding.code)).toEqual(codes);
  });

  test.each([
    ["parts", { ...SET, parts: undefined }],
    ["global_tidx", { ...SET, global_tidx: undefined }],
    ["global_tidx", { ...SET, global_tidx: "index.aero" }],
    ["global_tidx.path", { ...SET, global_tidx: {} }],
    ["parts[0].path", { ...SET, parts: [{ path: "", shards: [] }] }],
    ["parts[0].shards", { ...SET, parts: [{ path: "p" }] }],
    ["parts[0].shards[1]", { ...SET, parts: [{ path: "p", shards: [0, -1] }] }],
    ["parts[0].shards[0]", { ...SET, parts: [{ path: "p", shards: [0.5] }] }],
    ["parts[0].shards[0]", { ...SET, parts: [{ path: "p", shards: ["0"] }] }],
    ["parts[0].size_bytes", { ...SET, parts: [{ path: "p", shards: [], size_bytes: 2 ** 53 }] }],
    ["base_url", { ...SET, base_url: 7 }],
  ])("refuses a wrong %s and says where", (path, json) => {
    const { code, at } = faultOf(() => parse(json));
    expect(code).toBe("format/aeroset.index");
    expect(at).toMatchObject({ source: "set.json", path, offset: expect.any(Number) });
  });

  test.each([
    ["format/json.syntax", '{"parts": [],}'],
    ["format/json.duplicate-key", '{"parts": [], "parts": []}'],
    ["format/json.syntax", '{"parts": [1e999]}'],
    ["limit/json.depth", `{"x": ${"[".repeat(5000)}`],
    ["limit/aeroset.parts", `{"parts": [${"0,".repeat(100_000)}0], "global_tidx": {"path": "i"}}`],
    ["limit/json.values", `{"x": [${"0,".repeat(2_000_000)}0]}`],
    ["limit/aeroset.shards", `{"parts": [{"path": "p", "shards": [${"0,".repeat(1_000_000)}0]}]}`],
  ])("stops with %s", (code, text) => {
    expect(faultOf(() => parseText(text)).code).toBe(code);
  });
});

describe("encodeSetFile()", () => {
  const text = (set: Omit<SetFile, "version">): string => new TextDecoder().decode(encodeSetFile(set));

  test("writes the reference's layout: two spaces, its order of keys, ASCII, no line at the end", () => {
    const written = text({
      model: { name: "ä\u007f𝄞", architecture: "a" },
      parts: [{ path: "p.aero", sha256: "ab", sizeBytes: 1, shards: [0] }],
      globalIndex: { path: "index.aero", sha256: "cd", sizeBytes: 2 },
    });
    expect(written).toBe(`{
  "format": {
    "name": "AEROSET",
    "version": [
      0,
      1
    ]
  },
  "model": {
    "name": "\\u00e4\\u007f\\ud834\\udd1e",
    "architecture": "a"
  },
  "parts": [
    {
      "path": "p.aero",
      "sha256": "ab",
      "size_bytes": 1,
      "shards": [
        0
      ]
    }
  ],
  "global_tidx": {
    "path": "index.aero",
    "sha256": "cd",
    "size_bytes": 2
  }
}`);
  });

  test("a set that uses v0.2 says v0.2, and is read back unchanged", () => {
    const plain = { model: {}, parts: [], globalIndex: { path: "i.aero" } };
    expect(parseText(text(plain)).version).toEqual([0, 1]);
    expect(parseText(text({ ...plain, baseUrl: "https://h.example/m" }))).toMatchObject({
      version: [0, 2],
      baseUrl: "https://h.example/m",
      warnings: [],
    });
    expect(parseText(text({ ...plain, cache: { enabled: false } })).version).toEqual([0, 2]);
    expect(parseText(text({ ...plain, globalIndex: { path: "https://h.example/i.aero" } })).version).toEqual([0, 2]);
  });
});
