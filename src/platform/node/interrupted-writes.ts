import { realpath } from "node:fs/promises";
import { isTareError } from "../../base/errors.ts";
import { overlaidSource, overlayBytes } from "../../bytes/derived.ts";
import type { Source } from "../../bytes/source.ts";
import { errnoOf } from "./errors.ts";
import { findInterruptedPatches } from "./patch-file.ts";
import { findMendedHeader } from "./vault-journal.ts";

/**
 * A file as it was to become where a crash interrupted a write in its place: what the journal beside it says comes from
 * there, and the file is left as it is. Needs no permission to write, and no lock: everything that a journal leads to was
 * durable before the journal was. Journals stand beside the file itself, not beside links to it.
 */
export async function completedSource(path: string, source: Source): Promise<Source> {
  const real = await realpath(path).catch(() => undefined); // it was a pipe, or is gone again
  if (real === undefined) return source;
  try {
    const header = await findMendedHeader(real);
    if (header !== undefined) return overlaidSource(source, source.byteLength, [overlayBytes(0, header)]);
    const patches = await findInterruptedPatches(real);
    if (patches.length === 0) return source;
    const overlays = patches.map(({ offset, after }) => overlayBytes(offset, after));
    return overlaidSource(source, source.byteLength, overlays);
  } catch (error) {
    // A journal that may not be read: the file is what there is.
    if (isTareError(error) || errnoOf(error) !== undefined) return source;
    throw error;
  }
}
