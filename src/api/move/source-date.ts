import { UsageError } from "../../base/errors.ts";
import type { Source } from "../../bytes/source.ts";
import type { Opened } from "../../model/format.ts";
import type { VerbHost } from "../host.ts";
import type { CommonOptions } from "../options.ts";

/**
 * When the model that is written was made, in milliseconds since 1970: what SOURCE_DATE_EPOCH says, else the newest time
 * of the files that it is read from. Never the time of writing, so that the same input gives the same bytes. Undefined if
 * the input has no time.
 */
export function sourceDate(host: VerbHost, request: CommonOptions, opened: Opened): number | undefined {
  return statedDate(host.sourceDate?.(request)) ?? newestOf(opened);
}

/** The last second of the year 9999, after which RFC 3339 has no dates. */
const LAST_SECOND = 253_402_300_799;

/** Whole seconds since 1970, as https://reproducible-builds.org/specs/source-date-epoch has it. */
function statedDate(text: string | undefined): number | undefined {
  if (text === undefined || text === "") return undefined;
  if (/^\d+$/.test(text) && Number(text) <= LAST_SECOND) return Number(text) * 1000;
  const message = `Cannot use "${text}" as SOURCE_DATE_EPOCH: must be a number of seconds since 1970`;
  throw new UsageError("usage/flag-value", message, { source: "environment" });
}

/** A file in an archive has a time of its own; that of the archive is another. */
function newestOf({ container, stored }: Opened): number | undefined {
  const times =
    stored === undefined
      ? container.parts.map(({ source }) => modifiedOf(source))
      : [...stored].map(({ modified }) => modified);
  return times.reduce((newest, time) => (time === undefined ? newest : Math.max(time, newest ?? time)), undefined);
}

function modifiedOf({ descriptor }: Source): number | undefined {
  if (descriptor?.kind === "file") return descriptor.modified;
  const blob = descriptor?.kind === "blob" ? descriptor.blob : undefined;
  // Not every runtime has File.
  return blob !== undefined && "lastModified" in blob
    ? (blob as { readonly lastModified: number }).lastModified
    : undefined;
}
