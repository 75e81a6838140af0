import { type Cipher, createCipheriv } from "node:crypto";
import type { FileHandle } from "node:fs/promises";

/** node:crypto is several times slower if one call makes many megabytes. */
const PIECE = 1 << 20;
const ZEROS = Buffer.alloc(PIECE);

/**
 * Reproducible bytes that do not repeat or compress: the AES-128-CTR keystream of an all-zero key. So a block copied to
 * the wrong place is noticed. It makes about a gigabyte per second.
 */
export class Keystream {
  readonly #cipher: Cipher = createCipheriv("aes-128-ctr", Buffer.alloc(16), Buffer.alloc(16));

  /** Writes the next `byteLength` bytes at `offset`, with at most 1 MiB of them in memory. */
  async write(file: FileHandle, offset: number, byteLength: number): Promise<void> {
    for (let done = 0; done < byteLength; done += PIECE) {
      const piece = this.#cipher.update(ZEROS.subarray(0, Math.min(PIECE, byteLength - done)));
      await writeFully(file, piece, offset + done);
    }
  }
}

/** Writes every byte: a single `write` may take fewer. */
export async function writeFully(file: FileHandle, bytes: Uint8Array, offset: number): Promise<void> {
  for (let done = 0; done < bytes.length; ) {
    done += (await file.write(bytes, done, bytes.length - done, offset + done)).bytesWritten;
  }
}
