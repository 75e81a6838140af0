import type { Bytes } from "../../src/base/bytes.ts";
import { isTareError, SourceError, type TareError } from "../../src/base/errors.ts";
import { memorySource } from "../../src/bytes/memory.ts";
import type { Opened } from "../../src/model/format.ts";
import { openSource } from "../../src/open.ts";
import { READERS } from "../builders/loaded-formats.ts";
import { type CountingSource, countingSource } from "../support/counting-source.ts";

/** Opens bytes as a file of that name, with others beside it where given. */
export function openBytes(
  bytes: Bytes,
  name = "crafted",
  files: ReadonlyMap<string, Bytes> = new Map(),
): Promise<Opened> {
  return openCounted(countingSource(memorySource(bytes, name)), name, files);
}

export function openCounted(source: CountingSource, name: string, files: ReadonlyMap<string, Bytes>): Promise<Opened> {
  const resolver = {
    name,
    async resolve(sibling: string) {
      const bytes = files.get(sibling);
      if (bytes === undefined) throw new SourceError("source/not-found", "Cannot find it", { source: sibling });
      return memorySource(bytes, sibling);
    },
  };
  return openSource(source, { resolver });
}

/** The refusal of a file; throws where it is opened, or fails with anything but one of our errors. */
export async function refusalOf(bytes: Bytes, name?: string): Promise<TareError> {
  let opened: Opened;
  try {
    opened = await openBytes(bytes, name);
  } catch (error) {
    if (isTareError(error)) return error;
    throw error;
  }
  throw new Error(`It was opened as ${opened.format.name} instead of being refused`);
}

export const conversionOptions = (name: string) => ({ name, formats: READERS, allowLossy: "allow-lossy" }) as const;
