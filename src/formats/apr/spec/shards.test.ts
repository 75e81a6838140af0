import { describe, expect, it } from "vitest";
import { buildApr } from "../../../../test/builders/apr.ts";
import { buildAprender } from "../../../../test/builders/apr-layouts.ts";
import type { Bytes } from "../../../base/bytes.ts";
import { SourceError } from "../../../base/errors.ts";
import { encodeUtf8 } from "../../../base/text.ts";
import { memorySource } from "../../../bytes/memory.ts";
import type { Opened } from "../../../model/format.ts";
import type { Model } from "../../../model/model.ts";
import { openSource } from "../../../open.ts";
import { verify } from "../../../operations/verify.ts";
import { crc32Javascript } from "../../../primitives/digest/crc32.ts";
import { portableEngine } from "../../../primitives/portable.ts";

const engine = portableEngine();
const shard = (...names: readonly string[]): Bytes =>
  buildApr({ flags: 0x0a, tensors: names.map((name) => ({ name, data: encodeUtf8(name) })) });

const FILES: ReadonlyMap<string, Bytes> = new Map([
  ["s-1.apr", shard("a", "b")],
  ["s-2.apr", shard("c")],
]);
/** Of the bytes before the footer. */
const crcOf = (file: string): number => crc32Javascript((FILES.get(file) as Bytes).subarray(0, -16), 0);
const hexOf = (crc: number): string => crc.toString(16).padStart(8, "0");

/** A sound manifest that tests can spoil. */
function manifest(): Record<string, unknown> & {
  shards: Record<string, unknown>[];
  tensor_shard_map: Record<string, unknown>;
} {
  return {
    apr_version: "2.0.0",
    sharded: true,
    shard_count: 2,
    shards: [...FILES].map(([file, bytes]) => ({ file, size: bytes.byteLength, crc32: hexOf(crcOf(file)) })),
    tensor_shard_map: { a: 0, b: 0, c: 1 },
  };
}

function open(value: unknown, files = FILES): Promise<Opened> {
  const resolve = async (file: string) => {
    const bytes = files.get(file);
    if (bytes === undefined) throw new SourceError("source/not-found", "none", { source: file });
    return memorySource(bytes, file);
  };
  const source = memorySource(encodeUtf8(JSON.stringify(value)), "model.apr");
  return openSource(source, { engine, resolver: { name: "model.apr", resolve } });
}

const findingsOf = async (opened: Opened, level: "full" | "control" | "quick" = "full"): Promise<string[]> =>
  (await verify(opened, { level, engine })).findings.map(({ severity, code }) => `${severity} ${code}`);

type Spoil = (value: ReturnType<typeof manifest>) => void;
const spoiled = (spoil: Spoil): unknown => {
  const value = manifest();
  spoil(value);
  return value;
};

