/** Elements per row if a tensor of one dimension is shown as a plane. */
const WRAPPED_COLUMNS = 256;

/** Two dimensions of a tensor; `start` is its first element. */
export interface Plane {
  readonly rows: number;
  readonly columns: number;
  readonly start: number;
}

/** The plane of the last two dimensions at the given indices of the others. A single dimension is wrapped into rows. */
export function planeOf(shape: readonly number[], leading: readonly number[]): Plane {
  if (shape.length < 2) {
    const count = shape[0] ?? 1;
    const columns = Math.max(1, Math.min(count, WRAPPED_COLUMNS));
    return { rows: Math.ceil(count / columns), columns, start: 0 };
  }
  const rows = shape.at(-2) ?? 1;
  const columns = shape.at(-1) ?? 1;
  let index = 0;
  for (let i = 0; i < shape.length - 2; i++) index = index * (shape[i] ?? 1) + (leading[i] ?? 0);
  return { rows, columns, start: index * rows * columns };
}

/** Up to `most` positions of `count` from `first` on, evenly spread. */
export function sampleAxis(first: number, count: number, most: number): Uint32Array {
  const taken = Math.max(0, Math.min(count, most));
  return Uint32Array.from({ length: taken }, (_, i) => first + Math.floor(((i + 0.5) * count) / taken));
}
