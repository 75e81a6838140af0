import { createCipheriv } from "node:crypto";
import { open } from "node:fs/promises";
import { writeFully } from "./keystream.ts";

const PIECE = 1 << 20;
/** Each tensor of 8 MiB: bf16, rows of 2048. */
const TENSOR_BYTES = 8 << 20;

/** A SafeTensors file of 512 MiB: normally distributed bf16, as trained weights are, in 64 tensors. */
export async function makeWeights(path: string): Promise<void> {
  const entries = Array.from({ length: 64 }, (_, i) => {
    const place = [i * TENSOR_BYTES, (i + 1) * TENSOR_BYTES];
    return [`model.layers.${i}.weight`, { dtype: "BF16", shape: [2048, 2048], data_offsets: place }] as const;
  });
  const json = JSON.stringify(Object.fromEntries(entries));
  const text = json.padEnd(Math.ceil(json.length / 8) * 8);
  const header = Buffer.alloc(8 + text.length);
  header.writeBigUInt64LE(BigInt(text.length));
  header.write(text, 8);
  const file = await open(path, "w");
  try {
    await writeFully(file, header, 0);
    const noise = createCipheriv("aes-128-ctr", Buffer.alloc(16, 9), Buffer.alloc(16));
    for (let at = 0; at < 64 * TENSOR_BYTES; at += 2 * PIECE) {
      await writeFully(file, normalBf16(noise.update(Buffer.alloc(8 * PIECE))), header.length + at);
    }
  } finally {
    await file.close();
  }
}

/** Box-Muller over the random bytes. Keeps the upper half of each float32. */
function normalBf16(random: Buffer): Uint8Array {
  const uniform = new Uint32Array(new Uint8Array(random).buffer);
  const floats = new Float32Array(uniform.length / 2);
  for (let i = 0; i < floats.length; i++) {
    const radius = Math.sqrt(-2 * Math.log(((uniform[2 * i] as number) + 1) / 0x1_0000_0000));
    floats[i] = 0.02 * radius * Math.cos((2 * Math.PI * (uniform[2 * i + 1] as number)) / 0x1_0000_0000);
  }
  const bits = new Uint32Array(floats.buffer);
  return new Uint8Array(Uint16Array.from(bits, (value) => value >>> 16).buffer);
}