describe("openManifest", () => {
  it("finds every tensor in its shard", async () => {
    const opened = await open(manifest());
    const model = opened.container as Model;
    expect(model.tensors.map(({ name, file }) => [name, file])).toEqual([
      ["a", "s-1.apr"],
      ["b", "s-1.apr"],
      ["c", "s-2.apr"],
    ]);
    expect(await model.tensor("c").bytes()).toEqual(encodeUtf8("c"));
    expect(model.metadata.text("model_type")).toBe("test");
    expect(await findingsOf(opened)).toEqual([]);
  });

  it.each<[string, Spoil, string]>([
    ["a place out of range", (m) => (m.tensor_shard_map["a"] = 2), "format/apr.manifest"],
    ["a negative place", (m) => (m.tensor_shard_map["a"] = -1), "format/apr.manifest"],
    ["a place as text", (m) => (m.tensor_shard_map["a"] = "0"), "format/apr.manifest"],
    ["a tensor that is nowhere", (m) => (m.tensor_shard_map["x"] = 1), "format/apr.missing-tensor"],
    ["a tensor in the wrong shard", (m) => (m.tensor_shard_map["a"] = 1), "format/apr.missing-tensor"],
    ["another number of shards", (m) => (m["shard_count"] = 3), "format/apr.manifest"],
    ["a shard of another size", (m) => Object.assign(m.shards[0] ?? {}, { size: 1 }), "format/apr.shard-size"],
    ["a shard that is not there", (m) => Object.assign(m.shards[1] ?? {}, { file: "s-3.apr" }), "source/not-found"],
    [
      "a name that leaves the folder",
      (m) => Object.assign(m.shards[1] ?? {}, { file: "../x.apr" }),
      "source/resolver.escape",
    ],
    ["an absolute name", (m) => Object.assign(m.shards[1] ?? {}, { file: "/x.apr" }), "source/resolver.escape"],
    ["an address", (m) => Object.assign(m.shards[1] ?? {}, { file: "http://x/y.apr" }), "source/resolver.escape"],
    ["a CRC that is none", (m) => Object.assign(m.shards[1] ?? {}, { crc32: "xyz" }), "format/apr.manifest"],
    ["a shard without a name", (m) => Object.assign(m.shards[1] ?? {}, { file: 1 }), "format/apr.manifest"],
    ["another version", (m) => (m["apr_version"] = "3.0.0"), "unsupported/apr.version"],
    ["a map that is a list", (m) => Object.assign(m, { tensor_shard_map: [] }), "format/apr.manifest"],
  ])("refuses %s", async (_, spoil, code) => {
    await expect(open(spoiled(spoil))).rejects.toMatchObject({ code, at: { source: "model.apr" } });
  });

  it("names the shard that is missing", async () => {
    const files = new Map([...FILES].slice(0, 1));
    await expect(open(manifest(), files)).rejects.toThrow('Cannot open the shard "s-2.apr"');
  });

  it("refuses a manifest among the shards, and one without a way to them", async () => {
    const inner = encodeUtf8(JSON.stringify(manifest()));
    const files = new Map([...FILES, ["s-2.apr", inner]]);
    const value = spoiled((m) => Object.assign(m.shards[1] ?? {}, { size: inner.byteLength }));
    await expect(open(value, files)).rejects.toMatchObject({ code: "format/apr.manifest" });
    const alone = memorySource(encodeUtf8(JSON.stringify(manifest())), "model.apr");
    await expect(openSource(alone, { engine })).rejects.toMatchObject({ code: "usage/apr.no-siblings" });
  });

  it.each<[string, (hex: string, crc: number) => unknown]>([
    ["upper case", (hex) => hex.toUpperCase()],
    ["0x in front", (hex) => `0x${hex}`],
    ["crc32: in front", (hex) => `crc32:${hex}`],
    ["a number", (_, crc) => crc],
    ["without leading zeros", (hex) => hex.replace(/^0+/, "")],
  ])("takes a CRC with %s", async (_, spell) => {
    const value = spoiled((m) => {
      for (const entry of m.shards) entry["crc32"] = spell(String(entry["crc32"]), crcOf(String(entry["file"])));
    });
    expect(await findingsOf(await open(value))).toEqual([]);
  });
});

