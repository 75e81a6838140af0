import { describe, expect, it } from "vitest";
import { loadFixture } from "../../../test/support/fixtures.ts";
import { xorshiftBytes } from "../../../test/vectors/xorshift.ts";
import { type Bytes, concatBytes } from "../../base/bytes.ts";
import { isTareError } from "../../base/errors.ts";
import { encodeHex } from "../../base/text.ts";
import { memorySource } from "../../bytes/memory.ts";
import { avecPayload, parityGrid } from "../../model/parity/avec.ts";
import { portableEngine } from "../../primitives/portable.ts";
import { frontV1, segmentRowV1, sidecarFront } from "./layout.ts";
import { readSidecar } from "./read.ts";
import { bindingId, encodeFront, planFileSidecar, type Sidecar } from "./sidecar.ts";

const engine = portableEngine();
const fixture = loadFixture("aerocorrect", "cross-impl-sidecar");
/** A copy of the directory with its checksum, for one segment. */
const COPY_BYTES = 160;

function read(bytes: Bytes): Promise<Sidecar> {
  return readSidecar(memorySource(bytes, "sidecar"), engine);
}

function change(bytes: Bytes, ...places: readonly (readonly [number, number])[]): Bytes {
  const copy = bytes.slice();
  for (const [offset, mask] of places) copy[offset] = (copy[offset] as number) ^ mask;
  return copy;
}

/** The same byte of each copy of the directory. */
const inCopies = (offset: number): [number, number][] => [0, 1, 2].map((i) => [21 + i * COPY_BYTES + offset, 1]);

describe("readSidecar()", () => {
  it("reads the sidecar that the reference published", async () => {
    const sidecar = await read(fixture);
    expect(sidecar).toMatchObject({ version: 2, kind: "file", totalLength: 999, findings: [] });
    expect(encodeHex(sidecar.contentSha256)).toMatch(/^11668ff336fa8ffd/);
    expect(encodeHex(await bindingId(engine, sidecar.contentSha256))).toMatch(/^ccb39dcffd08ba98/);
    expect(sidecar.segments).toMatchObject([{ windowOffset: 0, windowLength: 999, byteLength: 8773 - 501 }]);
  });

  it("heals one, two and three damaged copies of the directory, the last by vote", async () => {
    const one = change(fixture, [25, 1]);
    const two = change(one, [29 + COPY_BYTES, 2]);
    const three = change(two, [70 + 2 * COPY_BYTES, 4]);
    for (const [damaged, lost] of [
      [one, 1],
      [two, 2],
      [three, 3],
    ] as const) {
      const { totalLength, findings } = await read(damaged);
      expect({ totalLength, findings }).toMatchObject({
        totalLength: 999,
        findings: [{ code: "integrity/aerocorrect.directory", message: expect.stringContaining(`${lost} of 3`) }],
      });
    }
  });

  it.each([
    ["binding id", 10],
    ["SHA-256", 44],
  ])("refuses a %s with the same damaged byte in all copies", async (_, offset) => {
    await expect(read(change(fixture, ...inCopies(offset)))).rejects.toMatchObject({
      code: "format/aerocorrect.directory",
    });
  });

  it("refuses avec_len with the same damaged byte in all copies, but does not notice it in total_len", async () => {
    await expect(read(change(fixture, ...inCopies(72 + 16)))).rejects.toMatchObject({
      code: "format/aerocorrect.directory",
    });
    expect((await read(change(fixture, ...inCopies(0)))).totalLength).toBe(998);
  });

  it.each([
    ["(1, 1, 0xffffffff)", [1, 1, 0xffff_ffff]],
    ["(1, 2, 3)", [1, 2, 3]],
    ["(0, 1, 0)", [0, 1, 0]],
    ["(7, 8, 1)", [7, 8, 1]],
  ])("counts of %s mean one", async (_, [firstCount, secondCount, thirdCount]) => {
    const front = { firstCount, secondCount, thirdCount } as Parameters<typeof sidecarFront.encode>[0];
    const bytes = concatBytes([sidecarFront.encode(front), fixture.subarray(21)]);
    expect((await read(bytes)).segments.length).toBe(1);
  });

  it.each([
    [
      "counts that are all wrong",
      concatBytes([sidecarFront.encode({ firstCount: 7, secondCount: 8, thirdCount: 9 }), fixture.subarray(21)]),
      "format/aerocorrect.directory",
    ],
    ["another magic", change(fixture, [0, 1]), "format/aerocorrect.front"],
    ["another version", change(fixture, [8, 1]), "unsupported/aerocorrect.version"],
    ["nothing", new Uint8Array(0), "format/aerocorrect.front"],
    ["a byte too much", concatBytes([fixture, new Uint8Array(1)]), "format/aerocorrect.segment"],
    ["a byte too few", fixture.slice(0, -1), "format/aerocorrect.segment"],
  ])("refuses %s", async (_, bytes, code) => {
    await expect(read(bytes)).rejects.toMatchObject({ code });
  });

  it("answers every one-byte corruption of its front with a sidecar or a located error", async () => {
    for (let i = 0; i < 560; i++) {
      const result: unknown = await read(change(fixture, [i, 0xff])).catch((error: unknown) => error);
      if (result instanceof Error) expect(isTareError(result), `byte ${i}: ${result}`).toBe(true);
    }
  });

  it("recognises the sidecar of a vault by its shape", async () => {
    const windows = [
      [0, 1024],
      [9000, 500],
      [1024, 7976],
    ].map(([windowOffset = 0, windowLength = 0]) => ({ windowOffset, windowLength, plan: planOf(0) }));
    const { placeSegments } = await import("./sidecar.ts");
    const bytes = await encodeFront(engine, placeSegments(9502, windows), new Uint8Array(32));
    expect((await read(bytes)).kind).toBe("vault");
    const holed = windows.map((window, i) => ({ ...window, windowOffset: window.windowOffset + i }));
    const [, second, third] = holed;
    const gaps = await encodeFront(engine, placeSegments(9502, [second, third] as never), new Uint8Array(32));
    await expect(read(gaps)).rejects.toMatchObject({ code: "format/aerocorrect.window" });
  });
});

