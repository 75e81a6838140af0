import { type Bytes, equalBytes } from "../base/bytes.ts";
import type { Archive, Entry } from "../model/archive.ts";
import type { DType } from "../model/dtype.ts";
import { equalShapes, type Shape } from "../model/dtype.ts";
import type { Metadata, MetadataValue } from "../model/metadata.ts";
import type { Model } from "../model/model.ts";
import { ORIGIN_KEY } from "../model/origin/origin.ts";
import type { Tensor } from "../model/tensor.ts";
import { hasNumbers } from "../model/values/numbers.ts";
import { mapTensors } from "./reading/concurrency.ts";
import { readPieces, readValues } from "./reading/view.ts";

export interface TensorChange {
  readonly name: string;
  /** What differs: "dtype", "shape", "data". */
  readonly what: readonly ("dtype" | "shape" | "data")[];
  readonly a: { readonly dtype: DType; readonly shape: Shape };
  readonly b: { readonly dtype: DType; readonly shape: Shape };
  /** With `stats`, if both sides have numbers and the same shape. */
  readonly delta?: Delta;
}

export interface DiffReport {
  /** Compares tensors, and also metadata if requested. */
  readonly equal: boolean;
  readonly added: readonly string[];
  readonly removed: readonly string[];
  readonly changed: readonly TensorChange[];
  readonly unchanged: number;
  readonly metadata: readonly MetadataChange[];
}

export interface DiffOptions {
  /** Measures the distance of changed tensors. */
  readonly stats?: "stats" | undefined;
  /** Values that differ by no more than this are equal. */
  readonly tolerance?: number | undefined;
  /** Metadata differences count for `equal`. */
  readonly metadata?: "metadata" | undefined;
  readonly concurrency?: number | undefined;
  readonly signal?: AbortSignal | undefined;
  readonly onProgress?: ((byteLength: number) => void) | undefined;
}

/** What is compared of a model. */
export type Compared = Pick<Model, "tensors" | "metadata">;

/** Compares by name, across formats: bytes if the types agree, values if a tolerance or statistics need them. */
export async function diff(a: Compared, b: Compared, options: DiffOptions = {}): Promise<DiffReport> {
  const inA = new Map(a.tensors.map((tensor) => [tensor.name, tensor]));
  const inB = new Map(b.tensors.map((tensor) => [tensor.name, tensor]));
  const added = b.tensors.filter((tensor) => !inA.has(tensor.name)).map((tensor) => tensor.name);
  const removed = a.tensors.filter((tensor) => !inB.has(tensor.name)).map((tensor) => tensor.name);
  const shared = a.tensors.filter((tensor) => inB.has(tensor.name));
  const together = { concurrency: options.concurrency ?? 2, signal: options.signal };
  const compared = await mapTensors(shared, together, (tensor) => {
    return compareTensors(tensor, inB.get(tensor.name) as Tensor, options);
  });
  const changed = compared.filter((change): change is TensorChange => change !== undefined);
  const metadata = compareMetadata(a.metadata, b.metadata);
  const tensorsEqual = added.length + removed.length + changed.length === 0;
  const equal = tensorsEqual && (options.metadata === undefined || metadata.length === 0);
  return { equal, added, removed, changed, unchanged: shared.length - changed.length, metadata };
}

async function compareTensors(a: Tensor, b: Tensor, options: DiffOptions): Promise<TensorChange | undefined> {
  const sameType = a.dtype === b.dtype;
  const sameShape = equalShapes(a.shape, b.shape);
  const change = (what: TensorChange["what"], delta?: Delta): TensorChange => ({
    name: a.name,
    what,
    a: { dtype: a.dtype, shape: a.shape },
    b: { dtype: b.dtype, shape: b.shape },
    ...(delta === undefined ? {} : { delta }),
  });
  if (sameType && sameShape && (await sameBytes(a, b, options))) return undefined;
  const what: ("dtype" | "shape" | "data")[] = [];
  if (!sameType) what.push("dtype");
  if (!sameShape) what.push("shape");
  const comparable = sameShape && hasNumbers(a.dtype) && hasNumbers(b.dtype);
  const wanted = options.stats !== undefined || options.tolerance !== undefined;
  const delta = comparable && wanted ? await measureDelta(a, b, options) : undefined;
  if (delta !== undefined && options.tolerance !== undefined && delta.maxAbs <= options.tolerance) return undefined;
  // Different types with equal values count only as a change of type.
  if (sameType ? sameShape : delta !== undefined && delta.differing > 0) what.push("data");
  return change(what, options.stats === undefined ? undefined : delta);
}

