import { describe, expect, test } from "vitest";
import { type BuiltSet, buildSet, countedFolder, SET_NAME } from "../../../test/builders/aeroset.ts";
import type { Bytes } from "../../base/bytes.ts";
import { memorySource } from "../../bytes/memory.ts";
import type { VerifyLevel } from "../../model/format.ts";
import { openSource } from "../../open.ts";
import { type Report, verify } from "../../operations/verify.ts";
import { portableEngine } from "../../primitives/portable.ts";

const engine = portableEngine();

interface Verified {
  readonly report: Report;
  /** Opened files, and the number of bytes read from each. */
  readonly read: ReadonlyMap<string, number>;
}

interface Wanted {
  readonly level?: VerifyLevel;
  readonly reach?: "remote";
  readonly change?: (files: Map<string, Bytes>) => void;
}

async function verifyBuilt(options: BuiltSet = {}, wanted: Wanted = {}): Promise<Verified> {
  const files = buildSet(options);
  wanted.change?.(files);
  const folder = countedFolder(files);
  const source = memorySource(files.get(SET_NAME) as Bytes, SET_NAME);
  const opened = await openSource(source, { engine, resolver: folder });
  const report = await verify(opened, { level: wanted.level ?? "full", reach: wanted.reach, engine });
  return { report, read: new Map(folder.opened.map(({ name, source: file }) => [name, file.byteCount])) };
}

const told = ({ report }: Verified): unknown[] => report.findings.map(({ severity, code }) => [severity, code]);
const flip = (bytes: Bytes, at: number): void => {
  bytes[at] = (bytes[at] as number) ^ 1;
};

describe("verifyAeroset()", () => {
  test.each([
    { ids: "local" },
    { ids: "global", pages: "pages", hashes: ["index", "parts"] },
    { hashes: ["index"] },
  ] as const)("finds nothing in a sound set (%#)", async (options) => {
    const { report } = await verifyBuilt(options);
    expect(report).toMatchObject({ ok: true, findings: [], weights: "compared" });
    expect(report.checked).toMatchObject({ tensors: 5, parts: 3, shards: 5, fileDigests: 4 });
  });

  test("quick reads no part, control reads none of the weights", async () => {
    const quick = await verifyBuilt({}, { level: "quick" });
    expect([...quick.read.keys()]).toEqual(["index.aero"]);
    const control = await verifyBuilt({ hashes: ["index"] }, { level: "control" });
    expect([...control.read.keys()]).toEqual(["index.aero", "part-000.aero", "part-001.aero", "part-002.aero"]);
    expect(control.report).toMatchObject({ ok: true, weights: "not-compared" });
    expect(control.report.checked).not.toHaveProperty("fileDigests");
  });

  test("names the damaged part by chunk and by file", async () => {
    const damaged = await verifyBuilt({}, { change: (files) => flip(files.get("part-001.aero") as Bytes, 700) });
    expect(damaged.report.ok).toBe(false);
    expect(damaged.report.findings.map(({ name, at }) => name ?? at.source)).toEqual(
      expect.arrayContaining(["part-001.aero"]),
    );
    expect(told(damaged)).toContainEqual(["error", "integrity/aeroset.sha256"]);
    expect(damaged.report.findings.every(({ message }) => !message.includes("part-000"))).toBe(true);
  });

  test("a byte that no chunk holds is found by SHA-256, and told as padding", async () => {
    const files = buildSet();
    const padding = (files.get("part-002.aero") as Bytes).byteLength - 17;
    const damaged = await verifyBuilt({}, { change: (all) => flip(all.get("part-002.aero") as Bytes, padding) });
    expect(told(damaged)).toEqual([
      ["error", "integrity/aeroset.sha256"],
      ["note", "format/padding"],
    ]);
  });

  test("a missing part is one finding; the others are still checked", async () => {
    const missing = await verifyBuilt({}, { change: (files) => files.delete("part-000.aero") });
    expect(told(missing)).toEqual([["error", "source/not-found"]]);
    expect(missing.report.findings[0]).toMatchObject({
      name: "part-000.aero",
      message: expect.stringContaining("2 tensors"),
    });
    expect(missing.report.checked).toMatchObject({ parts: 2, fileDigests: 3 });
  });

  test("a part of the wrong size is reported without hashing it", async () => {
    const longer = await verifyBuilt(
      {},
      {
        change: (files) => {
          const bytes = files.get("part-000.aero") as Bytes;
          const grown = new Uint8Array(bytes.byteLength + 1);
          grown.set(bytes);
          files.set("part-000.aero", grown);
        },
      },
    );
    expect(told(longer)).toEqual([
      ["error", "integrity/aeroset.size"],
      ["note", "format/unclaimed"],
    ]);
    expect(longer.report.checked["fileDigests"]).toBe(3);
  });

  test("a set whose index differs from the pinned one is not trusted at all", async () => {
    const wrong = verifyBuilt({
      json: (json) => ({ ...json, global_tidx: { ...json.global_tidx, sha256: "00".repeat(32) } }),
    });
    await expect(wrong).rejects.toMatchObject({ code: "integrity/aeroset.sha256" });
  });

  test("without SHA-256 in the JSON there is a note, not an error", async () => {
    const bare = await verifyBuilt({
      json: (json) => ({ ...json, parts: json.parts.map((p) => ({ ...p, sha256: null })) }),
    });
    expect(bare.report.ok).toBe(true);
    expect(told(bare)).toEqual(Array(3).fill(["note", "integrity/aeroset.no-sha256"]));
  });

  test("what opening tolerates in the JSON is an error here, reported once", async () => {
    const repeated = await verifyBuilt({
      json: (json) => ({
        ...json,
        parts: json.parts.map((p, i) => (i === 2 ? { ...p, shards: [4, 0], sha256: "x" } : p)),
      }),
    });
    const codes = told(repeated);
    expect(codes).toContainEqual(["error", "format/aeroset.repeated-shard"]);
    expect(codes).toContainEqual(["error", "format/aeroset.sha256"]);
    const lost = await verifyBuilt({ json: (json) => ({ ...json, parts: json.parts.slice(1) }) });
    expect(told(lost)).toContainEqual(["error", "format/aeroset.missing-shard"]);
  });

  test.each([
    [
      "shape",
      { globalIndex: (t) => t.map((x) => (x.name === "t1" ? { ...x, shape: [2, 2] } : x)) },
      "format/aeroset.disagreement",
      "error",
    ],
    ["names", { globalIndex: (t) => t.filter((x) => x.name !== "t1") }, "format/aeroset.unlisted-tensor", "warning"],
    ["own index", { partIndex: (_, t) => t.slice(0, -1) }, "format/aeroset.unindexed-tensor", "warning"],
    [
      "digest",
      { hashes: ["parts"], globalIndex: (t) => t.map((x) => ({ ...x, more: { hash_b3: "00".repeat(32) } })) },
      "integrity/aeroset.other-tensor",
      "error",
    ],
    [
      "digest of the index only",
      { globalIndex: (t) => t.map((x) => ({ ...x, more: { hash_b3: "00".repeat(32) } })) },
      "integrity/aero.tensor-hash",
      "error",
    ],
    [
      "shard count",
      {
        json: (j) => ({
          ...j,
          parts: j.parts.map((p) => ({ ...p, shards: [...p.shards, ...p.shards.map((s) => s + 90)] })),
        }),
      },
      "format/aeroset.shard-count",
      "error",
    ],
  ] as readonly (readonly [string, BuiltSet, string, string])[])(
    "index and parts must agree: %s",
    async (_, options, code, severity) => {
      expect(told(await verifyBuilt(options))).toContainEqual([severity, code]);
    },
  );
});

