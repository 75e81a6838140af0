import { type Bytes, concatBytes } from "../../../base/bytes.ts";
import type { GcmKey } from "../../../primitives/cipher/aes.ts";
import {
  NONCE_PREFIX_BYTES,
  SEGMENT_BYTES,
  type SealedTensor,
  segmentContext,
  segmentNonce,
  tensorContext,
} from "./segments.ts";

export interface SealerFacts {
  readonly key: GcmKey;
  readonly tensor: SealedTensor;
  /** Never the same for two tensors of a file. */
  readonly prefix: Bytes;
  /** Where sealed bytes go. */
  readonly emit: (bytes: Bytes) => Promise<void>;
}

/** Seals a tensor's bytes as they come. A full segment waits until it is known whether another one follows. */
export class TensorSealer {
  readonly #facts: SealerFacts;
  readonly #context: Bytes;
  readonly #held: Bytes = new Uint8Array(SEGMENT_BYTES);
  #heldLength = 0;
  #number = 0;

  constructor(facts: SealerFacts) {
    this.#facts = facts;
    this.#context = tensorContext(facts.tensor);
  }

  async append(bytes: Bytes): Promise<void> {
    for (let done = 0; done < bytes.byteLength; ) {
      if (this.#heldLength === SEGMENT_BYTES) await this.#seal("inner");
      const part = bytes.subarray(done, done + SEGMENT_BYTES - this.#heldLength);
      this.#held.set(part, this.#heldLength);
      this.#heldLength += part.byteLength;
      done += part.byteLength;
    }
  }

  /** Seals the last segment; a tensor without bytes has none. */
  async finish(): Promise<void> {
    if (this.#heldLength > 0) await this.#seal("last");
    this.#held.fill(0);
  }

  async #seal(place: "inner" | "last"): Promise<void> {
    const { key, prefix, emit } = this.#facts;
    const number = this.#number++;
    const nonce = segmentNonce(prefix, number, place);
    const plain = this.#held.subarray(0, this.#heldLength);
    const sealed = await key.seal(nonce, plain, segmentContext(this.#context, number));
    this.#heldLength = 0;
    await emit(number === 0 ? concatBytes([prefix.subarray(0, NONCE_PREFIX_BYTES), sealed]) : sealed);
  }
}
