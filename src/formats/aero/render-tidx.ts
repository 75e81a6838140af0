import type { Bytes } from "../../base/bytes.ts";
import { encodeHex } from "../../base/hex.ts";
import type { Json } from "../../model/origin.ts";
import type { Shape } from "../../model/shape.ts";
import { MsgpackWriter } from "../../primitives/encoding/msgpack-writer.ts";
import { type StoredPairs, writePairs } from "./chunks/further-keys.ts";
import { HASH_BYTES } from "./layout.ts";

/** One entry of the tensor index, as TIDX spells it (spec, "TIDX Schema"). */
export interface TensorRow {
  readonly name: string;
  /** dtype id. */
  readonly dtype: number;
  readonly shape: Shape;
  readonly shardId: number;
  /** From the start of the shard. */
  readonly dataOff: number;
  readonly dataLen: number;
  /** Place in the MJSN's `quant_descriptors`; packed tensors only. */
  readonly quantId?: number | undefined;
  /** Bytes are MessagePack as it is to be written. */
  readonly quantParams?: { readonly [key: string]: Json } | Bytes | undefined;
  /** Keys that the specification does not name. */
  readonly further?: StoredPairs | undefined;
}

const NO_HASH: Bytes = new Uint8Array(HASH_BYTES);

/** The TIDX payload before compression; `hashes` are the tensors' BLAKE3-256, in the order of the rows. */
export function encodeTensorIndex(
  rows: readonly TensorRow[],
  hashes?: readonly (Bytes | undefined)[],
  further?: StoredPairs,
): Bytes {
  const writer = new MsgpackWriter();
  writeRoot(writer, rows.length, further);
  rows.forEach((row, i) => {
    writeRow(writer, row, hashes?.[i]);
  });
  return writer.take();
}

/** The length that `encodeTensorIndex` will have: digests are hex of fixed length, so they need not be known yet. */
export function measureTensorIndex(
  rows: readonly TensorRow[],
  kind: "plain" | "hashed",
  further?: StoredPairs,
): number {
  const writer = new MsgpackWriter();
  writeRoot(writer, rows.length, further);
  let byteLength = writer.take().byteLength;
  for (const row of rows) {
    writeRow(writer, row, kind === "hashed" ? NO_HASH : undefined);
    byteLength += writer.take().byteLength;
  }
  return byteLength;
}

/** Further keys come first, so that the entries are the end of the map. */
function writeRoot(writer: MsgpackWriter, count: number, further: StoredPairs | undefined): void {
  writer.map(1 + (further?.count ?? 0));
  writePairs(writer, further);
  writer.string("tensors");
  writer.array(count);
}

/** Keys in the order of the reference writer; `hash_b3` is always the last one. */
function writeRow(writer: MsgpackWriter, row: TensorRow, hash: Bytes | undefined): void {
  const { name, dtype, shape, shardId, dataOff, dataLen, quantId, quantParams, further } = row;
  const optional = [quantId, quantParams, hash].filter((item) => item !== undefined).length;
  const flags = further?.flags === undefined ? 1 : 0;
  writer.map(6 + flags + optional + (further?.count ?? 0));
  writer.string("name");
  writer.string(name);
  writeNumber(writer, "dtype", dtype);
  writer.string("shape");
  writer.array(shape.length);
  for (const dimension of shape) writer.uint(dimension);
  writeNumber(writer, "shard_id", shardId);
  writeNumber(writer, "data_off", dataOff);
  writeNumber(writer, "data_len", dataLen);
  if (flags > 0) writeNumber(writer, "flags", 0);
  writePairs(writer, further);
  if (quantId !== undefined) writeNumber(writer, "quant_id", quantId);
  if (quantParams !== undefined) {
    writer.string("quant_params");
    if (quantParams instanceof Uint8Array) writer.encoded(quantParams);
    else writeJson(writer, quantParams);
  }
  if (hash !== undefined) {
    writer.string("hash_b3");
    writer.string(encodeHex(hash));
  }
}

function writeNumber(writer: MsgpackWriter, key: string, value: number): void {
  writer.string(key);
  writer.uint(value);
}

function writeJson(writer: MsgpackWriter, value: Json): void {
  if (value === null) writer.nil();
  else if (typeof value === "boolean") writer.bool(value);
  else if (typeof value === "string") writer.string(value);
  else if (typeof value === "number") {
    if (Number.isSafeInteger(value)) writer.int(value);
    else writer.float64(value);
  } else if (isList(value)) {
    writer.array(value.length);
    for (const item of value) writeJson(writer, item);
  } else {
    const members = Object.entries(value);
    writer.map(members.length);
    for (const [key, item] of members) {
      writer.string(key);
      writeJson(writer, item);
    }
  }
}

function isList(value: readonly Json[] | { readonly [key: string]: Json }): value is readonly Json[] {
  return Array.isArray(value);
}
