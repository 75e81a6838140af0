import { describe, expect, test } from "vitest";
import { concatBytes } from "../../src/base/bytes.ts";
import { memorySource } from "../../src/bytes/memory.ts";
import { openSource } from "../../src/open.ts";
import { type Report, verify } from "../../src/operations/verify.ts";
import type { Engine } from "../../src/primitives/engine.ts";
import { portableEngine } from "../../src/primitives/portable.ts";
import { type BuiltAero, type BuiltChunk, b3, buildAero, hex, phsh, tidx, wtsh } from "../builders/aero.ts";
import { bounded } from "./bounded.ts";

const WEIGHTS = new Uint8Array(256 << 10);
/** Chunk, page and tensor digests, and tensors that share what a writer may let them share. */
const MOST_PASSES = 20;

/** The engine, with a count of the bytes that it was asked to hash. */
function meteredEngine(): { readonly engine: Engine; hashed: () => number } {
  const portable = portableEngine();
  let hashed = 0;
  const metered: Pick<Engine, "digest" | "digestRange" | "digestExtents"> = {
    digest: (algorithm, bytes) => {
      hashed += bytes.byteLength;
      return portable.digest(algorithm, bytes);
    },
    digestRange: (algorithm, range, options) => {
      hashed += options.byteLength;
      return portable.digestRange(algorithm, range, options);
    },
    digestExtents: (algorithm, range, extents, options) => {
      for (const { byteLength } of extents) hashed += byteLength;
      return portable.digestExtents(algorithm, range, extents, options);
    },
  };
  const engine = new Proxy(portable, {
    get(target, key) {
      if (Object.hasOwn(metered, key)) return Reflect.get(metered, key);
      const member: unknown = Reflect.get(target, key, target);
      return typeof member === "function" ? member.bind(target) : member;
    },
  });
  return { engine, hashed: () => hashed };
}

async function report(file: BuiltAero): Promise<Report> {
  const bytes = buildAero(file);
  const { engine, hashed } = meteredEngine();
  const result = await bounded(async () => {
    const opened = await openSource(memorySource(bytes, "work.aero"), { engine });
    return verify(opened, { level: "full", engine });
  });
  expect(hashed()).toBeLessThan(MOST_PASSES * bytes.byteLength);
  return result;
}

/** How often each `severity code` comes. */
function tally({ findings }: Report): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const { severity, code } of findings) {
    counts[`${severity} ${code}`] = (counts[`${severity} ${code}`] ?? 0) + 1;
  }
  return counts;
}

const tensor = (name: string, off: number, len: number, hash: string) => ({
  name,
  dtype: 5,
  shape: [len],
  off,
  len,
  more: { hash_b3: hash },
});

describe("a byte is hashed a few times, whatever the tables say", () => {
  test("4000 tensors with a digest each, all over the same 256 KiB but for a byte: a gigabyte", async () => {
    const tensors = Array.from({ length: 4000 }, (_, i) => tensor(`t${i}`, i, WEIGHTS.length - i, "00".repeat(32)));
    const found = tally(await report({ chunks: [tidx(tensors), wtsh(WEIGHTS)] }));
    expect(found).toEqual({ "error limit/aero.hash-work": 1, "warning format/aero.tensor-overlap": 1 });
  });

  test("10 000 tensors that are one and the same, with 10 000 different digests: 2.6 gigabytes", async () => {
    const right = hex(b3(WEIGHTS));
    const tensors = Array.from({ length: 10_000 }, (_, i) => {
      return tensor(`t${i}`, 0, WEIGHTS.length, i === 7 ? right : i.toString(16).padStart(64, "0"));
    });
    const result = await report({ chunks: [tidx(tensors), wtsh(WEIGHTS)] });
    expect(tally(result)).toEqual({ "error integrity/aero.tensor-hash": 9999 });
    expect(result.findings.some(({ name }) => name === "t7")).toBe(false);
    expect(new Set(result.findings.map(({ name }) => name)).size).toBe(9999);
  });

  test("10 000 shards that are the same 256 KiB: 2.6 gigabytes", async () => {
    const COUNT = 10_000;
    const hash = b3(WEIGHTS);
    const [namesLength, tables] = [Math.ceil(COUNT / 8) * 8, 112 + 80 * COUNT];
    const offset = Math.ceil((tables + namesLength) / 16) * 16;
    const first: BuiltChunk = { ...wtsh(WEIGHTS), name: "", hash };
    const rest: BuiltChunk = { ...first, stored: new Uint8Array(0), offset, length: WEIGHTS.length };
    const found = tally(await report({ chunks: [first, ...new Array<BuiltChunk>(COUNT - 1).fill(rest)] }));
    expect(found["error limit/aero.hash-work"]).toBe(1);
    expect(found["error format/aero.overlap"]).toBe(COUNT - 1);
    expect(found["error integrity/aero.chunk-hash"]).toBeUndefined();
  });

  const PAGES = 70_000;
  const shard = wtsh(new Uint8Array(PAGES));
  /** Page hashes of one byte each, 34 bytes for every byte of the shard. */
  const bytewise = (digest: Uint8Array<ArrayBuffer>): BuiltChunk => {
    const one = concatBytes([Uint8Array.of(0xc4, 32), digest]);
    const all = new Uint8Array(PAGES * one.byteLength);
    for (let i = 0; i < PAGES; i++) all.set(one, i * one.byteLength);
    const head = Uint8Array.of(0xdd, 0, PAGES >> 16, (PAGES >> 8) & 0xff, PAGES & 0xff);
    return phsh({ ...shard, content: new Uint8Array(0) }, 1, { digests: { raw: concatBytes([head, all]) } });
  };

  test("70 000 pages of one byte are checked", async () => {
    const result = await report({ chunks: [tidx([]), shard, bytewise(b3(new Uint8Array(1)))] });
    expect(result.findings).toEqual([]);
    expect(result.checked).toMatchObject({ pages: PAGES });
  });

  test("70 000 damaged pages are a thousand findings and a sum", async () => {
    const result = await report({ chunks: [tidx([]), shard, bytewise(new Uint8Array(32))] });
    expect(tally(result)).toEqual({ "error integrity/aero.page-hash": 1001 });
    expect(result.findings.map(({ message }) => message)).toContain(
      `${PAGES - 1000} more pages of "weights.shard0" are damaged`,
    );
  });

  test("20 000 tensors with names that differ at their end are opened and verified in time", async () => {
    const tensors = Array.from({ length: 20_000 }, (_, i) => ({
      ...tensor(`model.layers.00000000000000.weight.${i}`, i, 1, ""),
    }));
    expect((await report({ chunks: [tidx(tensors), wtsh(WEIGHTS)] })).checked).toMatchObject({ tensors: 20_000 });
  });
});
