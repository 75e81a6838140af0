import type { Bytes } from "../../src/base/bytes.ts";
import type { Extent } from "../../src/bytes/extents.ts";
import type { Source } from "../../src/bytes/source.ts";
import type { Opened } from "../../src/model/format.ts";
import { type LayoutRow, mapLayout } from "../../src/operations/map.ts";
import { type FieldPlace, showField } from "../../src/struct/fields.ts";
import type { Target } from "../reader/open-targets.ts";

/** Bytes of a field that are read to show its value. */
const VALUE_BYTES = 65;
/** Most fields on one page; more would be harder to read. */
const MAX_FIELDS = 400;

export interface HexRequest {
  readonly part: number;
  readonly offset: number;
  readonly byteLength: number;
}

export interface HexPage {
  readonly offset: number;
  readonly bytes: Bytes;
  /** Length of the file. */
  readonly byteLength: number;
}

/** A field of the format with its value. */
export interface FieldRow extends FieldPlace {
  readonly value: string;
}

/** The bytes of a range, limited to the file. */
export async function hexPage(target: Target, request: HexRequest, signal: AbortSignal): Promise<HexPage> {
  const source = sourceOfPart(target, request.part);
  const offset = Math.max(0, Math.min(request.offset, source.byteLength));
  const byteLength = Math.min(request.byteLength, source.byteLength - offset);
  const bytes = await source.read(offset, byteLength, { signal });
  return { offset, bytes: bytes.slice(), byteLength: source.byteLength };
}

/** The fields of the format in a range. */
export async function fieldsOf(target: Target, request: HexRequest, signal: AbortSignal): Promise<readonly FieldRow[]> {
  const source = sourceOfPart(target, request.part);
  const places = (await placesIn(target, request)).slice(0, MAX_FIELDS);
  return Promise.all(
    places.map(async (place) => {
      const byteLength = Math.max(0, Math.min(place.byteLength, VALUE_BYTES, source.byteLength - place.offset));
      const bytes = await source.read(Math.min(place.offset, source.byteLength), byteLength, { signal });
      return { ...place, value: showField(place, bytes) };
    }),
  );
}

async function placesIn({ opened }: Target, request: HexRequest): Promise<readonly FieldPlace[]> {
  if (opened === undefined) return [];
  const { container, reader } = opened;
  const touches = ({ offset, byteLength }: Extent): boolean =>
    byteLength > 0 && offset < request.offset + request.byteLength && offset + byteLength > request.offset;
  const fields = (await reader.fields?.(container, request)) ?? [];
  const named = fields.filter(touches);
  // If the format names no field, the map still shows what the bytes belong to.
  const runs = rowsOf(opened)
    .filter((row) => row.part === request.part && touches(row))
    .filter((row) => !named.some((field) => field.offset < row.offset + row.byteLength && end(field) > row.offset))
    .map(({ offset, byteLength, name, kind, dtype }) => ({ offset, byteLength, name, type: dtype ?? kind }));
  return [...named, ...runs].sort((a, b) => a.offset - b.offset);
}

function end({ offset, byteLength }: Extent): number {
  return offset + byteLength;
}

/** The map of the opened content, computed once. */
const maps = new WeakMap<Opened, readonly LayoutRow[]>();

function rowsOf(opened: Opened): readonly LayoutRow[] {
  const rows = maps.get(opened) ?? mapLayout(opened);
  maps.set(opened, rows);
  return rows;
}

function sourceOfPart({ opened, source, fault }: Target, part: number): Source {
  // The bytes that exist, not those that a truncated file should have.
  if (fault !== undefined && part === 0) return source;
  return opened?.container.parts[part]?.source ?? source;
}