function planOf(byteLength: number): ReturnType<typeof planFileSidecar>["segments"][number]["plan"] {
  return planFileSidecar(byteLength, parityGrid(15)).segments[0]?.plan as never;
}

/** Built by hand, because no program writes version 1 any more (docs/formats/aerocorrect.md#version-1). */
async function sidecarV1(data: Bytes, windowBytes: number): Promise<Bytes> {
  const { segments, totalLength } = planFileSidecar(data.byteLength, parityGrid(20), windowBytes);
  const contentSha256 = await engine.digest("sha256", data);
  const front = { bindingId: await bindingId(engine, contentSha256), contentSha256, totalLength };
  const pieces: Bytes[] = [frontV1.encode({ ...front, segmentCount: segments.length })];
  for (const { windowOffset, windowLength, plan } of segments) {
    const run = data.slice(windowOffset, windowOffset + windowLength);
    const source = { byteLength: windowLength, read: async (at: number, n: number) => run.slice(at, at + n) };
    pieces.push(segmentRowV1.encode({ windowOffset, windowLength, avecLength: plan.payloadBytes }));
    pieces.push(await avecPayload({ engine, plan, data: source }));
  }
  const all = concatBytes(pieces);
  return concatBytes([all, await engine.digest("blake3", all)]);
}

describe("version 1", () => {
  const data = xorshiftBytes(100_000, 4n);
  it("is read, including its windows", async () => {
    const sidecar = await read(await sidecarV1(data, 40_000));
    expect(sidecar).toMatchObject({ version: 1, kind: "file", totalLength: 100_000 });
    expect(sidecar.segments.map(({ windowLength }) => windowLength)).toEqual([40_000, 40_000, 20_000]);
  });

  it("is refused if any bit is flipped or a byte is missing", async () => {
    const bytes = await sidecarV1(data, 40_000);
    for (const offset of [20, 84, 5000, bytes.byteLength - 1]) {
      await expect(read(change(bytes, [offset, 1]))).rejects.toMatchObject({ code: "integrity/aerocorrect.checksum" });
    }
    await expect(read(bytes.slice(0, 100))).rejects.toMatchObject({ code: "format/aerocorrect.segment" });
  });

  it("is refused if it states segments that it does not have", async () => {
    const front = { bindingId: new Uint8Array(32), contentSha256: new Uint8Array(32), totalLength: 9 };
    for (const segmentCount of [0, 1, 399_456, 0xffff_ffff]) {
      const bytes = frontV1.encode({ ...front, segmentCount });
      const signed = concatBytes([bytes, await engine.digest("blake3", bytes)]);
      await expect(read(signed)).rejects.toMatchObject({ code: "format/aerocorrect.segment" });
    }
  });
});
