import type { Container } from "../model/archive.ts";
import type { FormatReader } from "../model/format.ts";

/** Whether a file carries digests of what it holds. */
export function carriesDigests(reader: FormatReader, container: Container): boolean {
  const known = reader.carriesDigests?.(container);
  return known ?? reader.sections(container).some((section) => section.kind === "integrity");
}
