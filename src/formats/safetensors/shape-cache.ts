import type { Shape } from "../../model/shape.ts";

/** A power of two; models have a few dozen shapes for thousands of tensors. */
const SLOTS = 64;

/** Hands out one array for equal shapes that come close together: fewer objects, less work for the collector. */
export class ShapeCache {
  readonly #slots: (Shape | undefined)[] = new Array<Shape | undefined>(SLOTS).fill(undefined);

  /** The first `rank` dimensions as a shape of its own. */
  get(dimensions: readonly number[], rank: number): Shape {
    let hash = rank;
    for (let i = 0; i < rank; i++) hash = (Math.imul(hash, 31) + (dimensions[i] as number)) | 0;
    const slot = (hash ^ (hash >>> 8)) & (SLOTS - 1);
    const cached = this.#slots[slot];
    if (cached !== undefined && isSame(cached, dimensions, rank)) return cached;
    const shape = dimensions.slice(0, rank);
    this.#slots[slot] = shape;
    return shape;
  }
}

function isSame(shape: Shape, dimensions: readonly number[], rank: number): boolean {
  if (shape.length !== rank) return false;
  for (let i = 0; i < rank; i++) if (shape[i] !== dimensions[i]) return false;
  return true;
}
