/** Dimensions in row-major order, outermost first, in every format. Rank 0 is one element. */
export type Shape = readonly number[];

export function equalShapes(a: Shape, b: Shape): boolean {
  return a.length === b.length && a.every((dimension, i) => dimension === b[i]);
}

/** "[2048, 128]"; rank 0 is "[]". */
export function formatShape(shape: Shape): string {
  return `[${shape.join(", ")}]`;
}

/** A "row" is one index of the outermost dimension; a rank-0 tensor is one row. */
export function rowCount(shape: Shape): number {
  return shape[0] ?? 1;
}
