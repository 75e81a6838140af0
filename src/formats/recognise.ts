import { OPENING_BYTES } from "../bytes/layers/opening-read.ts";
import type { Format, Head } from "../model/format.ts";

/** Which of some formats a file has, by its first bytes and by its name. The registry asks this of all of them. */

/** What the first bytes of a file say about its format. */
export interface Sniffed {
  /** The first format that is sure. */
  readonly sure: Format | undefined;
  /** Formats that such a damaged file could have. */
  readonly possible: readonly Format[];
}

/** Asks every format about the first bytes of a file. */
export async function sniffFormats(head: Head, formats: readonly Format[]): Promise<Sniffed> {
  const results = await Promise.all(formats.map((format) => format.sniff(head)));
  return { sure: formats[results.indexOf("yes")], possible: formats.filter((_, i) => results[i] === "possible") };
}

/** True if a file is named like those of the format, in any case. */
export function hasExtension(name: string, { extensions }: Pick<Format, "extensions">): boolean {
  const lower = name.toLowerCase();
  return extensions.some((extension) => lower.endsWith(extension));
}

/** The format that a file of this name has among these. The longest extension wins. */
export function formatNamed(fileName: string, formats: readonly Format[]): Format | undefined {
  const lower = fileName.toLowerCase();
  let best: { readonly format: Format; readonly length: number } | undefined;
  for (const format of formats) {
    for (const extension of format.extensions) {
      if (lower.endsWith(extension) && extension.length > (best?.length ?? 0))
        best = { format, length: extension.length };
    }
  }
  return best?.format;
}

/** The number of bytes to read first from a file of this name, before its content shows the format. */
export function openingBytesAmong(fileName: string, formats: readonly Format[]): number {
  return formatNamed(fileName, formats)?.openingBytes ?? OPENING_BYTES;
}

/** "model-00002-of-00005.safetensors": how Hugging Face and llama.cpp number the files of one model. */
const NUMBERED = /^(.*)-(\d{5})-of-(\d{5})(\.[a-z.]+)$/i;

/** The whole models among the names: an index represents its shards, a first part represents the later ones. */
export function candidatesAmong(names: readonly string[], formats: readonly Format[]): string[] {
  // The parts of a set are complete files without a common stem, so a set represents all of them.
  const sets = names.filter((name) => isIndex(name, "any name", formats)).sort();
  const usual = sets.find((name) => name === formatNamed(name, formats)?.folderName);
  if (sets.length > 0) return usual === undefined ? sets : [usual];
  const known = preferWritable(names.filter((name) => formatNamed(name, formats) !== undefined).sort(), formats);
  const indexes = known.filter((name) => isIndex(name, "same stem", formats) && !NUMBERED.test(name));
  const stems = new Set(indexes.map((name) => name.slice(0, name.indexOf("."))));
  const firstParts = new Set(known.filter((name) => NUMBERED.exec(name)?.[2] === "00001").map(setOf));
  return known.filter((name) => {
    const numbered = NUMBERED.exec(name);
    if (numbered === null) return true;
    const [, stem = "", number] = numbered;
    if (stems.has(stem)) return false;
    return number === "00001" || !firstParts.has(setOf(name));
  });
}

/** True if a file of this name lists the other files of a model, and those are named like that. */
function isIndex(name: string, parts: "same stem" | "any name", formats: readonly Format[]): boolean {
  const index = formatNamed(name, formats)?.index;
  return index?.parts === parts && hasExtension(name, index);
}

/** Next to a model in another format, an ONNX export is a copy for running it. It is the model only if it is alone. */
function preferWritable(names: readonly string[], formats: readonly Format[]): readonly string[] {
  const writable = names.filter((name) => formatNamed(name, formats)?.access !== "read");
  return writable.length > 0 ? writable : names;
}

function setOf(name: string): string {
  return name.replace(NUMBERED, "$1-of-$3$4");
}
