import { findGaps } from "../bytes/extents.ts";
import type { Container } from "../model/archive.ts";
import type { DType } from "../model/dtype.ts";
import type { FormatReader, Opened, Section } from "../model/format.ts";

/** One run of one file: a section, a tensor, or bytes that nothing claims. */
export interface LayoutRow {
  /** Index into `container.parts`. */
  readonly part: number;
  readonly offset: number;
  readonly byteLength: number;
  readonly kind: Section["kind"] | "tensor" | "gap";
  readonly name: string;
  readonly dtype?: DType;
}

/** Accounts for every byte of every file, in order. */
export function mapLayout({ container, reader }: Opened): LayoutRow[] {
  const rows: LayoutRow[] = reader.sections(container).map(({ part, offset, byteLength, kind, name }) => {
    return { part, offset, byteLength, kind, name };
  });
  if (container.kind === "model") {
    const partOf = new Map(container.parts.map((part, index) => [part.label, index]));
    for (const tensor of container.tensors) {
      const part = tensor.file === undefined ? 0 : (partOf.get(tensor.file) ?? 0);
      if (container.parts[part]?.layout === "unplaced") continue;
      const { offset, storedByteLength: byteLength, name, dtype } = tensor;
      rows.push({ part, offset, byteLength, kind: "tensor", name, dtype });
    }
  }
  const byPart: LayoutRow[][] = container.parts.map(() => []);
  for (const row of rows) byPart[row.part]?.push(row);
  for (const [part, { byteLength }] of container.parts.entries()) {
    for (const gap of findGaps(byPart[part] ?? [], byteLength))
      rows.push({ part, ...gap, kind: "gap", name: "unclaimed" });
  }
  return rows.sort((a, b) => a.part - b.part || a.offset - b.offset || a.byteLength - b.byteLength);
}

/** Whether a file carries digests of its contents. */
export function carriesDigests(reader: FormatReader, container: Container): boolean {
  const known = reader.carriesDigests?.(container);
  return known ?? reader.sections(container).some((section) => section.kind === "integrity");
}