async function sameBytes(a: Tensor, b: Tensor, options: DiffOptions): Promise<boolean> {
  if (a.byteLength !== b.byteLength) return false;
  const other = readPieces(b, { signal: options.signal })[Symbol.asyncIterator]();
  for await (const piece of readPieces(a, options)) {
    const { value } = await other.next();
    if (value === undefined || !equalRuns(piece, value)) {
      await other.return(undefined);
      return false;
    }
  }
  return true;
}

/** Compares eight bytes at a time if both runs are aligned, because these are the bytes of whole models. */
function equalRuns(a: Bytes, b: Bytes): boolean {
  if (a.byteLength !== b.byteLength) return false;
  const words = a.byteLength >> 3;
  if (a.byteOffset % 8 !== 0 || b.byteOffset % 8 !== 0) return equalBytes(a, b);
  const x = new Float64Array(a.buffer, a.byteOffset, words);
  const y = new Float64Array(b.buffer, b.byteOffset, words);
  const xBits = new Int32Array(x.buffer, x.byteOffset, words * 2);
  const yBits = new Int32Array(y.buffer, y.byteOffset, words * 2);
  for (let i = 0; i < xBits.length; i++) if (xBits[i] !== yBits[i]) return false;
  return equalBytes(a.subarray(words * 8), b.subarray(words * 8));
}

/** The distance of two tensors of one shape. */
export interface Delta {
  readonly maxAbs: number;
  readonly meanAbs: number;
  /** Cosine of the angle between the two as vectors; null if one of them is zero. */
  readonly cosine: number | null;
  readonly differing: number;
}

/** NaN against NaN is no difference; NaN against a number is an infinite one. */
async function measureDelta(
  a: Tensor,
  b: Tensor,
  options: { readonly signal?: AbortSignal | undefined },
): Promise<Delta> {
  const other = new ValueCursor(readValues(b, { signal: options.signal }));
  let maxAbs = 0;
  let sumAbs = 0;
  let differing = 0;
  let dot = 0;
  let lengthA = 0;
  let lengthB = 0;
  let count = 0;
  for await (const values of readValues(a, { signal: options.signal })) {
    for (let i = 0; i < values.length; i++) {
      const x = values[i] as number;
      const y = other.ready ? other.take() : await other.next();
      const bothNaN = Number.isNaN(x) && Number.isNaN(y);
      const distance = x === y || bothNaN ? 0 : Math.abs(x - y);
      const gap = Number.isNaN(distance) ? Number.POSITIVE_INFINITY : distance;
      if (gap > 0) differing++;
      if (gap > maxAbs) maxAbs = gap;
      sumAbs += gap;
      dot += x * y;
      lengthA += x * x;
      lengthB += y * y;
    }
    count += values.length;
  }
  const norm = Math.sqrt(lengthA) * Math.sqrt(lengthB);
  const cosine = norm > 0 && Number.isFinite(norm) ? dot / norm : null;
  return { maxAbs, meanAbs: count === 0 ? 0 : sumAbs / count, cosine, differing };
}

/** Gives values one by one from pieces whose lengths need not match the other side's. */
class ValueCursor {
  readonly #pieces: AsyncGenerator<ArrayLike<number>>;
  #piece: ArrayLike<number> = [];
  #position = 0;

  constructor(pieces: AsyncGenerator<ArrayLike<number>>) {
    this.#pieces = pieces;
  }

  get ready(): boolean {
    return this.#position < this.#piece.length;
  }

  take(): number {
    return this.#piece[this.#position++] as number;
  }

  async next(): Promise<number> {
    const { value, done } = await this.#pieces.next();
    this.#piece = done === true ? [] : value;
    this.#position = 0;
    return this.ready ? this.take() : Number.NaN;
  }
}

export interface MetadataChange {
  readonly key: string;
  readonly what: "added" | "removed" | "changed";
}

/** The origin that a conversion keeps is no difference between two models. */
function compareMetadata(a: Metadata, b: Metadata): MetadataChange[] {
  const changes: MetadataChange[] = [];
  for (const { key, value } of a) {
    if (key === ORIGIN_KEY) continue;
    const other = b.get(key);
    if (other === undefined) changes.push({ key, what: "removed" });
    else if (!equalValues(value, other)) changes.push({ key, what: "changed" });
  }
  for (const { key } of b) if (key !== ORIGIN_KEY && a.get(key) === undefined) changes.push({ key, what: "added" });
  return changes;
}

