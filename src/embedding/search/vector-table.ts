/** Vectors of one dimension, one after the other in one buffer. */
export class VectorTable {
  readonly dimension: number;
  readonly count: number;
  /** `count` × `dimension` values. */
  readonly values: Float32Array<ArrayBuffer>;

  constructor(dimension: number, values: Float32Array<ArrayBuffer>) {
    this.dimension = dimension;
    this.values = values;
    this.count = dimension === 0 ? 0 : values.length / dimension;
  }

  /** Room for `count` vectors of zeros. */
  static allocate(dimension: number, count: number): VectorTable {
    return new VectorTable(dimension, new Float32Array(dimension * count));
  }

  /** A view: writing to it writes to the table. */
  row(index: number): Float32Array<ArrayBuffer> {
    return this.values.subarray(index * this.dimension, (index + 1) * this.dimension);
  }
}
