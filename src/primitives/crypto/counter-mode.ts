import type { Bytes } from "../../base/bytes.ts";
import { AES_BLOCK_BYTES, type AesBlocks } from "./aes-blocks.ts";

/** Counter blocks that are enciphered together: enough that a call costs nothing, little enough for the cache. */
const WINDOW_BYTES = 1 << 16;

/** Where the next counter block comes from: adds one to the number that 16 bytes stand for. */
export type Increment = (counter: Bytes) => void;

/** As NIST SP 800-38A and RFC 5297 count: the last byte first. */
export const countFromEnd: Increment = (counter) => {
  for (let i = AES_BLOCK_BYTES - 1; i >= 0; i--) {
    counter[i] = ((counter[i] as number) + 1) & 0xff;
    if (counter[i] !== 0) return;
  }
};

/** As WinZip counts: the first byte first. */
export const countFromStart: Increment = (counter) => {
  for (let i = 0; i < AES_BLOCK_BYTES; i++) {
    counter[i] = ((counter[i] as number) + 1) & 0xff;
    if (counter[i] !== 0) return;
  }
};

/** Adds the key stream that begins with this counter block; the same again takes it away. A new buffer. */
export function applyCounter(blocks: AesBlocks, bytes: Bytes, first: Bytes, increment: Increment): Bytes {
  const result = new Uint8Array(bytes.byteLength);
  const counter = first.slice();
  const counters = new Uint8Array(
    Math.min(WINDOW_BYTES, Math.ceil(bytes.byteLength / AES_BLOCK_BYTES) * AES_BLOCK_BYTES),
  );
  for (let at = 0; at < bytes.byteLength; at += WINDOW_BYTES) {
    const end = Math.min(at + WINDOW_BYTES, bytes.byteLength);
    const room = counters.subarray(0, Math.ceil((end - at) / AES_BLOCK_BYTES) * AES_BLOCK_BYTES);
    for (let i = 0; i < room.byteLength; i += AES_BLOCK_BYTES) {
      room.set(counter, i);
      increment(counter);
    }
    const stream = blocks.encrypt(room);
    for (let i = at; i < end; i++) result[i] = (bytes[i] as number) ^ (stream[i - at] as number);
  }
  return result;
}
