import type { Bytes } from "../base/bytes.ts";
import { lengthError } from "./http-errors.ts";
import type { Exchange } from "./http-exchange.ts";
import { allocateFor } from "./read-guard.ts";

/** What is set aside for a body of unknown length before any of it has come. */
const START_BYTES = 256 << 10;

/** The whole body, which must have exactly this many bytes. */
export async function readExactly(exchange: Exchange, byteLength: number, label: string): Promise<Bytes> {
  const target = allocateFor(byteLength, label);
  let done = 0;
  for await (const piece of exchange.body()) {
    if (done + piece.byteLength > byteLength) throw lengthError(label, byteLength, "more");
    target.set(piece, done);
    done += piece.byteLength;
  }
  if (done < byteLength) throw lengthError(label, byteLength, String(done));
  return target;
}

/** The first bytes of a longer body; the rest is left. */
export async function readFront(exchange: Exchange, byteLength: number, label: string): Promise<Bytes> {
  const front = await readUpTo(exchange, byteLength, label);
  if (front.byteLength < byteLength) throw lengthError(label, byteLength, String(front.byteLength));
  return front;
}

/** The body, or its first `maxBytes` where it is longer. Memory grows with what arrives, not with the limit. */
export async function readUpTo(exchange: Exchange, maxBytes: number, label: string): Promise<Bytes> {
  let target = allocateFor(Math.min(maxBytes, START_BYTES), label);
  let done = 0;
  for await (const piece of exchange.body()) {
    const part = piece.subarray(0, maxBytes - done);
    if (done + part.byteLength > target.byteLength) {
      const larger = allocateFor(Math.min(maxBytes, Math.max(2 * target.byteLength, done + part.byteLength)), label);
      larger.set(target.subarray(0, done));
      target = larger;
    }
    target.set(part, done);
    done += part.byteLength;
    if (done === maxBytes) break;
  }
  return target.slice(0, done);
}