function equalValues(a: MetadataValue, b: MetadataValue): boolean {
  if (a.encoded !== undefined && b.encoded?.encoding === a.encoded.encoding) {
    return equalBytes(a.encoded.bytes, b.encoded.bytes);
  }
  if (a.type === "array" && b.type === "array") {
    if (a.length !== b.length) return false;
    const items = b.slice();
    return a.slice().every((item, i) => equalValues(item, items[i] as MetadataValue));
  }
  if (a.type === "map" && b.type === "map") {
    return (
      a.entries.length === b.entries.length &&
      a.entries.every(({ key, value }, i) => key === b.entries[i]?.key && equalValues(value, b.entries[i].value))
    );
  }
  if (a.type === "bytes" && b.type === "bytes") return equalBytes(a.value, b.value);
  return "value" in a && "value" in b ? Object.is(a.value, b.value) : a.type === b.type;
}

export interface EntryChange {
  readonly name: string;
  /** What differs: "type", "size", "data". */
  readonly what: readonly ("type" | "size" | "data")[];
  readonly a: EntryFacts;
  readonly b: EntryFacts;
}

export interface EntryFacts {
  readonly type: Entry["type"];
  readonly size: number;
}

export interface ArchiveDiffReport {
  /** By paths, types and contents; times and permissions do not count. */
  readonly equal: boolean;
  readonly added: readonly string[];
  readonly removed: readonly string[];
  readonly changed: readonly EntryChange[];
  readonly unchanged: number;
}

export interface ArchiveDiffOptions {
  readonly signal?: AbortSignal | undefined;
  /** Called with the bytes of `a` that were compared, or that needed no comparison. */
  readonly onProgress?: ((byteLength: number) => void) | undefined;
}

/** Compares two archives by path. Contents are read only if nothing cheaper proves that they are the same. */
export async function diffArchives(
  a: Archive,
  b: Archive,
  options: ArchiveDiffOptions = {},
): Promise<ArchiveDiffReport> {
  const inA = new Set(a.entries.map((entry) => entry.path));
  const inB = new Map(b.entries.map((entry) => [entry.path, entry]));
  const added = b.entries.filter(({ path }) => !inA.has(path)).map(({ path }) => path);
  const removed = a.entries.filter(({ path }) => !inB.has(path)).map(({ path }) => path);
  const changed: EntryChange[] = [];
  let unchanged = 0;
  for (const entry of a.entries) {
    const other = inB.get(entry.path);
    if (other === undefined) continue;
    const change = await compareEntries(entry, other, options);
    if (change === undefined) unchanged++;
    else changed.push(change);
  }
  const equal = added.length + removed.length + changed.length === 0;
  return { equal, added, removed, changed, unchanged };
}

async function compareEntries(a: Entry, b: Entry, options: ArchiveDiffOptions): Promise<EntryChange | undefined> {
  const factsOf = ({ type, size }: Entry): EntryFacts => ({ type, size });
  const change = (...what: EntryChange["what"]): EntryChange => ({ name: a.path, what, a: factsOf(a), b: factsOf(b) });
  if (a.type !== b.type) return change("type");
  if (a.type === "directory") return undefined;
  if (a.size !== b.size) return change("size", "data");
  if (a.sharesContent?.(b) === true) {
    options.onProgress?.(a.size);
    return undefined;
  }
  return (await sameEntryBytes(a, b, options)) ? undefined : change("data");
}

/** Compares two streams in step, whatever the lengths of their pieces. */
async function sameEntryBytes(a: Entry, b: Entry, { signal, onProgress }: ArchiveDiffOptions): Promise<boolean> {
  const other = b.source().stream(0, { signal })[Symbol.asyncIterator]();
  let rest: Bytes = new Uint8Array(0);
  try {
    for await (const piece of a.source().stream(0, { signal })) {
      for (let done = 0; done < piece.byteLength; ) {
        if (rest.byteLength === 0) {
          const next = await other.next();
          if (next.done === true) return false;
          rest = next.value;
        }
        const length = Math.min(rest.byteLength, piece.byteLength - done);
        if (!equalBytes(rest.subarray(0, length), piece.subarray(done, done + length))) return false;
        rest = rest.subarray(length);
        done += length;
      }
      onProgress?.(piece.byteLength);
    }
    return true;
  } finally {
    await other.return?.();
  }
}
