import { open } from "node:fs/promises";
import { writeFully } from "./keystream.ts";

const TENSORS = 320;
const TENSOR_BYTES = 32 << 20;

/**
 * An APR v2 of 10 GB in the layout of the specification, without its tensors' bytes: header, metadata of 12 kB, index,
 * holes, footer. A reader of the metadata needs neither of the last two.
 */
export async function makeSparseApr(path: string): Promise<{ readonly metadataBytes: number }> {
  const notes = Array.from({ length: 200 }, (_, i) => `note ${i} about how this model was trained and with what`);
  const metadata = Buffer.from(
    JSON.stringify({ apr_version: "2.0.0", model_type: "bench", architecture: { layers: TENSORS }, notes }),
  );
  const index = indexOf();
  const indexOffset = 32 + metadata.length;
  const dataOffset = Math.ceil((indexOffset + index.length) / 64) * 64;
  const fileBytes = dataOffset + TENSORS * TENSOR_BYTES + 16;
  const header = Buffer.alloc(32);
  header.write("APR2", 0, "latin1");
  header.writeUInt16LE(2, 4);
  header.writeUInt32LE(2, 8); // ALIGNED_64
  for (const [i, value] of [32, metadata.length, indexOffset, index.length, dataOffset].entries()) {
    header.writeUInt32LE(value, 12 + 4 * i);
  }
  const footer = Buffer.alloc(16);
  footer.write("2RPA", 4, "latin1");
  footer.writeBigUInt64LE(BigInt(fileBytes), 8);
  const file = await open(path, "w");
  try {
    await writeFully(file, Buffer.concat([header, metadata, index]), 0);
    await writeFully(file, footer, fileBytes - 16);
  } finally {
    await file.close();
  }
  return { metadataBytes: indexOffset };
}

function indexOf(): Buffer {
  const head = Buffer.alloc(8);
  head.writeUInt32LE(TENSORS, 0);
  const entries = Array.from({ length: TENSORS }, (_, i) => {
    const name = Buffer.from(`layers.${String(i).padStart(3, "0")}.weight`);
    const entry = Buffer.alloc(32 + name.length + 8);
    entry.writeUInt16LE(name.length, 0);
    name.copy(entry, 2);
    let at = 2 + name.length;
    entry.writeUInt8(7, at); // U8
    entry.writeUInt8(1, at + 1);
    at += 2;
    for (const value of [TENSOR_BYTES, i * TENSOR_BYTES, TENSOR_BYTES, 0]) {
      entry.writeBigUInt64LE(BigInt(value), at);
      at += 8;
    }
    return entry;
  });
  return Buffer.concat([head, ...entries]);
}
