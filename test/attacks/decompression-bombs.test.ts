import { describe, expect, test } from "vitest";
import type { LimitOverrides } from "../../src/base/limits.ts";
import { memorySource } from "../../src/bytes/memory.ts";
import { openSource } from "../../src/open.ts";
import { verify } from "../../src/operations/verify.ts";
import { portableEngine } from "../../src/primitives/portable.ts";
import { type BuiltChunk, buildAero, mjsn, mmsg, smallAero, tidx, zstdBomb } from "../builders/aero.ts";
import { bounded } from "./bounded.ts";

const engine = portableEngine();
/** 131 KB that expand to 4 GiB. */
const HUGE = zstdBomb(2 ** 32 - 0x20000, undefined);
const FRAMES = [
  ["says how much it expands to", zstdBomb(2 ** 32 - 0x20000, 2 ** 32 - 0x20000)],
  ["does not say how much it expands to", HUGE],
  ["claims to be small", zstdBomb(2 ** 32 - 0x20000, 10)],
  ["claims to be empty", zstdBomb(2 ** 32 - 0x20000, 0)],
] as const;

const bomb = (chunk: BuiltChunk, stored: BuiltChunk["stored"], ulen: number): BuiltChunk => ({
  ...chunk,
  flags: (chunk.flags ?? 0) | 1,
  ulen,
  ...(stored === undefined ? {} : { stored }),
});

function open(chunks: readonly BuiltChunk[], limits: LimitOverrides = {}) {
  const bytes = buildAero({ chunks });
  return bounded(() => openSource(memorySource(bytes, "bomb.aero"), { engine, limits }));
}

describe.each(FRAMES)("a frame that %s", (_, frame) => {
  test.each([0, 10, 4096, 1 << 20])("as an index with chunk_ulen %d is refused there", async (ulen) => {
    await expect(open([bomb(tidx([]), frame, ulen)])).rejects.toMatchObject({
      code: "format/aero.zstd",
      at: { source: "bomb.aero", offset: expect.any(Number), path: "chunk[0]" },
    });
  });

  test("as other metadata costs a warning, and verifying it an error", async () => {
    const chunks = [bomb(mjsn({}), frame, 100), bomb(mmsg(), frame, 100), ...smallAero().slice(2)];
    const opened = await open(chunks);
    expect(opened.container.warnings.map(({ code }) => code)).toEqual(["format/aero.zstd", "format/aero.zstd"]);
    const report = await bounded(() => verify(opened, { level: "full", engine }));
    expect(report.findings.map(({ severity, code }) => `${severity} ${code}`)).toEqual([
      "error format/aero.zstd",
      "error format/aero.zstd",
    ]);
  });

  test("as a chunk that nobody knows is an error of verify", async () => {
    const unknown = bomb({ fourcc: "XXXX", name: "x", content: new Uint8Array(5) }, frame, 5);
    const report = await bounded(async () => verify(await open([unknown]), { level: "full", engine }));
    expect(report.findings).toMatchObject([{ severity: "error", code: "format/aero.zstd" }]);
  });
});

test("chunk_ulen itself is bounded: at the limit it is expanded, beyond it is not even read", async () => {
  const limits = { aero: { metadataBytes: 1 << 20 } };
  const exact = (ulen: number) => open([bomb(tidx([]), zstdBomb(ulen, ulen), ulen)], limits);
  await expect(exact(1 << 20)).rejects.toMatchObject({ code: "integrity/aero.chunk-hash" });
  await expect(exact((1 << 20) + 1)).rejects.toMatchObject({ code: "limit/aero.metadata-bytes" });
});

test("many chunks that share one frame are not expanded one after the other", async () => {
  const frame = zstdBomb(1 << 20, 1 << 20);
  const first = bomb(mjsn({}), frame, 1 << 20);
  const place = Number(new DataView(buildAero({ chunks: [first] }).buffer).getBigUint64(112 + 8, true));
  const COUNT = 3000;
  // The same table length for every file with so many entries: names are empty but for their NUL.
  const offset = place - 80 - 16 + COUNT * 81;
  const shared: BuiltChunk = { ...first, name: "", hash: new Uint8Array(32) };
  const rest = { ...shared, stored: new Uint8Array(0), length: frame.byteLength, offset: Math.ceil(offset / 16) * 16 };
  const chunks = [shared, ...new Array<BuiltChunk>(COUNT - 1).fill(rest)];
  const opened = await open(chunks);
  for (const level of ["quick", "full"] as const) {
    const report = await bounded(() => verify(opened, { level, engine }));
    expect(report.findings.filter(({ severity }) => severity === "error").map(({ code }) => code)).toContain(
      "limit/aero.hash-work",
    );
  }
});
