import type { Format, Head, KnownFormat } from "../model/format.ts";
import { knownAero } from "./aero/known.ts";
import { knownAeroset } from "./aeroset/known.ts";
import { knownAerovault } from "./aerovault/known.ts";
import { knownAerovault1 } from "./aerovault1/known.ts";
import { knownAerovault2 } from "./aerovault2/known.ts";
import { knownApr } from "./apr/known.ts";
import { knownEmbd } from "./embd/known.ts";
import { knownGguf } from "./gguf/known.ts";
import { knownOnnx } from "./onnx/known.ts";
import { knownSafetensors } from "./safetensors/known.ts";

/**
 * The one list of formats. Content decides which one opens a file; order matters only where two are sure: a vault begins
 * with the four letters of AERO, and a manifest of APR shards can have the key by which SafeTensors knows its own.
 */
export const FORMATS: readonly KnownFormat[] = [
  knownAerovault,
  knownAerovault2,
  knownAerovault1,
  knownApr,
  knownGguf,
  knownSafetensors,
  knownAero,
  knownAeroset,
  knownEmbd,
  knownOnnx,
];

/** The format that is sure of a file by its first bytes. */
export async function sniffFormat(head: Head): Promise<KnownFormat | undefined> {
  const results = await Promise.all(FORMATS.map((format) => format.sniff(head)));
  return FORMATS[results.indexOf("yes")];
}

export function formatById(id: string): KnownFormat | undefined {
  return FORMATS.find((format) => format.id === id);
}

/** By extension, for outputs whose format the user did not name. The longest extension wins. */
export function formatForName(fileName: string): KnownFormat | undefined {
  const lower = fileName.toLowerCase();
  let best: { readonly format: KnownFormat; readonly length: number } | undefined;
  for (const format of FORMATS) {
    for (const extension of format.extensions) {
      if (lower.endsWith(extension) && extension.length > (best?.length ?? 0))
        best = { format, length: extension.length };
    }
  }
  return best?.format;
}

/** Formats with their readers and writers: those named, or all. Names that are not known are passed over. */
export function loadFormats(ids?: readonly string[]): Promise<readonly Format[]> {
  const wanted = ids === undefined ? FORMATS : FORMATS.filter(({ id }) => ids.includes(id));
  return Promise.all(wanted.map((format) => format.load()));
}

/** Enough for the whole control region of most files, small enough to cost one round trip. */
const OPENING_BYTES = 256 << 10;

/** How much of a file of this name is read first, before its content tells what it is. */
export function openingBytesFor(fileName: string): number {
  return formatForName(fileName)?.openingBytes ?? OPENING_BYTES;
}
