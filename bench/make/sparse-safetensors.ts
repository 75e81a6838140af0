import { open } from "node:fs/promises";
import { writeFully } from "./keystream.ts";

const TENSOR_BYTES = 200e6;

/** A SafeTensors file of about `byteLength` bytes. Its weights are holes, so it takes little room on disk. */
export async function makeSparseSafetensors(path: string, byteLength: number): Promise<void> {
  const count = Math.ceil(byteLength / TENSOR_BYTES);
  const members = Array.from({ length: count }, (_, i) => {
    const entry = { dtype: "F16", shape: [TENSOR_BYTES / 2], data_offsets: [i * TENSOR_BYTES, (i + 1) * TENSOR_BYTES] };
    return [`model.layers.${i}.weight`, entry] as const;
  });
  const header = Buffer.from(JSON.stringify(Object.fromEntries(members)));
  const front = Buffer.alloc(8 + header.byteLength);
  front.writeBigUInt64LE(BigInt(header.byteLength));
  header.copy(front, 8);
  const file = await open(path, "w");
  try {
    await writeFully(file, front, 0);
    await file.truncate(front.byteLength + count * TENSOR_BYTES);
  } finally {
    await file.close();
  }
}
