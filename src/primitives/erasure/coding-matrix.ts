import type { Bytes } from "../../base/bytes.ts";
import { invertGf256, multiplyGf256, powerGf256 } from "./gf256.ts";

/**
 * One row for each shard: what it is made of. The Vandermonde matrix, whose row r has r^0, r^1, …, times the inverse of
 * its top square; so the first rows are those of the identity, and any `dataShards` rows can be inverted.
 */
export function codingMatrix(dataShards: number, parityShards: number): Bytes[] {
  const vandermonde = Array.from({ length: dataShards + parityShards }, (_, r) =>
    Uint8Array.from({ length: dataShards }, (_, c) => powerGf256(r, c)),
  );
  const inverse = invertMatrix(vandermonde.slice(0, dataShards));
  return vandermonde.map((row) => {
    const product = new Uint8Array(dataShards);
    row.forEach((factor, i) => {
      addRow(product, inverse[i] as Bytes, factor);
    });
    return product;
  });
}

/** What each data shard is made of, in terms of the shards that are there: as many as there are data shards. */
export function decodingRows(matrix: readonly Bytes[], present: readonly number[]): Bytes[] {
  return invertMatrix(present.map((index) => matrix[index] as Bytes));
}

/** Gauss and Jordan's elimination; the matrix is known to have an inverse. */
function invertMatrix(matrix: readonly Bytes[]): Bytes[] {
  const size = matrix.length;
  const rows = matrix.map((row, i) => {
    const wide = new Uint8Array(2 * size);
    wide.set(row);
    wide[size + i] = 1;
    return wide;
  });
  for (let column = 0; column < size; column++) {
    const pivot = rows.findIndex((row, i) => i >= column && row[column] !== 0);
    const row = rows[pivot] as Bytes;
    rows[pivot] = rows[column] as Bytes;
    rows[column] = row;
    const factor = invertGf256(row[column] as number);
    row.forEach((value, i) => {
      row[i] = multiplyGf256(value, factor);
    });
    rows.forEach((other, i) => {
      if (i !== column) addRow(other, row, other[column] as number);
    });
  }
  return rows.map((row) => row.slice(size));
}

function addRow(to: Bytes, from: Bytes, factor: number): void {
  if (factor === 0) return;
  for (let i = 0; i < to.length; i++) to[i] = (to[i] as number) ^ multiplyGf256(from[i] as number, factor);
}
