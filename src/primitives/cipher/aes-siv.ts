import { type Bytes, concatBytes } from "../../base/bytes.ts";
import { UsageError } from "../../base/errors.ts";
import type { Steps } from "../../base/turns.ts";
import { equalSecrets } from "../crypto/hmac.ts";
import type { Engine } from "../engine.ts";
import { AES_BLOCK_BYTES, AES_KEY_BYTES, type AesBlocks, applyCounter, CounterStream, countFromEnd } from "./aes.ts";

/** AES-SIV puts this many bytes before the ciphertext: tag and nonce in one. */
const SIV_TAG_BYTES = AES_BLOCK_BYTES;
/** Half for CMAC, half for the counter (RFC 5297 §2.2). */
export const SIV_KEY_BYTES = 2 * AES_KEY_BYTES;

/**
 * A key of AES-256-SIV (RFC 5297), ready for many messages. The same message always gives the same bytes. Components
 * are only authenticated; an empty component counts too.
 */
export interface AesSivKey {
  seal(plain: Bytes, components: readonly Bytes[]): Bytes;
  /** Undefined if the tag does not match: then no part of the message is returned. */
  open(sealed: Bytes, components: readonly Bytes[]): Bytes | undefined;
  /** The same for what may be long. */
  opening(sealed: Bytes, components: readonly Bytes[]): Steps<Bytes | undefined>;
  wipe(): void;
}

/** What is worked on between two steps of `opening`. */
const PIECE_BYTES = 4096 * AES_BLOCK_BYTES;

/** A function over the engine's AES. The key of 64 bytes is copied. */
export async function aesSiv(engine: Pick<Engine, "aesBlocks">, key: Bytes): Promise<AesSivKey> {
  if (key.byteLength !== SIV_KEY_BYTES) {
    const message = `Cannot use AES-SIV: the key must have ${SIV_KEY_BYTES} bytes, found ${key.byteLength}`;
    throw new UsageError("usage/aes.siv", message, { source: "engine" });
  }
  const mac = new Cmac(await engine.aesBlocks(key.subarray(0, AES_KEY_BYTES)));
  const cipher = await engine.aesBlocks(key.subarray(AES_KEY_BYTES));
  return {
    seal(plain, components) {
      const tag = mac.of(lastMessage(mac, components, plain));
      return concatBytes([tag, applyCounter(cipher, plain, firstCounter(tag), countFromEnd)]);
    },
    open(sealed, components) {
      if (sealed.byteLength < SIV_TAG_BYTES) return undefined;
      const tag = sealed.subarray(0, SIV_TAG_BYTES);
      const plain = applyCounter(cipher, sealed.subarray(SIV_TAG_BYTES), firstCounter(tag), countFromEnd);
      return proven(plain, mac.of(lastMessage(mac, components, plain)), tag);
    },
    *opening(sealed, components) {
      if (sealed.byteLength < SIV_TAG_BYTES) return undefined;
      const tag = sealed.subarray(0, SIV_TAG_BYTES);
      const stream = new CounterStream(cipher, firstCounter(tag), countFromEnd);
      const plain = new Uint8Array(sealed.byteLength - SIV_TAG_BYTES);
      for (let at = 0; at < plain.byteLength; at += PIECE_BYTES) {
        const piece = sealed.subarray(SIV_TAG_BYTES + at, SIV_TAG_BYTES + at + PIECE_BYTES);
        plain.set(stream.apply(piece), at);
        yield piece.byteLength / AES_BLOCK_BYTES;
      }
      return proven(plain, yield* mac.steps(lastMessage(mac, components, plain)), tag);
    },
    wipe() {
      mac.wipe();
      cipher.wipe();
    },
  };
}

function proven(plain: Bytes, sum: Bytes, tag: Bytes): Bytes | undefined {
  if (equalSecrets(sum, tag)) return plain;
  plain.fill(0);
  return undefined;
}

/** RFC 5297 §2.6: two bits of the tag are cleared, so that 32-bit additions never carry. */
function firstCounter(tag: Bytes): Bytes {
  const counter = tag.slice();
  counter[8] = (counter[8] as number) & 0x7f;
  counter[12] = (counter[12] as number) & 0x7f;
  return counter;
}

/** S2V of RFC 5297 §2.4, up to its last CMAC: what that is made of. */
function lastMessage(mac: Cmac, components: readonly Bytes[], plain: Bytes): Bytes {
  const sum = mac.of(new Uint8Array(AES_BLOCK_BYTES));
  for (const component of components) {
    double(sum);
    add(sum, mac.of(component), 0);
  }
  if (plain.byteLength >= AES_BLOCK_BYTES) {
    const last = plain.slice();
    add(last, sum, plain.byteLength - AES_BLOCK_BYTES);
    return last;
  }
  double(sum);
  add(sum, padded(plain), 0);
  return sum;
}

/** CMAC of NIST SP 800-38B, also RFC 4493. */
class Cmac {
  readonly #blocks: AesBlocks;
  /** For messages that end with a whole block, and for others. */
  readonly #whole: Bytes;
  readonly #cut: Bytes;

  constructor(blocks: AesBlocks) {
    this.#blocks = blocks;
    this.#whole = blocks.encrypt(new Uint8Array(AES_BLOCK_BYTES));
    double(this.#whole);
    this.#cut = this.#whole.slice();
    double(this.#cut);
  }

  /** `before` is what the blocks before these came to. */
  of(message: Bytes, before?: Bytes): Bytes {
    const isWhole = message.byteLength > 0 && message.byteLength % AES_BLOCK_BYTES === 0;
    const chained = new Uint8Array(Math.max(1, Math.ceil(message.byteLength / AES_BLOCK_BYTES)) * AES_BLOCK_BYTES);
    chained.set(message);
    if (!isWhole) chained[message.byteLength] = 0x80;
    add(chained, isWhole ? this.#whole : this.#cut, chained.byteLength - AES_BLOCK_BYTES);
    if (before !== undefined) add(chained, before, 0);
    return this.#blocks.chain(chained);
  }

  *steps(message: Bytes): Steps<Bytes> {
    let state: Bytes = new Uint8Array(AES_BLOCK_BYTES);
    let at = 0;
    for (; at + PIECE_BYTES < message.byteLength; at += PIECE_BYTES) {
      const piece = message.slice(at, at + PIECE_BYTES);
      add(piece, state, 0);
      state = this.#blocks.chain(piece);
      yield PIECE_BYTES / AES_BLOCK_BYTES;
    }
    return this.of(message.subarray(at), state);
  }

  wipe(): void {
    this.#blocks.wipe();
    this.#whole.fill(0);
    this.#cut.fill(0);
  }
}

/** Times x in GF(2^128), big-endian (RFC 5297 §2.3). Its time does not depend on the value. */
function double(block: Bytes): void {
  const carry = (block[0] as number) >>> 7;
  for (let i = 0; i < AES_BLOCK_BYTES; i++) {
    block[i] = (((block[i] as number) << 1) | ((block[i + 1] ?? 0) >>> 7)) & 0xff;
  }
  block[15] = (block[15] as number) ^ (0x87 & -carry);
}

function add(target: Bytes, block: Bytes, at: number): void {
  for (let i = 0; i < AES_BLOCK_BYTES; i++) target[at + i] = (target[at + i] as number) ^ (block[i] as number);
}

function padded(bytes: Bytes): Bytes {
  const block = new Uint8Array(AES_BLOCK_BYTES);
  block.set(bytes);
  block[bytes.byteLength] = 0x80;
  return block;
}
