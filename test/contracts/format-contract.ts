import { describe, expect, test } from "vitest";
import type { Bytes } from "../../src/base/bytes.ts";
import { TareError } from "../../src/base/errors.ts";
import { encodeUtf8 } from "../../src/base/text.ts";
import { memoryOutput, memorySource } from "../../src/bytes/memory.ts";
import { FORMATS } from "../../src/formats/registry.ts";
import type { Format, Opened } from "../../src/model/format.ts";
import { openSource } from "../../src/open.ts";
import { planConversion, requireWriter, writeConversion } from "../../src/operations/convert.ts";
import { carriesDigests, mapLayout } from "../../src/operations/map.ts";
import { verify } from "../../src/operations/verify.ts";
import type { Engine } from "../../src/primitives/engine.ts";
import { portableEngine } from "../../src/primitives/portable.ts";
import { READERS } from "../builders/loaded-formats.ts";
import { type FuzzInput, inputResolver, primaryBytes } from "../fuzz/fuzz-input.ts";
import { countingSource } from "../support/counting-source.ts";

/** A small valid file, best from another implementation. */
export interface Golden {
  readonly name: string;
  readonly bytes: Bytes;
  /** The files beside it, where one file is not the whole model. */
  readonly siblings?: ReadonlyMap<string, Bytes>;
  /** "standard" files come back byte for byte from reading and writing, and from a trip through other formats. */
  readonly layout: "standard" | "other";
  /** What opens it, where it is encrypted. */
  readonly password?: string;
  /** For files whose passwords are dear: an engine that knows the key. */
  readonly engine?: Engine;
}

const portable = portableEngine();

const MASKS = [0x01, 0x80, 0xff] as const;
/** `npm run test:slow` damages every byte in every way; else each byte is damaged in one of them. */
const IS_FULL = process.env["TARE_TESTS"] === "all";

/** What every format promises, whatever it is. Run it with goldens from foreign writers. */
export function formatContract(format: Format, goldens: readonly Golden[]): void {
  describe(`${format.name} keeps the format contract`, () => {
    test("has goldens to be judged by", () => {
      expect(goldens.length).toBeGreaterThan(0);
    });
    test("sniff() never throws and does not claim noise", async () => {
      for (const bytes of noise())
        expect(await format.sniff({ bytes, byteLength: bytes.byteLength, name: "x" })).not.toBe("yes");
    });
    for (const golden of goldens) goldenTests(format, golden);
  });
}

function goldenTests(format: Format, golden: Golden): void {
  const { name, bytes, siblings, engine = portable } = golden;
  const password = async (): Promise<Bytes | undefined> =>
    golden.password === undefined ? undefined : encodeUtf8(golden.password);
  const resolver = siblings === undefined ? undefined : inputResolver({ primary: name, files: siblings });
  const open = (data: Bytes): Promise<Opened> =>
    openSource(memorySource(data, name), { engine, name, resolver, password });

  test(`${name}: is recognised by its content alone and opened in at most two reads`, async () => {
    const source = countingSource(memorySource(bytes, "no-extension"));
    const opened = await openSource(source, { engine, resolver, password });
    expect(opened.format.id).toBe(format.id);
    expect(source.calls.length).toBeLessThanOrEqual(2);
  });

  test(`${name}: verifies without an error and the map accounts for every byte once`, async () => {
    const opened = await open(bytes);
    const report = await verify(opened, { level: "full", engine });
    expect(report.findings.filter((finding) => finding.severity === "error")).toEqual([]);
    if (opened.container.kind === "model") await opened.container.openParts?.();
    const ends = opened.container.parts.map(() => 0);
    for (const { part, offset, byteLength, name: rowName } of mapLayout(opened)) {
      if (byteLength === 0) continue;
      expect(offset, rowName).toBe(ends[part]);
      ends[part] = offset + byteLength;
    }
    expect(ends).toEqual([bytes, ...(siblings?.values() ?? [])].map((file) => file.byteLength));
  });

  test(`${name}: carries digests where a section says so`, async () => {
    const { container, reader } = await open(bytes);
    const bySections = reader.sections(container).some((section) => section.kind === "integrity");
    expect(carriesDigests(reader, container)).toBe(bySections);
  });

  test(`${name}: every one-byte corruption gives a model or a located error`, async () => {
    for (let i = 0; i < bytes.byteLength; i++) {
      for (const mask of IS_FULL ? MASKS : [MASKS[i % MASKS.length] as number]) {
        const damaged = bytes.slice();
        damaged[i] = (damaged[i] as number) ^ mask;
        await expectModelOrLocatedError(open(damaged), `byte ${i} ^ ${mask}`);
      }
    }
  });

  test(`${name}: every truncation gives a model or a located error`, async () => {
    for (let length = 0; length < bytes.byteLength; length++) {
      await expectModelOrLocatedError(open(bytes.slice(0, length)), `first ${length} bytes`);
    }
  });

  if (golden.layout === "standard" && format.write !== undefined) {
    test(`${name}: read and written again is the same file`, async () => {
      expect(await convertBytes(await open(bytes), format)).toEqual(bytes);
    });
    for (const other of FORMATS.filter((candidate) => candidate.id !== format.id && candidate.write !== undefined)) {
      test(`${name}: comes back unchanged from ${other.name}, or is refused by name`, async () => {
        await expectRoundTrip(await open(bytes), format, other, bytes);
      });
    }
  }
}

async function expectRoundTrip(opened: Opened, format: Format, other: Format, bytes: Bytes): Promise<void> {
  let through: FuzzInput;
  try {
    through = await convertFiles(opened, other);
  } catch (error) {
    expect(error).toMatchObject({ code: "unsupported/lossy" });
    return;
  }
  const there = await openSource(memorySource(primaryBytes(through), "there"), {
    engine: portable,
    resolver: inputResolver(through),
  });
  expect(there.format.id).toBe(other.id);
  expect(await convertBytes(there, format)).toEqual(bytes);
}

/** The single file that a conversion writes. */
export async function convertBytes(opened: Opened, target: Format): Promise<Bytes> {
  return primaryBytes(await convertFiles(opened, target));
}

async function convertFiles(opened: Opened, target: Format): Promise<FuzzInput> {
  const output = memoryOutput("out");
  const conversion = planConversion(opened, await requireWriter(target), { name: "out", formats: READERS });
  await writeConversion(conversion, output, { engine: portable });
  return { primary: conversion.plan.primary, files: output.files };
}

async function expectModelOrLocatedError(opening: Promise<Opened>, what: string): Promise<void> {
  const outcome: unknown = await opening.catch((error: unknown) => error);
  if (!(outcome instanceof Error)) return;
  expect(outcome, what).toBeInstanceOf(TareError);
  expect((outcome as TareError).at.offset, `${what}: ${outcome.message}`).toEqual(expect.any(Number));
}

function* noise(): Generator<Bytes> {
  yield new Uint8Array(0);
  for (const length of [1, 7, 8, 9, 64, 1000]) {
    yield new Uint8Array(length);
    yield new Uint8Array(length).fill(0xff);
    yield Uint8Array.from({ length }, (_, i) => (Math.imul(i + length, 0x9e3779b1) >>> 13) & 0xff);
  }
}
