import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import type { Bytes } from "../../src/base/bytes.ts";
import { memoryOutput, memorySink, memorySource } from "../../src/bytes/memory.ts";
import type { Opened } from "../../src/model/format.ts";
import { writePieces } from "../../src/model/pieces.ts";
import { openSource } from "../../src/open.ts";
import type { ConversionOptions } from "../../src/operations/convert/content.ts";
import { prepareConversion, writeConversion } from "../../src/operations/convert.ts";
import { statistics } from "../../src/operations/stats.ts";
import { openTarget } from "../../src/platform/node/targets.ts";
import { portableEngine } from "../../src/primitives/portable.ts";
import { b3, hex } from "../builders/aero.ts";
import { type BuiltSet, buildSet, countedFolder, SET_NAME, setTensorBytes } from "../builders/aeroset.ts";
import { READERS, writerById } from "../builders/loaded-formats.ts";

/**
 * Whoever can replace the parts of a set, but not its JSON, makes parts whose pages and digests agree with each other and
 * copies the digests of tensors from the index. Nothing inside such a part gives it away.
 */
const engine = portableEngine();
const PARTS = ["part-000.aero", "part-001.aero", "part-002.aero"];

function replacedSet(options: BuiltSet): Map<string, Bytes> {
  const files = buildSet(options);
  const weights = (tensor: number): Bytes => setTensorBytes(tensor).map((value) => value ^ 1);
  // Where the index has digests theirs must be the same; else they are of what is there.
  const own: BuiltSet["partIndex"] = (_, tensors) =>
    tensors.map((tensor) => ({ ...tensor, more: { hash_b3: hex(b3(weights(Number(tensor.name.slice(1))))) } }));
  const isOwn = options.hashes?.includes("parts") === true && !options.hashes.includes("index");
  const theirs = buildSet({ ...options, weights, ...(isOwn ? { partIndex: own } : {}) });
  expect(theirs.get("index.aero")).toEqual(files.get("index.aero"));
  for (const name of PARTS) files.set(name, theirs.get(name) as Bytes);
  return files;
}

function openFiles(files: Map<string, Bytes>): Promise<Opened> {
  const source = memorySource(files.get(SET_NAME) as Bytes, SET_NAME);
  return openSource(source, { engine, resolver: countedFolder(files) });
}

async function openOnDisk(files: Map<string, Bytes>): Promise<Opened> {
  const folder = mkdtempSync(join(tmpdir(), "tare-replaced-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  for (const [name, bytes] of files) writeFileSync(join(folder, name), bytes);
  const opened = await openTarget(join(folder, SET_NAME), { engine });
  onTestFinished(() => opened.close());
  return opened;
}

async function convert(opened: Opened, options: Partial<ConversionOptions> = {}): Promise<Map<string, Bytes>> {
  const target = writerById("safetensors");
  const name = "m.safetensors";
  const conversion = await prepareConversion(opened, target, { name, formats: READERS, ...options });
  const output = memoryOutput(name);
  try {
    await writeConversion(conversion, output, { engine });
  } catch (error) {
    expect([...output.files.keys()]).toEqual([]);
    throw error;
  }
  return output.files as Map<string, Bytes>;
}

const STATED: BuiltSet = { hashes: ["index", "parts"], pages: "pages" };

test.each([
  ["copied", {}],
  ["rounded", { dtype: "F16" }],
  ["chosen", { include: ["t3"] }],
] as const)("no file is made of parts that are not those of the index: %s", async (_, options) => {
  await expect(convert(await openFiles(replacedSet(STATED)), options)).rejects.toMatchObject({
    code: "integrity/aero.tensor-hash",
  });
  await convert(await openFiles(buildSet(STATED)), options);
});

test("what cat, extract and stats read whole is compared with the index", async () => {
  const { container } = await openFiles(replacedSet(STATED));
  if (container.kind !== "model") throw new Error("no model");
  await container.openParts?.();
  const wrong = { code: "integrity/aero.tensor-hash" };
  const pieces = [{ kind: "tensor", tensor: container.tensor("t3") }] as const;
  await expect(writePieces(pieces, memorySink("out"), { engine })).rejects.toMatchObject(wrong);
  await expect(statistics(container.tensor("t3"))).rejects.toMatchObject(wrong);
});

test.each([
  ["pages of the part", { pages: "pages" }],
  ["digests of the part", { hashes: ["parts"] }],
  ["nothing", {}],
] as const)("where the index has no digests the part's SHA-256 decides, beside %s", async (_, options) => {
  await expect(convert(await openOnDisk(replacedSet(options)))).rejects.toMatchObject({
    code: "integrity/aeroset.sha256",
    at: { path: "parts[0].sha256" },
  });
  await convert(await openOnDisk(buildSet(options)));
});

test("parts elsewhere are not read twice for that; it is said that they are not proven", async () => {
  const opened = await openFiles(buildSet({ pages: "pages" }));
  const target = writerById("safetensors");
  const { plan } = await prepareConversion(opened, target, { name: "m.safetensors", formats: READERS });
  expect(plan.notes).toEqual([
    expect.stringMatching(/^"part-000\.aero" and 2 more cannot be proven to be of this set/),
  ]);
  const stated = await prepareConversion(await openFiles(buildSet(STATED)), target, { name: "m", formats: READERS });
  expect(stated.plan.notes).toEqual([]);
});
