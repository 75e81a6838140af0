import { open } from "node:fs/promises";

/** A file of bytes that do not compress. */
export async function makeNoise(path: string, byteLength: number): Promise<void> {
  const piece = new Uint8Array(1 << 20);
  const handle = await open(path, "w");
  try {
    for (let done = 0; done < byteLength; done += piece.byteLength) {
      for (let i = 0; i < piece.byteLength; i += 65_536) crypto.getRandomValues(piece.subarray(i, i + 65_536));
      await handle.write(piece, 0, Math.min(piece.byteLength, byteLength - done));
    }
  } finally {
    await handle.close();
  }
}
