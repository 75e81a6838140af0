import type { Bytes } from "../../base/bytes.ts";
import { parseReplyHead, type ReplyHead } from "./direct-reply.ts";

/** Longest head that is read here; servers send less than a kilobyte. */
const MAX_HEAD_BYTES = 32 << 10;
const NOTHING = Buffer.alloc(0);

/** A head that is complete, and where the body begins in what was given last. */
export interface FoundHead {
  /** Undefined where it is too long, or more than that of a body of known length. */
  readonly head: ReplyHead | undefined;
  readonly bodyStart: number;
}

/** Puts the heads of replies together, one after the other. */
export class ReplyHeads {
  /** The beginning of a head whose rest has not come. */
  #begun: Buffer = NOTHING;

  /** Undefined while the head is incomplete. */
  add(bytes: Bytes): FoundHead | undefined {
    const before = this.#begun.byteLength;
    // Most heads come at once, with much of the body behind them.
    const come = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    const all = before === 0 ? come : Buffer.concat([this.#begun, come]);
    const end = all.indexOf("\r\n\r\n", Math.max(0, before - 3));
    if (end < 0 && all.byteLength <= MAX_HEAD_BYTES) {
      // The socket writes there again.
      this.#begun = before === 0 ? Buffer.from(come) : all;
      return undefined;
    }
    this.#begun = NOTHING;
    const head = end < 0 ? undefined : parseReplyHead(all.toString("latin1", 0, end));
    return { head, bodyStart: end + 4 - before };
  }
}
