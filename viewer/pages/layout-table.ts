import { type LayoutRow, mapLayout } from "../../src/operations/map.ts";
import type { Target } from "../reader/open-targets.ts";
import type { FileFacts } from "../shared/protocol.ts";
import { KINDS } from "../shared/protocol.ts";

/** Every run of every file, by columns: 100 000 rows cross to the page in a few arrays. */
export interface LayoutTable {
  readonly files: readonly FileFacts[];
  readonly part: Uint32Array;
  readonly offset: Float64Array;
  readonly byteLength: Float64Array;
  readonly kind: Uint8Array;
  readonly names: readonly string[];
  /** Types of tensors; empty for other rows. */
  readonly dtypes: readonly string[];
}

export async function layoutTable({ opened, source, label }: Target): Promise<LayoutTable> {
  if (opened === undefined) {
    const whole = { part: 0, offset: 0, byteLength: source.byteLength, kind: "gap", name: "not understood" } as const;
    return tableOf([whole], [{ label, byteLength: source.byteLength }]);
  }
  const { container } = opened;
  // Parts of a set are opened when they are read. The map needs them all, and shows which ones it could not get.
  if (container.kind === "model") await container.openParts?.().catch(() => undefined);
  const files = container.parts.map((part) => {
    const isCut = container.parts.length === 1 && source.byteLength < part.byteLength;
    return { label: part.label, byteLength: part.byteLength, presentBytes: isCut ? source.byteLength : undefined };
  });
  return tableOf(mapLayout(opened), files);
}

function tableOf(rows: readonly LayoutRow[], files: readonly FileFacts[]): LayoutTable {
  const known: readonly string[] = KINDS;
  return {
    files,
    part: Uint32Array.from(rows, ({ part }) => part),
    offset: Float64Array.from(rows, ({ offset }) => offset),
    byteLength: Float64Array.from(rows, ({ byteLength }) => byteLength),
    kind: Uint8Array.from(rows, ({ kind }) => known.indexOf(kind)),
    names: rows.map(({ name }) => name),
    dtypes: rows.map(({ dtype }) => dtype ?? ""),
  };
}