describe("verifyManifest", () => {
  it("accepts the CRC of a whole file, and notes a missing one", async () => {
    const whole = crc32Javascript(FILES.get("s-2.apr") as Bytes, 0);
    const older = spoiled((m) => Object.assign(m.shards[1] ?? {}, { crc32: hexOf(whole) }));
    expect(await findingsOf(await open(older))).toEqual(["note format/apr.shard-crc-kind"]);
    const none = spoiled((m) => Object.assign(m.shards[1] ?? {}, { crc32: null }));
    expect(await findingsOf(await open(none))).toEqual(["warning integrity/apr.no-shard-crc"]);
  });

  it.each(["full", "control", "quick"] as const)("notices a shard of another model at level %s", async (level) => {
    const other = buildApr({ flags: 0x0a, tensors: [{ name: "c", data: encodeUtf8("!") }] });
    expect(other.byteLength).toBe(FILES.get("s-2.apr")?.byteLength);
    expect(crc32Javascript(other, 0)).toBe(crc32Javascript(FILES.get("s-2.apr") as Bytes, 0));
    const opened = await open(manifest(), new Map([...FILES, ["s-2.apr", other]]));
    expect(opened.container.warnings).toMatchObject([{ code: "integrity/apr.shard-crc", name: "s-2.apr" }]);
    const found = (await findingsOf(opened, level)).filter((finding) => finding.startsWith("error"));
    expect(found).toEqual(["error integrity/apr.shard-crc"]);
  });

  it("is not fooled by a footer that matches the manifest", async () => {
    const other = buildApr({ flags: 0x0a, tensors: [{ name: "c", data: encodeUtf8("!") }] });
    new DataView(other.buffer).setUint32(other.byteLength - 16, crcOf("s-2.apr"), true);
    const opened = await open(manifest(), new Map([...FILES, ["s-2.apr", other]]));
    expect(await findingsOf(opened)).toContain("error integrity/apr.crc");
  });

  it("notices shards that were exchanged although their checksums agree", async () => {
    const numbered = (index: number, name: string): Bytes => {
      const metadata = `{"apr_version":"2.0.0","model_type":"t","architecture":{},"shard":{"index":${index},"count":2}}`;
      return buildApr({ flags: 0x0a, metadata, tensors: [{ name, data: encodeUtf8(name) }] });
    };
    const files = new Map([
      ["s-1.apr", numbered(1, "a")],
      ["s-2.apr", numbered(0, "c")],
    ]);
    const [one, two] = [...files.values()].map((bytes) => crc32Javascript(bytes, 0));
    expect(one).toBe(two);
    const value = spoiled((m) => {
      for (const entry of m.shards) Object.assign(entry, { size: files.get("s-1.apr")?.byteLength, crc32: one });
      Object.assign(m, { tensor_shard_map: { a: 0, c: 1 } });
    });
    const errors = (await findingsOf(await open(value, files))).filter((finding) => finding.startsWith("error"));
    expect(errors).toEqual(Array(2).fill("error format/apr.shard-number"));
  });

  it("notices a tensor in two shards, and one that no map lists", async () => {
    const files = new Map([...FILES, ["s-2.apr", shard("a", "c", "d")]]);
    const bytes = files.get("s-2.apr") as Bytes;
    const value = spoiled((m) =>
      Object.assign(m.shards[1] ?? {}, { size: bytes.byteLength, crc32: hexOf(crc32Javascript(bytes, 0)) }),
    );
    const opened = await open(value, files);
    expect((opened.container as Model).tensors.map(({ name }) => name)).toEqual(["a", "b", "c"]);
    const errors = (await findingsOf(opened)).filter((finding) => finding.startsWith("error"));
    expect(errors).toEqual(Array(2).fill("error format/apr.unlisted-tensor"));
  });

  it("compares shards of other layouts, too", async () => {
    const wild = (value: number): Bytes =>
      buildAprender({ tensors: [{ name: "c", dtype: 0, shape: [1], bytes: Uint8Array.of(value, 0, 0, 0) }] });
    const crc = crc32Javascript(wild(1).subarray(0, -16), 0);
    const value = spoiled((m) => Object.assign(m.shards[1] ?? {}, { size: wild(1).byteLength, crc32: hexOf(crc) }));
    const own = await open(value, new Map([...FILES, ["s-2.apr", wild(1)]]));
    expect(await findingsOf(own)).not.toContain("error integrity/apr.shard-crc");
    const other = await open(value, new Map([...FILES, ["s-2.apr", wild(2)]]));
    expect(await findingsOf(other)).toContain("error integrity/apr.shard-crc");
  });

  it("reads aprender's own manifest", async () => {
    const value = {
      version: "2.0",
      shard_count: 2,
      total_size: 0,
      tensor_count: 3,
      shards: [...FILES].map(([filename, bytes], index) => ({ filename, index, size: bytes.byteLength, tensors: [] })),
      weight_map: { a: 0, b: 0, c: 1 },
    };
    const opened = await open(value);
    expect(opened.format.id).toBe("apr");
    expect((opened.container as Model).tensors).toHaveLength(3);
  });
});
