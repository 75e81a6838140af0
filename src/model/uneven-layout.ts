import { type DType, dtypeFacts } from "./dtype.ts";
import type { Shape } from "./shape.ts";

/**
 * Values that are not one run of whole blocks: rows that are filled up to whole blocks, blocks that run over the ends of
 * rows and leave the last one partly used, a scale in front of everything.
 */
export interface UnevenLayout {
  readonly dtype: DType;
  /** Bytes before the first block. */
  readonly headBytes: number;
  readonly rows: number;
  readonly rowElements: number;
  /** Blocks that a row takes, the last one perhaps not full. */
  readonly rowBlocks: number;
  readonly blockElements: number;
  readonly blockBytes: number;
}

interface Stored {
  readonly dtype: DType;
  readonly shape: Shape;
  readonly byteLength: number;
}

/** Undefined for tensors whose bytes can be read from the first to the last, which nearly all are. */
export function unevenLayout({ dtype, shape, byteLength }: Stored): UnevenLayout | undefined {
  const elements = shape.reduce((product, dimension) => product * dimension, 1);
  const flat = { dtype, headBytes: 0, rows: 1, rowElements: elements };
  if (dtype === "APR_Q8") return { ...flat, headBytes: 4, rowBlocks: elements, blockElements: 1, blockBytes: 1 };
  if (dtype === "APR_Q4") {
    return { ...flat, rowBlocks: Math.ceil(elements / 32), blockElements: 32, blockBytes: 18 };
  }
  const facts = dtypeFacts(dtype);
  if (facts.layout !== "block" || elements === 0) return undefined;
  const { blockElements, blockBytes } = facts;
  const rowElements = shape.at(-1) ?? 1;
  if (rowElements % blockElements === 0) return undefined;
  const rows = elements / rowElements;
  const rowBlocks = Math.ceil(rowElements / blockElements);
  const block = { blockElements, blockBytes };
  if (rows * rowBlocks * blockBytes === byteLength)
    return { dtype, headBytes: 0, rows, rowElements, rowBlocks, ...block };
  const flatBlocks = Math.ceil(elements / blockElements);
  return flatBlocks * blockBytes === byteLength ? { ...flat, rowBlocks: flatBlocks, ...block } : undefined;
}