describe("reach remote", () => {
  test("reads no weights and says what it could not check", async () => {
    const { report, read } = await verifyBuilt({ pages: "pages" }, { reach: "remote" });
    expect(report).toMatchObject({ ok: true, level: "control", weights: "not-compared" });
    const notes = report.findings.filter(({ severity }) => severity === "note");
    expect(notes.map(({ code, name }) => [code, name])).toEqual(
      ["part-000.aero", "part-001.aero", "part-002.aero"].map((part) => ["integrity/not-checked", part]),
    );
    expect(notes[0]?.message).toMatch(
      /^The SHA-256 and the weights of "part-000.aero" were not checked: that needs all \d+ bytes$/,
    );
    expect(report.checked).toMatchObject({ fileDigests: 1, parts: 3 });
    expect(read.size).toBe(4);
  });

  test("still finds a wrong size and a wrong index", async () => {
    const wrong = await verifyBuilt(
      { json: (json) => ({ ...json, parts: json.parts.map((part) => ({ ...part, size_bytes: 1 })) }) },
      { reach: "remote" },
    );
    expect(wrong.report.ok).toBe(false);
    expect(told(wrong)).toContainEqual(["error", "integrity/aeroset.size"]);
  });

  test("formats that do not support it get the level control and one note", async () => {
    const files = buildSet();
    const source = memorySource(files.get("part-000.aero") as Bytes, "part-000.aero");
    const report = await verify(await openSource(source, { engine }), { level: "full", reach: "remote", engine });
    expect(report.level).toBe("control");
    expect(report.findings.filter(({ code }) => code === "integrity/not-checked")).toHaveLength(1);
  });
});
