import { describe, expect, test } from "vitest";
import { type Bytes, concatBytes } from "../../src/base/bytes.ts";
import type { Sink } from "../../src/bytes/sink.ts";
import type { Source } from "../../src/bytes/source.ts";
import { expectBytes, patternBytes } from "./source-contract.ts";

/** A Sink, and what anyone can see at its destination. */
export interface MadeSink {
  readonly sink: Sink;
  /** The bytes under the final name, or undefined where there is nothing. */
  published(): Promise<Bytes | undefined>;
  /** Names of anything else that the sink left behind at its destination. */
  leftovers(): Promise<readonly string[]>;
  dispose?(): Promise<void>;
}

/** What a kind of Sink can do of what the interface leaves open. */
export interface SinkPowers {
  /** "none" without `reopen`; "last" if nothing can be appended after it; "any" if more can. */
  readonly reopen: "none" | "last" | "any";
}

/** Registers the tests that every Sink passes. `make` is called once a test. */
export function sinkContract(name: string, { reopen }: SinkPowers, make: () => Promise<MadeSink>): void {
  const check = (title: string, body: (made: MadeSink) => Promise<void>): void => {
    test(title, async () => {
      const made = await make();
      try {
        await body(made);
      } finally {
        await made.sink.abort();
        await made.dispose?.();
      }
    });
  };
  describe(`Sink contract: ${name}`, () => {
    checkAppends(check);
    checkReserved(check);
    checkReopened(check, reopen);
    checkEnds(check);
  });
}

type Check = (title: string, body: (made: MadeSink) => Promise<void>) => void;

function checkAppends(check: Check): void {
  check("publishes nothing before commit, everything after it", async ({ sink, published, leftovers }) => {
    await sink.append(patternBytes(10));
    expect(await published()).toBeUndefined();
    await sink.append(patternBytes(400_000));
    expect(await published()).toBeUndefined();
    await sink.commit();
    expectBytes((await published()) as Bytes, concatBytes([patternBytes(10), patternBytes(400_000)]));
    expect(await leftovers()).toEqual([]);
  });
  check("publishes an empty file", async ({ sink, published }) => {
    await sink.commit();
    expect(await published()).toHaveLength(0);
  });
  check("keeps appends in call order without waiting for each", async ({ sink, published }) => {
    const pieces = Array.from({ length: 60 }, (_, i) => patternBytes((i * 49_999) % 700_000).map((b) => b ^ i));
    const appends = pieces.map((piece) => {
      const before = sink.position;
      const append = sink.append(piece);
      expect(sink.position).toBe(before + piece.byteLength);
      return append;
    });
    await Promise.all(appends);
    await sink.commit();
    expectBytes((await published()) as Bytes, concatBytes(pieces));
  });
  check("lets the caller reuse a buffer once its append has settled", async ({ sink, published }) => {
    const buffer = new Uint8Array(1000);
    for (let i = 0; i < 200; i++) await sink.append(buffer.fill(i));
    await sink.commit();
    const bytes = (await published()) as Bytes;
    expect(Array.from({ length: 200 }, (_, i) => bytes[i * 1000 + 500])).toEqual(
      Array.from({ length: 200 }, (_, i) => i),
    );
  });
}

function checkReserved(check: Check): void {
  check("fills reserved room, which reads as zeros until then", async ({ sink, published }) => {
    if (sink.reserve === undefined || sink.fill === undefined) return expect(sink.fill).toBe(sink.reserve);
    await sink.append(Uint8Array.of(1, 2));
    expect(sink.reserve(6)).toBe(2);
    await sink.append(Uint8Array.of(3));
    expect(sink.reserve(2)).toBe(9);
    expect(sink.position).toBe(11);
    await sink.fill(3, Uint8Array.of(7, 8));
    await sink.commit();
    expect([...((await published()) ?? [])]).toEqual([1, 2, 0, 7, 8, 0, 0, 0, 3, 0, 0]);
  });
  check("fills what was appended just before, and fills in call order", async ({ sink, published }) => {
    if (sink.fill === undefined) return expect(sink.reserve).toBeUndefined();
    const work = [sink.append(new Uint8Array(500_000).fill(1)), sink.append(Uint8Array.of(1, 1))];
    work.push(
      sink.fill(499_999, Uint8Array.of(2, 2)),
      sink.fill(500_000, Uint8Array.of(3)),
      sink.append(Uint8Array.of(4)),
    );
    await sink.commit();
    await Promise.all(work);
    expect([...((await published()) ?? []).slice(499_998)]).toEqual([1, 2, 3, 1, 4]);
  });
  check("refuses to fill what is not there", async ({ sink }) => {
    if (sink.fill === undefined) return expect(sink.reserve).toBeUndefined();
    await sink.append(new Uint8Array(4));
    for (const offset of [-1, 1, 0.5, Number.NaN]) {
      await expect(sink.fill(offset, new Uint8Array(4))).rejects.toMatchObject({ code: "usage/sink.range" });
    }
    expect(() => sink.reserve?.(-1)).toThrow(expect.objectContaining({ code: "usage/sink.range" }));
  });
}

function checkReopened(check: Check, reopen: SinkPowers["reopen"]): void {
  if (reopen === "none") {
    check("cannot be read back", async ({ sink }) => expect(sink.reopen).toBeUndefined());
    return;
  }
  check(`shows what was written so far before commit (takes more after it: ${reopen})`, async ({ sink, published }) => {
    expect(sink.reopen).toBeDefined();
    void sink.append(patternBytes(300_000));
    void sink.append(Uint8Array.of(1, 2));
    sink.reserve?.(3);
    const source = (await sink.reopen?.()) as Source;
    expect(source.label).toBe(sink.label);
    expectBytes(await source.read(0, 300_000), patternBytes(300_000));
    expect([...(await source.read(300_000, source.byteLength - 300_000))].slice(0, 2)).toEqual([1, 2]);
    expect(source.byteLength).toBe(sink.position);
    expect(await published()).toBeUndefined();
    await source.close();
    const append = sink.append(Uint8Array.of(9));
    if (reopen === "last") await expect(append).rejects.toMatchObject({ code: "usage/sink.done" });
    else await append;
    await sink.commit();
    if (reopen === "any") expect((await published())?.at(-1)).toBe(9);
    expect(await published()).toHaveLength(sink.position);
  });
}

function checkEnds(check: Check): void {
  check("leaves nothing after abort, which may be called twice", async ({ sink, published, leftovers }) => {
    // From the start: a sink may reject them before its abort resolves.
    const settled = Promise.allSettled([sink.append(patternBytes(700_000)), sink.append(patternBytes(10))]);
    await sink.abort();
    await settled;
    await sink.abort();
    expect(await published()).toBeUndefined();
    expect(await leftovers()).toEqual([]);
  });
  check("takes nothing after its end", async ({ sink }) => {
    await sink.commit();
    await sink.abort();
    await expect(sink.append(new Uint8Array(1))).rejects.toMatchObject({ code: "usage/sink.done" });
    await expect(sink.commit()).rejects.toMatchObject({ code: "usage/sink.done" });
  });
  check("takes nothing after abort", async ({ sink, published }) => {
    await sink.abort();
    await expect(sink.append(new Uint8Array(1))).rejects.toMatchObject({ code: "usage/sink.done" });
    await expect(sink.commit()).rejects.toMatchObject({ code: "usage/sink.done" });
    expect(await published()).toBeUndefined();
  });
}
