import type { Bytes } from "../../base/bytes.ts";
import { UsageError } from "../../base/errors.ts";
import { type Combine, invertGf256, multiplyGf256, powerGf256 } from "./gf256.ts";

/**
 * A Reed-Solomon erasure code over GF(2^8) modulo 0x11D with the systematic Vandermonde matrix (that of Backblaze,
 * klauspost and reed-solomon-erasure). Synchronous. All shards of a call have the same length.
 */
export interface ReedSolomon {
  readonly dataShards: number;
  readonly parityShards: number;
  /** Fills `parity`. Data shards that are undefined, or missing at the end of the list, are zeros. */
  encode(data: readonly (Bytes | undefined)[], parity: readonly Bytes[]): void;
  /**
   * Adds the contribution of data shard `index` to `parity`, which starts as zeros. After all shards, in any order, the
   * result is that of `encode`, with only one shard in memory at a time.
   */
  accumulate(index: number, shard: Bytes, parity: readonly Bytes[]): void;
  /**
   * Computes lost data shards. `shards` are all data shards, then all parity shards; lost ones are undefined. Shards of
   * zeros that are stored nowhere may share one buffer. `lost` maps the index of each wanted data shard to its buffer.
   * If fewer than `dataShards` are left, returns false and writes nothing.
   */
  reconstruct(shards: readonly (Bytes | undefined)[], lost: ReadonlyMap<number, Bytes>): boolean;
}

/** The number of elements of GF(2^8). Each shard needs its own element. */
const MAX_SHARDS = 256;

/** The code with these numbers of shards, on any implementation. */
export function reedSolomon(combine: Combine, dataShards: number, parityShards: number): ReedSolomon {
  const isCount = (value: number): boolean => Number.isSafeInteger(value) && value >= 1;
  if (!isCount(dataShards) || !isCount(parityShards) || dataShards + parityShards > MAX_SHARDS) {
    throw usage(
      `data and parity shards must be 1 or more and ${MAX_SHARDS} together, found ${dataShards} and ${parityShards}`,
    );
  }
  return new Code(combine, dataShards, parityShards);
}

class Code implements ReedSolomon {
  readonly dataShards: number;
  readonly parityShards: number;
  readonly #combine: Combine;
  readonly #matrix: readonly Bytes[];

  constructor(combine: Combine, dataShards: number, parityShards: number) {
    this.dataShards = dataShards;
    this.parityShards = parityShards;
    this.#combine = combine;
    this.#matrix = codingMatrix(dataShards, parityShards);
  }

  encode(data: readonly (Bytes | undefined)[], parity: readonly Bytes[]): void {
    if (data.length > this.dataShards || parity.length !== this.parityShards) {
      throw usage(
        `there must be up to ${this.dataShards} data and ${this.parityShards} parity shards, found ${data.length} and ${parity.length}`,
      );
    }
    checkLengths([...data, ...parity]);
    this.#combine({ rows: this.#matrix.slice(this.dataShards), inputs: data, outputs: parity, mode: "replace" });
  }

  accumulate(index: number, shard: Bytes, parity: readonly Bytes[]): void {
    if (!(index >= 0 && index < this.dataShards) || parity.length !== this.parityShards) {
      throw usage(
        `the shard must be one of ${this.dataShards} and the parity ${this.parityShards} shards, found shard ${index} and ${parity.length}`,
      );
    }
    checkLengths([shard, ...parity]);
    const rows = this.#matrix.slice(this.dataShards).map((row) => row.slice(index, index + 1));
    this.#combine({ rows, inputs: [shard], outputs: parity, mode: "add" });
  }

  reconstruct(shards: readonly (Bytes | undefined)[], lost: ReadonlyMap<number, Bytes>): boolean {
    checkLengths([...shards, ...lost.values()]);
    const present: number[] = [];
    for (let i = 0; i < this.#matrix.length && present.length < this.dataShards; i++) {
      if (shards[i] !== undefined && !lost.has(i)) present.push(i);
    }
    if (present.length < this.dataShards) return false;
    const inverse = decodingRows(this.#matrix, present);
    const rows = [...lost.keys()].map((index) => inverse[index]);
    if (rows.some((row) => row === undefined))
      throw usage(`only data shards, 0 to ${this.dataShards - 1}, can be asked for`);
    this.#combine({
      rows: rows as Bytes[],
      inputs: present.map((i) => shards[i]),
      outputs: [...lost.values()],
      mode: "replace",
    });
    return true;
  }
}

function checkLengths(shards: readonly (Bytes | undefined)[]): void {
  const lengths = new Set(shards.flatMap((shard) => (shard === undefined ? [] : [shard.byteLength])));
  if (lengths.size > 1) throw usage(`all shards must have one length, found ${[...lengths].join(" and ")} bytes`);
}

function usage(rule: string): UsageError {
  return new UsageError("usage/reed-solomon", `Cannot use a Reed-Solomon code: ${rule}`, { source: "engine" });
}

/** True if the answer of the reed-solomon-erasure crate's test comes out, and lost shards are restored. */
export function provesReedSolomon(combine: Combine): boolean {
  const code = reedSolomon(combine, 5, 5);
  const data = [0, 4, 2, 6, 8].map((value) => Uint8Array.of(value, value + 1));
  const parity = data.map(() => new Uint8Array(2));
  code.encode(data, parity);
  const expected = [12, 10, 14, 90, 94].map((value) => Uint8Array.of(value, value + 1));
  const isSame = (a: readonly Bytes[], b: readonly Bytes[]): boolean => `${a}` === `${b}`;
  if (!isSame(parity, expected)) return false;
  const lost = new Map([0, 1, 3, 4].map((index) => [index, new Uint8Array(2)]));
  const left = [...data, ...parity].map((shard, i) => (lost.has(i) || i === 6 ? undefined : shard));
  return code.reconstruct(left, lost) && [...lost].every(([index, shard]) => isSame([shard], [data[index] as Bytes]));
}

/**
 * One row for each shard: its factors for the data shards. It is the Vandermonde matrix, whose row r is r^0, r^1, …,
 * times the inverse of its top square. So the first rows are those of the identity, and any `dataShards` rows can be
 * inverted.
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

/** For each data shard, its factors for the present shards. There are as many of these as data shards. */
function decodingRows(matrix: readonly Bytes[], present: readonly number[]): Bytes[] {
  return invertMatrix(present.map((index) => matrix[index] as Bytes));
}

/** Gauss-Jordan elimination. The matrix is known to have an inverse. */
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
