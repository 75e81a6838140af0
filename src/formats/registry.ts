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
