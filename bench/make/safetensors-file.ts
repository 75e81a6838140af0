import { open } from "node:fs/promises";
import { Keystream, writeFully } from "./keystream.ts";

export interface TensorPlan {
  readonly name: string;
  /** Outermost dimension first. */
  readonly shape: readonly number[];
}

/** "holes" leaves the tensors unwritten, for jobs that only read the header; "bytes" fills them. */
export type TensorContent = "holes" | "bytes";

/**
 * Writes BF16 tensors one after the other: u64 header length, JSON padded with spaces to a multiple of 8, data. Follows
 * the format's description, independently of tare's writer.
 */
export async function makeSafetensorsFile(
  path: string,
  tensors: readonly TensorPlan[],
  content: TensorContent,
): Promise<void> {
  const { json, byteLength } = headerOf(tensors);
  const prefix = Buffer.alloc(8);
  prefix.writeBigUInt64LE(BigInt(json.length));
  const file = await open(path, "w");
  try {
    await writeFully(file, prefix, 0);
    await writeFully(file, json, 8);
    await file.truncate(8 + json.length + byteLength);
    if (content === "bytes") await new Keystream().write(file, 8 + json.length, byteLength);
  } finally {
    await file.close();
  }
}

function headerOf(tensors: readonly TensorPlan[]): { json: Buffer; byteLength: number } {
  const entries = ['"__metadata__":{"format":"pt"}'];
  let offset = 0;
  for (const { name, shape } of tensors) {
    const end = shape.reduce((product, dimension) => product * dimension, 2) + offset;
    const value = { dtype: "BF16", shape, data_offsets: [offset, end] };
    entries.push(`${JSON.stringify(name)}:${JSON.stringify(value)}`);
    offset = end;
  }
  const text = `{${entries.join(",")}}`;
  const json = Buffer.from(text.padEnd(Math.ceil(text.length / 8) * 8), "latin1");
  return { json, byteLength: offset };
}
