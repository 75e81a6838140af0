import type { Tensor } from "../model/tensor.ts";
import { readValues } from "./read-values.ts";

/** How far two tensors of one shape are apart. */
export interface Delta {
  readonly maxAbs: number;
  readonly meanAbs: number;
  /** Cosine of the angle between the two as vectors; null where one of them is zero. */
  readonly cosine: number | null;
  readonly differing: number;
}

/** NaN against NaN is no difference; NaN against a number is an infinite one. */
export async function measureDelta(
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

/** One value after the other from pieces whose lengths need not match the other side's. */
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
