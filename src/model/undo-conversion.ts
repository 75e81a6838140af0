import type { Bytes } from "../base/bytes.ts";
import { UnsupportedError } from "../base/errors.ts";
import { ComputedSource } from "../bytes/derived.ts";
import { checkRange } from "../bytes/extents.ts";
import type { ReadOptions, Source } from "../bytes/source.ts";
import { dtypeFacts } from "./dtype.ts";
import { FloatSource } from "./float-source.ts";
import { formatShape } from "./shape.ts";
import { Tensor } from "./tensor.ts";
import { convertToFloat32 } from "./values.ts";

/** What llama.cpp's converter does to the values of a checkpoint, undone as they are read. */

/**
 * The rows of an attention projection in the order of the checkpoint. Rotary embeddings turn pairs of rows: llama.cpp
 * keeps the two of a pair side by side, checkpoints keep the first ones of a head before the second ones. Rows move as a
 * whole, so blocks of quantised values stay as they are.
 */
export function unpairedRows(tensor: Tensor, heads: number): Tensor {
  const { name, dtype, shape, byteLength, offset, storedByteLength, file } = tensor;
  const [rows = 0] = shape;
  const facts = dtypeFacts(dtype);
  const isWhole =
    facts.layout === "plain"
      ? facts.bits % 8 === 0
      : facts.layout === "block" && shape.length === 2 && (shape.at(-1) ?? 0) % facts.blockElements === 0;
  const headRows = rows / heads;
  if (!isWhole || shape.length < 1 || shape.length > 2 || headRows % 2 !== 0 || headRows === 0) {
    throw refusal(tensor, `its ${dtype} ${formatShape(shape)} is not made of ${heads} heads with pairs of rows`);
  }
  if (byteLength === 0) return tensor;
  const order = { rowBytes: byteLength / rows, headRows };
  if (order.rowBytes * headRows > MAX_HEAD_BYTES) throw refusal(tensor, "a head is too large to put its rows in order");
  const turned = { name, dtype, shape, byteLength, offset, storedByteLength, file };
  return new Tensor(turned, { source: () => new UnpairedSource(tensor.source(), order) });
}

/** Norms as Gemma's checkpoints hold them: what they add to one. As F32, so that nothing more is rounded. */
export function lessOne(tensor: Tensor): Tensor {
  const { name, dtype, shape, offset, storedByteLength, file, elementCount } = tensor;
  if (dtype !== "F32" && dtype !== "F16" && dtype !== "BF16")
    throw refusal(tensor, `one cannot be taken from ${dtype}`);
  const facts = { name, dtype: "F32" as const, shape, byteLength: 4 * elementCount, offset, storedByteLength, file };
  return new Tensor(facts, { source: () => new LessOneSource(tensor) });
}

/** The longest head that is held while its rows are put in order; 256 rows of 16,384 floats are a quarter of it. */
const MAX_HEAD_BYTES = 64 << 20;
/** Heads that are read together. */
const READ_BYTES = 4 << 20;

interface RowOrder {
  readonly rowBytes: number;
  readonly headRows: number;
}

class UnpairedSource extends ComputedSource {
  readonly #inner: Source;
  readonly #order: RowOrder;
  readonly #unitBytes: number;
  /** The heads that were put in order last: copying asks for pieces of them one after the other. */
  #held: { readonly start: number; readonly bytes: Bytes } | undefined;

  constructor(inner: Source, order: RowOrder) {
    const headBytes = order.rowBytes * order.headRows;
    const unitBytes = headBytes * Math.max(1, Math.floor(READ_BYTES / headBytes));
    super({ label: inner.label, byteLength: inner.byteLength, pieceBytes: unitBytes });
    this.#inner = inner;
    this.#order = order;
    this.#unitBytes = unitBytes;
  }

  async read(offset: number, byteLength: number, options: ReadOptions = {}): Promise<Bytes> {
    checkRange(this.label, this.byteLength, offset, byteLength);
    const result = options.into ?? new Uint8Array(byteLength);
    const end = offset + byteLength;
    for (let position = offset; position < end; ) {
      const start = position - (position % this.#unitBytes);
      const unit = await this.#unit(start, options.signal);
      const piece = unit.subarray(position - start, Math.min(unit.byteLength, end - start));
      result.set(piece, position - offset);
      position += piece.byteLength;
    }
    return result;
  }

  async #unit(start: number, signal: AbortSignal | undefined): Promise<Bytes> {
    if (this.#held?.start === start) return this.#held.bytes;
    const byteLength = Math.min(this.#unitBytes, this.byteLength - start);
    const bytes = unpair(await this.#inner.read(start, byteLength, { signal }), this.#order);
    this.#held = { start, bytes };
    return bytes;
  }
}

/** Row 2j + s of a head becomes its row s · (rows / 2) + j. */
function unpair(stored: Bytes, { rowBytes, headRows }: RowOrder): Bytes {
  const ordered = new Uint8Array(stored.byteLength);
  const half = headRows / 2;
  for (let row = 0; row * rowBytes < stored.byteLength; row++) {
    const within = row % headRows;
    const place = row - within + (within % 2) * half + Math.floor(within / 2);
    ordered.set(stored.subarray(row * rowBytes, (row + 1) * rowBytes), place * rowBytes);
  }
  return ordered;
}

class LessOneSource extends FloatSource {
  readonly #tensor: Tensor;
  readonly #inner: Source;

  constructor(tensor: Tensor) {
    const inner = tensor.source();
    super({ label: inner.label, elementCount: tensor.elementCount });
    this.#tensor = tensor;
    this.#inner = inner;
  }

  protected async values(
    first: number,
    last: number,
    signal: AbortSignal | undefined,
  ): Promise<Float32Array<ArrayBuffer>> {
    const { dtype, name } = this.#tensor;
    const itemBytes = dtype === "F32" ? 4 : 2;
    const bytes = await this.#inner.read(first * itemBytes, (last - first) * itemBytes, { signal });
    const values = convertToFloat32(dtype, bytes, { source: this.label, path: name });
    for (let i = 0; i < values.length; i++) values[i] = (values[i] as number) - 1;
    return values;
  }
}

function refusal({ name, file }: Tensor, why: string): UnsupportedError {
  const message = `Cannot make "${name}" what the checkpoint has: ${why}`;
  return new UnsupportedError("unsupported/rename", message, { source: file ?? name, path: name });
}
