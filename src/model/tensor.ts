import type { Bytes } from "../base/bytes.ts";
import { UsageError } from "../base/errors.ts";
import { sliceSource } from "../bytes/slice.ts";
import { disposable, type OpenSource, type ReadOptions, type Source, type StreamOptions } from "../bytes/source.ts";
import { type DType, dtypeFacts, rowCount, type Shape } from "./dtype.ts";
import { UnevenSource, unevenLayout } from "./values/block-rows.ts";
import { convertToFloat32 } from "./values/numbers.ts";

/** How a format hands out a tensor's bytes: a slice, a decompressing or a verifying Source. One per model. */
export interface TensorReader {
  /** The tensor's bytes, exactly `tensor.byteLength` of them, little-endian. */
  source(tensor: Tensor): Source;
}

export interface TensorFacts {
  readonly name: string;
  readonly dtype: DType;
  readonly shape: Shape;
  /** Bytes that `tensor.bytes()` gives: after decompression, if any. */
  readonly byteLength: number;
  /** Absolute offset of the stored bytes in their file. */
  readonly offset: number;
  /** Bytes in the file, if that differs from `byteLength`. */
  readonly storedByteLength?: number;
  /** Label of the file that holds the bytes, in multi-file models. */
  readonly file?: string | undefined;
}

/** A named array: what it is and where its bytes are. The bytes are read on demand. */
export class Tensor implements TensorFacts {
  readonly name: string;
  readonly dtype: DType;
  readonly shape: Shape;
  readonly byteLength: number;
  readonly offset: number;
  readonly storedByteLength: number;
  readonly file: string | undefined;
  readonly #reader: TensorReader;

  constructor(facts: TensorFacts, reader: TensorReader) {
    this.name = facts.name;
    this.dtype = facts.dtype;
    this.shape = facts.shape;
    this.byteLength = facts.byteLength;
    this.offset = facts.offset;
    this.storedByteLength = facts.storedByteLength ?? facts.byteLength;
    this.file = facts.file;
    this.#reader = reader;
  }

  get elementCount(): number {
    let count = 1;
    for (const dimension of this.shape) count *= dimension;
    return count;
  }

  /** The same bytes under another name, type or shape. The caller has checked that the sizes agree. */
  with(change: Partial<Pick<TensorFacts, "name" | "dtype" | "shape">>): Tensor {
    const { name, dtype, shape, byteLength, offset, storedByteLength, file } = this;
    return new Tensor(
      { name, dtype, shape, byteLength, offset, storedByteLength, file, ...change },
      {
        source: () => this.source(),
      },
    );
  }

  /** The tensor's bytes as a separate Source. */
  source(): OpenSource {
    return disposable(this.#reader.source(this));
  }

  /** All bytes, as stored in the model view: little-endian, row-major. */
  bytes(options?: ReadOptions): Promise<Bytes> {
    return this.#reader.source(this).read(0, this.byteLength, options);
  }

  /** The bytes in order; a piece is valid until the next one is requested. */
  stream(options?: StreamOptions): AsyncIterable<Bytes> {
    return this.source().stream(0, { byteLength: this.byteLength, ...options });
  }

  /** Rows `start` … `end` of the outermost dimension as a new tensor; nothing is read yet. */
  rows(start: number, end: number = start + 1): Tensor {
    const total = rowCount(this.shape);
    if (!Number.isSafeInteger(start) || !Number.isSafeInteger(end) || start < 0 || end < start || end > total) {
      const message = `Cannot take rows ${start}:${end} of "${this.name}": it has rows 0:${total}`;
      throw new UsageError("usage/rows", message, { source: this.file ?? this.name });
    }
    const rowBytes = this.#rowBytes(total);
    const within = { offset: start * rowBytes, byteLength: (end - start) * rowBytes };
    const reader: TensorReader = { source: () => sliceSource(this.source(), within.offset, within.byteLength) };
    return new Tensor(
      {
        name: this.name,
        dtype: this.dtype,
        shape: [end - start, ...this.shape.slice(1)],
        byteLength: within.byteLength,
        offset: this.offset + (this.storedByteLength === this.byteLength ? within.offset : 0),
        file: this.file,
      },
      reader,
    );
  }

  /** The values as float32: exact for F16, BF16 and fp8, rounded for F64 and wide integers. */
  toFloat32(options?: ReadOptions): Promise<Float32Array<ArrayBuffer>> {
    return tensorValues(this, options);
  }

  /** True if blocks cross the ends of rows, or if one scale comes before all of them. */
  #isFlat(): boolean {
    const uneven = unevenLayout(this);
    if (uneven === undefined || uneven.rows > 1) return false;
    const rowElements = this.elementCount / rowCount(this.shape);
    return uneven.headBytes > 0 || rowElements % uneven.blockElements !== 0;
  }

  #rowBytes(total: number): number {
    const facts = dtypeFacts(this.dtype);
    const whole = total === 0 ? 0 : this.byteLength / total;
    // A one-dimensional block tensor has rows of one element, which are not whole bytes.
    const rowIsWhole =
      Number.isInteger(whole) && (facts.layout === "plain" || this.shape.length > 1) && !this.#isFlat();
    if (rowIsWhole || total <= 1) return whole;
    const message = `Cannot cut "${this.name}" by rows: a row of ${this.dtype} is not a whole number of stored bytes`;
    throw new UsageError("usage/rows", message, { source: this.file ?? this.name });
  }
}

/** All values of a tensor as float32: see `Tensor.toFloat32`. */
async function tensorValues(tensor: Tensor, options?: ReadOptions): Promise<Float32Array<ArrayBuffer>> {
  const at = { source: tensor.file ?? tensor.name };
  const uneven = unevenLayout(tensor);
  if (uneven === undefined) return convertToFloat32(tensor.dtype, await tensor.bytes(options), at);
  const floats = new UnevenSource(tensor.source(), uneven);
  return convertToFloat32("F32", await floats.read(0, floats.byteLength, { signal: options?.signal }), at);
}

/**
 * The same values as float32 if the stored ones are not one run of whole blocks; otherwise the tensor itself. Code that
 * works on values piece by piece calls this first.
 */
export function evenTensor(tensor: Tensor): Tensor {
  const layout = unevenLayout(tensor);
  if (layout === undefined) return tensor;
  const { name, shape, offset, storedByteLength, file, elementCount } = tensor;
  const facts = { name, dtype: "F32" as const, shape, byteLength: 4 * elementCount, offset, storedByteLength, file };
  return new Tensor(facts, { source: () => new UnevenSource(tensor.source(), layout) });
}

/**
 * The tensors under the names that `nameOf` gives; a tensor without a new name keeps its own. If two tensors could get
 * one name, a tensor that already has it keeps it; otherwise the first one gets it.
 */
export function renamedTensors(
  tensors: readonly Tensor[],
  nameOf: (name: string) => string | undefined,
): readonly Tensor[] {
  const taken = new Set(tensors.map(({ name }) => name));
  return tensors.map((tensor) => {
    const name = nameOf(tensor.name);
    if (name === undefined || taken.has(name)) return tensor;
    taken.add(name);
    return tensor.with({ name });
  });
}

/** The offset after the last stored byte. */
export function storedEnd({ offset, storedByteLength }: Tensor): number {
  return offset + storedByteLength;
}
