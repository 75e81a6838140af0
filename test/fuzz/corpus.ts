import { existsSync, readdirSync, readFileSync } from "node:fs";
import type { Bytes } from "../../src/base/bytes.ts";
import { isTareError } from "../../src/base/errors.ts";
import { decodeHex } from "../../src/base/text.ts";
import { memoryOutput, memorySource } from "../../src/bytes/memory.ts";
import { FORMATS } from "../../src/formats/registry.ts";
import type { FormatWriter, Opened } from "../../src/model/format.ts";
import { openSource } from "../../src/open.ts";
import { planConversion, writeConversion } from "../../src/operations/convert.ts";
import { VAULT_PASSWORD } from "../builders/crafted-vault.ts";
import { LOADED, READERS } from "../builders/loaded-formats.ts";
import { passwordOf, quickEngine } from "../builders/sealed-apr.ts";
import { type FuzzInput, inputResolver, primaryBytes } from "./fuzz-input.ts";
import { olderVaults } from "./older-vaults.ts";
import { smallFiles } from "./small-files.ts";

const FIXTURES = new URL("../fixtures/", import.meta.url);
// Argon2id would take longer than everything else.
const engine = quickEngine();
const password = passwordOf(VAULT_PASSWORD);

/** Files to start from, by format id. */
export type Corpus = ReadonlyMap<string, readonly FuzzInput[]>;

/**
 * Every file of test/fixtures/<id>, hand-made extremes, and both once more as every format that can be written: whole,
 * cut into sets, and with what a conversion carries in `tare.origin`. A new format joins by having fixtures.
 */
export async function loadCorpus(): Promise<Corpus> {
  const goldens = new Map<string, FuzzInput[]>();
  for (const { id } of FORMATS) goldens.set(id, [...readFixtures(id), ...smallFiles(id), ...(await olderVaults(id))]);
  const corpus = new Map<string, FuzzInput[]>([...goldens].map(([id, inputs]) => [id, [...inputs]]));
  for (const inputs of goldens.values()) {
    for (const input of inputs) {
      for (const { format, writer } of LOADED) corpus.get(format.id)?.push(...(await writeVariants(input, writer)));
    }
  }
  return corpus;
}

function readFixtures(id: string): FuzzInput[] {
  const folder = new URL(`${id}/`, FIXTURES);
  if (!existsSync(folder)) return [];
  const extension = FORMATS.find((format) => format.id === id)?.extensions[0] ?? "";
  const names = readdirSync(folder).filter((name) => name.endsWith(".hex"));
  const files = new Map(names.map((name) => [name.replace(/\.hex$/, extension), readHex(new URL(name, folder))]));
  return [...files.keys()].sort().map((primary) => {
    const siblings = readSiblings(new URL(`${primary.slice(0, primary.length - extension.length)}/`, folder));
    return {
      primary,
      files: siblings.size === 0 ? files : new Map([[primary, files.get(primary) as Bytes], ...siblings]),
    };
  });
}

/** The other files of a model of several files, in a folder of its own. */
function readSiblings(folder: URL): Map<string, Bytes> {
  const names = existsSync(folder) ? readdirSync(folder).filter((name) => name.endsWith(".hex")) : [];
  return new Map(names.map((name) => [name.replace(/\.hex$/, ""), readHex(new URL(name, folder))]));
}

function readHex(file: URL): Bytes {
  const bytes = decodeHex(readFileSync(file, "utf8").replace(/#.*$/gm, "").replace(/\s/g, ""));
  if (bytes === undefined) throw new Error(`${file.pathname} is not hex`);
  return bytes;
}

async function writeVariants(input: FuzzInput, target: FormatWriter | undefined): Promise<FuzzInput[]> {
  if (target === undefined) return [];
  const source = memorySource(primaryBytes(input), input.primary);
  const opened = await openSource(source, { engine, resolver: inputResolver(input), password });
  const variants: FuzzInput[] = [];
  for (const maxShardBytes of [undefined, 64]) {
    const variant = await write(opened, target, maxShardBytes);
    if (variant !== undefined) variants.push(variant);
  }
  return variants;
}

/** Undefined where the target cannot hold the model at all. */
async function write(
  opened: Opened,
  target: FormatWriter,
  maxShardBytes: number | undefined,
): Promise<FuzzInput | undefined> {
  const name = `variant${target.format.extensions[0]}`;
  const output = memoryOutput(name);
  try {
    const options = { name, maxShardBytes, formats: READERS, allowLossy: "allow-lossy" } as const;
    const conversion = planConversion(opened, target, options);
    await writeConversion(conversion, output, { engine });
    return { primary: conversion.plan.primary, files: output.files };
  } catch (error) {
    if (isTareError(error)) return undefined;
    throw error;
  }
}
