import type { Container } from "../model/container.ts";
import type { Format } from "../model/format.ts";

/** Whether a file carries digests of what it holds. */
export function carriesDigests(format: Format, container: Container): boolean {
  const known = format.carriesDigests?.(container);
  return known ?? format.sections(container).some((section) => section.kind === "integrity");
}
