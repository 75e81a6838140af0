import { isTareError, type TareError } from "../../src/base/errors.ts";
import type { Source } from "../../src/bytes/source.ts";
import { cutSource } from "../../src/model/cut-short.ts";
import type { Opened } from "../../src/model/format.ts";
import { type OpenOptions, openSource } from "../../src/open.ts";

/** Readers report the first thing that reaches beyond the end; the next may reach further. */
const MAX_TRIES = 16;

/**
 * Opens a file whose end is missing, as `fault` reports. The contents of its tables are shown, and reading a missing
 * part fails with `fault` again. Rejects with `fault` if the tables themselves, or parts of the opening read, are
 * missing.
 */
export async function openCutShort(source: Source, fault: TareError, options: OpenOptions): Promise<Opened> {
  let neededBytes = fault.neededBytes ?? 0;
  for (let tries = 0; tries < MAX_TRIES; tries++) {
    try {
      return await openSource(cutSource(source, neededBytes, fault), options);
    } catch (error) {
      const more = isTareError(error) ? (error.neededBytes ?? 0) : 0;
      if (more <= neededBytes) break;
      neededBytes = more;
    }
  }
  throw fault;
}
