import { OPENING_BYTES } from "../bytes/transfer.ts";
import type { Format, FormatReader, Head } from "../model/format.ts";
import { aero } from "./aero/index.ts";
import { aeroset } from "./aeroset/index.ts";
import { aerovault } from "./aerovault/index.ts";
import { aerovault1 } from "./aerovault1/index.ts";
import { aerovault2 } from "./aerovault2/index.ts";
import { apr } from "./apr/index.ts";
import { embd } from "./embd/index.ts";
import { gguf } from "./gguf/index.ts";
import { onnx } from "./onnx/index.ts";
import { safetensors } from "./safetensors/index.ts";

/**
 * The one list of formats. Content decides which one opens a file; order matters only where two are sure: a vault begins
 * with the four letters of AERO, and a manifest of APR shards can have the key by which SafeTensors knows its own.
 */
export const FORMATS: readonly Format[] = [
  aerovault,
  aerovault2,
  aerovault1,
  apr,
  gguf,
  safetensors,
  aero,
  aeroset,
  embd,
  onnx,
];

/** The format that is sure of a file by its first bytes. */
export async function sniffFormat(head: Head): Promise<Format | undefined> {
  const results = await Promise.all(FORMATS.map((format) => format.sniff(head)));
  return FORMATS[results.indexOf("yes")];
}

export function formatById(id: string): Format | undefined {
  return FORMATS.find((format) => format.id === id);
}

/** By extension, for outputs whose format the user did not name. The longest extension wins. */
export function formatForName(fileName: string): Format | undefined {
  const lower = fileName.toLowerCase();
  let best: { readonly format: Format; readonly length: number } | undefined;
  for (const format of FORMATS) {
    for (const extension of format.extensions) {
      if (lower.endsWith(extension) && extension.length > (best?.length ?? 0))
        best = { format, length: extension.length };
    }
  }
  return best?.format;
}

/** The readers of those formats. Names that are not known are passed over. */
export function readersOf(ids: readonly string[]): Promise<readonly FormatReader[]> {
  return Promise.all(FORMATS.filter(({ id }) => ids.includes(id)).map((format) => format.read()));
}

/** How much of a file of this name is read first, before its content tells what it is. */
export function openingBytesFor(fileName: string): number {
  return formatForName(fileName)?.openingBytes ?? OPENING_BYTES;
}

/** "model-00002-of-00005.safetensors", as Hugging Face and llama.cpp number the files of one model. */
const NUMBERED = /^(.*)-(\d{5})-of-(\d{5})(\.[a-z.]+)$/i;

/** Whole models among the names: an index stands for its shards, a first part for the later ones. */
export function chooseCandidates(names: readonly string[]): string[] {
  const sets = names.filter((name) => name.toLowerCase().endsWith(".aeroset.json")).sort();
  // The parts of a set are whole files of their own and have no common stem, so a set stands for all of them.
  if (sets.length > 0) return sets.includes("model.aeroset.json") ? ["model.aeroset.json"] : sets;
  const known = preferWritable(names.filter((name) => formatForName(name) !== undefined).sort());
  const indexes = known.filter((name) => name.endsWith(".json"));
  // The manifest of an APR set has the extension of its shards.
  const manifests = known.filter((name) => /\.apr$/i.test(name) && !NUMBERED.test(name));
  const stems = new Set([...indexes, ...manifests].map((name) => name.slice(0, name.indexOf("."))));
  const firstParts = new Set(known.filter((name) => NUMBERED.exec(name)?.[2] === "00001").map(setOf));
  return known.filter((name) => {
    const numbered = NUMBERED.exec(name);
    if (numbered === null) return true;
    const [, stem = "", number] = numbered;
    if (stems.has(stem)) return false;
    return number === "00001" || !firstParts.has(setOf(name));
  });
}

/** Beside a model in another format an ONNX export is a copy for running it: only alone it is the model. */
function preferWritable(names: readonly string[]): readonly string[] {
  const writable = names.filter((name) => formatForName(name)?.access !== "read");
  return writable.length > 0 ? writable : names;
}

function setOf(name: string): string {
  return name.replace(NUMBERED, "$1-of-$3$4");
}
