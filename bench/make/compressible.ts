import { createCipheriv } from "node:crypto";
import { open } from "node:fs/promises";
import { writeFully } from "./keystream.ts";

const PIECE_BYTES = 4 << 20;
const WORDS = "model layers attention weight bias norm embed proj query key value 0 1 2 . _".split(" ");

/**
 * Weights that compress to about half: in turn blocks of 64 bytes of which half are padding, meaningless words, and
 * rows that repeat one of the last few. Written as one SafeTensors file of U8 tensors, so that every tool can read it.
 */
export async function makeCompressible(path: string, tensors: number, tensorBytes: number): Promise<void> {
  const entries: Record<string, object> = {};
  for (let i = 0; i < tensors; i++) {
    const data_offsets = [i * tensorBytes, (i + 1) * tensorBytes];
    entries[`layers.${String(i).padStart(3, "0")}.weight`] = { dtype: "U8", shape: [tensorBytes], data_offsets };
  }
  const json = Buffer.from(JSON.stringify(entries));
  const header = Buffer.alloc(8 + Math.ceil(json.length / 8) * 8, " ");
  header.writeBigUInt64LE(BigInt(header.length - 8), 0);
  json.copy(header, 8);
  const file = await open(path, "w");
  try {
    await writeFully(file, header, 0);
    const noise = createCipheriv("aes-128-ctr", Buffer.alloc(16, 7), Buffer.alloc(16));
    const total = tensors * tensorBytes;
    for (let at = 0, turn = 0; at < total; at += PIECE_BYTES, turn++) {
      const random = noise.update(Buffer.alloc(Math.min(PIECE_BYTES, total - at)));
      const fill = [padHalf, fillWords, repeatRows][turn % 3] as (random: Buffer) => Buffer;
      await writeFully(file, fill(random), header.length + at);
    }
  } finally {
    await file.close();
  }
}

function padHalf(random: Buffer): Buffer {
  for (let at = 32; at < random.length; at += 64) random.fill(0, at, at + 32);
  return random;
}

function fillWords(random: Buffer): Buffer {
  const text: string[] = [];
  let length = 0;
  for (let i = 0; length < random.length; i++) {
    const word = WORDS[(random[i % random.length] as number) & 15] as string;
    text.push(word);
    length += word.length;
  }
  return Buffer.from(text.join("").slice(0, random.length));
}

function repeatRows(random: Buffer): Buffer {
  const ROW = 256;
  for (let at = 16 * ROW; at + ROW <= random.length; at += 2 * ROW) {
    const back = (1 + ((random[at] as number) & 15)) * ROW;
    random.copyWithin(at, at - back, at - back + ROW);
  }
  return random;
}
