import type { Format } from "../model/format.ts";
import { aero } from "./aero/index.ts";
import { gguf } from "./gguf/index.ts";
import { safetensors } from "./safetensors/index.ts";

/** The one list of formats. Content decides which one opens a file; order matters only where two are sure. */
export const FORMATS: readonly Format[] = [gguf, safetensors, aero];

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
