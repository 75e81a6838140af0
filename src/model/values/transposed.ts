import type { Bytes } from "../../base/bytes.ts";
import { UsageError } from "../../base/errors.ts";
import { ComputedSource } from "../../bytes/derived.ts";
import { checkRange } from "../../bytes/extents.ts";
import type { ReadOptions, Source } from "../../bytes/source.ts";
import { dtypeFacts, formatShape } from "../dtype.ts";
import { Tensor } from "../tensor.ts";

/**
 * The same matrix with rows and columns exchanged, [a, b] as [b, a]; nothing is read yet. `offset` and
 * `storedByteLength` still state where the bytes are in the file. Refuses anything but a matrix of whole-byte elements.
 */
export function transposedTensor(tensor: Tensor): Tensor {
  const { name, dtype, shape, byteLength, offset, storedByteLength, file } = tensor;
  const facts = dtypeFacts(dtype);
  const [rows, columns] = shape;
  const isMatrix = shape.length === 2 && rows !== undefined && columns !== undefined;
  if (!isMatrix || facts.layout !== "plain" || facts.bits % 8 !== 0) {
    const message = `Cannot transpose "${name}": must be a matrix of whole bytes, found ${dtype} ${formatShape(shape)}`;
    throw new UsageError("usage/transpose", message, { source: file ?? name });
  }
  const matrix = { rows, columns, itemBytes: facts.bits / 8 };
  const turned = { name, dtype, shape: [columns, rows], byteLength, offset, storedByteLength, file };
  return new Tensor(turned, { source: () => new TransposedSource(tensor.source(), matrix) });
}

/** The stored matrix. */
interface Matrix {
  readonly rows: number;
  readonly columns: number;
  readonly itemBytes: number;
}

/**
 * Matrices up to this size are transposed once and kept while they are read. Larger ones are read again for every
 * request.
 */
const KEPT_BYTES = 16 << 20;
/** One read of a matrix that is not kept. */
const STRIP_BYTES = 4 << 20;

class TransposedSource extends ComputedSource {
  readonly #inner: Source;
  readonly #matrix: Matrix;
  #kept: Promise<Bytes> | undefined;

  constructor(inner: Source, matrix: Matrix) {
    super({ label: inner.label, byteLength: inner.byteLength, pieceBytes: KEPT_BYTES });
    this.#inner = inner;
    this.#matrix = matrix;
  }

  async read(offset: number, byteLength: number, options: ReadOptions = {}): Promise<Bytes> {
    checkRange(this.label, this.byteLength, offset, byteLength);
    const { rows, itemBytes } = this.#matrix;
    const rowBytes = rows * itemBytes;
    if (byteLength === 0 || rowBytes === 0) return options.into ?? new Uint8Array(byteLength);
    const kept = this.byteLength <= KEPT_BYTES;
    // Whole rows of the result, which are columns of the stored matrix.
    const first = kept ? 0 : Math.floor(offset / rowBytes);
    const last = Math.ceil((offset + byteLength) / rowBytes);
    const turned = kept ? await this.#whole(options.signal) : await this.#turn(first, last, options.signal);
    const start = offset - first * rowBytes;
    const found = turned.subarray(start, start + byteLength);
    if (options.into === undefined) return found;
    options.into.set(found);
    return options.into;
  }

  #whole(signal: AbortSignal | undefined): Promise<Bytes> {
    this.#kept ??= this.#turn(0, this.#matrix.columns, signal).catch((error: unknown) => {
      this.#kept = undefined; // an aborted or failed read must not fail the next one
      throw error;
    });
    return this.#kept;
  }

  /** Columns `first` … `last` of the stored matrix as rows, reading it in strips of whole rows. */
  async #turn(first: number, last: number, signal: AbortSignal | undefined): Promise<Bytes> {
    const { rows, columns, itemBytes } = this.#matrix;
    const turned = new Uint8Array((last - first) * rows * itemBytes);
    const strip = Math.max(1, Math.floor(STRIP_BYTES / (columns * itemBytes)));
    for (let row = 0; row < rows; row += strip) {
      const count = Math.min(strip, rows - row);
      const bytes = await this.#inner.read(row * columns * itemBytes, count * columns * itemBytes, { signal });
      placeStrip(bytes, turned, { ...this.#matrix, row, count, first, last });
    }
    return turned;
  }
}

interface Strip extends Matrix {
  /** Index of the strip's first row, and its number of rows. */
  readonly row: number;
  readonly count: number;
  readonly first: number;
  readonly last: number;
}

/** Columns that are copied together, so that the written bytes stay in the processor's cache. */
const TILE = 32;

function placeStrip(bytes: Bytes, turned: Bytes, strip: Strip): void {
  const [from, to] = wordsOf(bytes, turned, strip.itemBytes);
  const { rows, columns, row, count, first, last } = strip;
  const width = strip.itemBytes / from.BYTES_PER_ELEMENT;
  for (let tile = first; tile < last; tile += TILE) {
    const end = Math.min(tile + TILE, last);
    for (let r = 0; r < count; r++) {
      for (let c = tile; c < end; c++) {
        const source = (r * columns + c) * width;
        const target = ((c - first) * rows + row + r) * width;
        for (let word = 0; word < width; word++) to[target + word] = from[source + word] as number;
      }
    }
  }
}

type Words = Uint8Array<ArrayBuffer> | Uint16Array<ArrayBuffer> | Uint32Array<ArrayBuffer>;

/** Both runs as the widest words that an item consists of. Moving them does not depend on byte order. */
function wordsOf(bytes: Bytes, turned: Bytes, itemBytes: number): readonly [Words, Words] {
  const Word = itemBytes % 4 === 0 ? Uint32Array : itemBytes % 2 === 0 ? Uint16Array : Uint8Array;
  const size = Word.BYTES_PER_ELEMENT;
  const aligned = bytes.byteOffset % size === 0 ? bytes : bytes.slice();
  return [
    new Word(aligned.buffer, aligned.byteOffset, aligned.byteLength / size),
    new Word(turned.buffer, turned.byteOffset, turned.byteLength / size),
  ];
}
