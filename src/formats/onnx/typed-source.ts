import { type Bytes, concatBytes } from "../../base/bytes.ts";
import type { Location } from "../../base/errors.ts";
import { ComputedSource } from "../../bytes/derived.ts";
import { checkRange, type Extent } from "../../bytes/extents.ts";
import type { ReadOptions, Source } from "../../bytes/source.ts";
import { decodeVarints, decodeVarints32, wrongCount } from "./varints.ts";

/** Where a list of varints is, and what its values become. */
export interface VarintList {
  readonly source: Source;
  readonly pieces: readonly Extent[];
  /** How many values there must be. */
  readonly count: number;
  /** Bytes of a value in memory: 1, 2, 4 or 8. */
  readonly itemBytes: number;
  readonly at: Location;
}

/** Pieces of a stream. */
const PIECE_BYTES = 1 << 20;

/** A tensor that the file holds number by number, as the little-endian bytes it would have in memory. Decoded when read. */
export class TypedSource extends ComputedSource {
  readonly #list: VarintList;
  #decoded: Promise<Bytes> | undefined;

  constructor(list: VarintList) {
    super({ label: list.source.label, byteLength: list.count * list.itemBytes, pieceBytes: PIECE_BYTES });
    this.#list = list;
  }

  async read(offset: number, byteLength: number, options: ReadOptions = {}): Promise<Bytes> {
    checkRange(this.label, this.byteLength, offset, byteLength);
    const found = (await this.#decode(options.signal)).subarray(offset, offset + byteLength);
    if (options.into === undefined) return found;
    options.into.set(found);
    return options.into;
  }

  #decode(signal: AbortSignal | undefined): Promise<Bytes> {
    this.#decoded ??= decodeList(this.#list, signal).catch((error: unknown) => {
      this.#decoded = undefined; // an aborted or failed read must not fail the next one
      throw error;
    });
    return this.#decoded;
  }
}

async function decodeList({ source, pieces, count, itemBytes, at }: VarintList, signal?: AbortSignal): Promise<Bytes> {
  const packed: Bytes[] = [];
  for (const { offset, byteLength } of pieces) packed.push(await source.read(offset, byteLength, { signal }));
  const bytes = packed.length === 1 && packed[0] !== undefined ? packed[0] : concatBytes(packed);
  const view = new DataView(new ArrayBuffer(count * itemBytes));
  if (itemBytes === 8) {
    const values = decodeVarints(bytes, at);
    if (values.length !== count) throw wrongCount(count, values.length, at);
    for (const [i, value] of values.entries()) view.setBigInt64(8 * i, value, true);
    return new Uint8Array(view.buffer);
  }
  const values = decodeVarints32(bytes, count, at);
  for (const [i, value] of values.entries()) {
    if (itemBytes === 4) view.setUint32(4 * i, value, true);
    else if (itemBytes === 2) view.setUint16(2 * i, value & 0xffff, true);
    else view.setUint8(i, value & 0xff);
  }
  return new Uint8Array(view.buffer);
}
