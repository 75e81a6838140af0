import type { Bytes } from "../base/bytes.ts";
import { lengthError } from "./http-errors.ts";
import type { Exchange } from "./http-exchange.ts";
import type { ReadOptions } from "./source.ts";

/** A reply whose body several reads may take, one after the other. */
export class LongReply {
  readonly exchange: Exchange;
  /** True where the body can be left in the middle and gone on with. */
  readonly canPause: boolean;
  readonly #label: string;
  #left: number;

  /** `promised`: bytes that the body must have. */
  constructor(exchange: Exchange, promised: number, label: string) {
    this.exchange = exchange;
    this.canPause = exchange.canFill(promised);
    this.#label = label;
    this.#left = promised;
  }

  /** Bytes of the body that nobody has taken; 0 where it was given up. */
  get left(): number {
    return this.#left;
  }

  /** Fills `target`, which is not longer than what is left. */
  async receive(target: Bytes, onBytes: ReadOptions["onBytes"]): Promise<void> {
    if (!this.canPause) return this.#receiveOnce(target, onBytes);
    await this.exchange.fill(target, onBytes);
    this.#left -= target.byteLength;
  }

  /** What is behind the bytes that are wanted is dropped. */
  async #receiveOnce(target: Bytes, onBytes: ReadOptions["onBytes"]): Promise<void> {
    const promised = this.#left;
    this.#left = 0;
    let received = 0;
    const add = (piece: Bytes): void => {
      if (received + piece.byteLength > promised) throw lengthError(this.#label, promised, "more");
      const part = piece.subarray(0, target.byteLength - received);
      target.set(part, received);
      received += part.byteLength;
      onBytes?.(part.byteLength);
    };
    if (promised === target.byteLength) await this.exchange.each(add);
    else {
      for await (const piece of this.exchange.body()) {
        add(piece);
        if (received === target.byteLength) break;
      }
    }
    if (received < target.byteLength) throw lengthError(this.#label, promised, String(received));
  }
}
