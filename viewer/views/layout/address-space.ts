import type { LayoutTable } from "../../pages/layout-table.ts";
import { KINDS, type Kind } from "../../shared/protocol.ts";
import type { Interval } from "./interval-set.ts";

/** A run of the map, found by its address. */
export interface MapRun extends Interval {
  readonly index: number;
  readonly part: number;
  readonly kind: Kind;
  readonly name: string;
  /** Offset in its own file. */
  readonly offset: number;
}

/** All files of a model, one after the other: the map has one line of addresses. */
export class AddressSpace {
  readonly table: LayoutTable;
  /** The start of each file, and finally the end of all. */
  readonly bases: readonly number[];
  readonly #starts: Float64Array;

  constructor(table: LayoutTable) {
    this.table = table;
    const bases = [0];
    for (const { byteLength } of table.files) bases.push((bases.at(-1) ?? 0) + byteLength);
    this.bases = bases;
    this.#starts = Float64Array.from(table.offset, (offset, i) => (bases[table.part[i] as number] ?? 0) + offset);
  }

  get byteLength(): number {
    return this.bases.at(-1) ?? 0;
  }

  get count(): number {
    return this.#starts.length;
  }

  address(part: number, offset: number): number {
    return (this.bases[part] ?? 0) + offset;
  }

  /** The file of an address, and the offset in it. */
  place(address: number): { readonly part: number; readonly offset: number } {
    let part = this.table.files.length - 1;
    while (part > 0 && (this.bases[part] ?? 0) > address) part--;
    return { part, offset: address - (this.bases[part] ?? 0) };
  }

  run(index: number): MapRun {
    const { table } = this;
    const start = this.#starts[index] as number;
    return {
      index,
      start,
      end: start + (table.byteLength[index] as number),
      part: table.part[index] as number,
      kind: KINDS[table.kind[index] as number] ?? "gap",
      name: table.names[index] as string,
      offset: table.offset[index] as number,
    };
  }

  /** The last run that begins at or before an address; the first if there is none. */
  indexAt(address: number): number {
    let low = 0;
    let high = this.count;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.#starts[middle] as number) <= address) low = middle + 1;
      else high = middle;
    }
    return Math.max(0, low - 1);
  }
}

/** Least length of the window on screen, in bytes. */
const SMALLEST_WINDOW = 256;

/** A window inside the line, of a legal length. */
export function clampWindow({ start, end }: Interval, byteLength: number): Interval {
  const length = Math.min(byteLength, Math.max(SMALLEST_WINDOW, Math.round(end - start)));
  const first = Math.max(0, Math.min(Math.round(start), byteLength - length));
  return { start: first, end: first + length };
}

/** A window `factor` times as long that keeps `anchor` in its place. */
export function zoomWindow(window: Interval, factor: number, anchor: number, byteLength: number): Interval {
  const start = anchor - (anchor - window.start) * factor;
  return clampWindow({ start, end: start + (window.end - window.start) * factor }, byteLength);
}
