import type { Bytes } from "../../base/bytes.ts";
import { IntegrityError } from "../../base/errors.ts";
import { printable } from "../../base/text.ts";
import { AES_BLOCK_BYTES, type AesBlocks } from "../../primitives/cipher/aes.ts";
import { type ContentContext, type EntryContent, STEP_BYTES } from "./entry-content.ts";
import type { PasswordProof } from "./password-proof.ts";
import { applyWinzip, wipeEntryKeys } from "./winzip-aes.ts";

/** The plain bytes of one file, of which none is given out before all of its ciphertext was authenticated. */
export class EntryReader {
  readonly content: EntryContent;
  readonly #context: ContentContext;
  readonly #proof: PasswordProof;
  #blocks: AesBlocks | undefined;

  constructor(content: EntryContent, context: ContentContext, proof: PasswordProof) {
    this.content = content;
    this.#context = context;
    this.#proof = proof;
  }

  get method(): "stored" | "deflated" {
    return this.content.row.aes?.method ?? "stored";
  }

  /** The plain bytes `from` … `to`, in pieces; a deflated file is inflated from its start. */
  async *read(from: number, to: number, signal: AbortSignal | undefined): AsyncGenerator<Bytes> {
    const blocks = await this.#open(signal);
    const whole = from === 0 && to === this.content.row.size;
    const pieces = this.method === "stored" ? this.#decipher(blocks, from, to, signal) : this.#inflate(blocks, signal);
    let position = this.method === "stored" ? from : 0;
    let crc = 0;
    for await (const piece of pieces) {
      if (whole) crc = await this.#context.engine.crc32(piece, crc);
      const wanted = piece.subarray(Math.max(from - position, 0), Math.max(to - position, 0));
      position += piece.byteLength;
      if (wanted.byteLength > 0) yield wanted;
      if (position >= to && !whole) return;
    }
    if (position < to) throw this.#sizeFault(position);
    if (whole) this.#checkCrc(crc);
  }

  wipe(): void {
    this.#blocks?.wipe();
    this.#blocks = undefined;
  }

  /** Each caller with its own signal: one that is aborted must not fail the others. */
  async #open(signal: AbortSignal | undefined): Promise<AesBlocks> {
    const known = this.#blocks;
    if (known !== undefined) return known;
    const blocks = await this.#authenticate(signal);
    return this.#keep(blocks);
  }

  /** Of two callers that were as quick, the first one's: it is in use. */
  #keep(blocks: AesBlocks): AesBlocks {
    if (this.#blocks === undefined) this.#blocks = blocks;
    else blocks.wipe();
    return this.#blocks;
  }

  async #authenticate(signal: AbortSignal | undefined): Promise<AesBlocks> {
    const { content } = this;
    const password = await this.#proof.get();
    const keys = await content.keysFor(password, signal);
    const start = await content.cipherOffset();
    if (keys === undefined) {
      throw content.damage("its salt or verifier is damaged: the password opens other entries, not this one", start);
    }
    try {
      if (!(await content.isAuthentic(keys, signal))) {
        throw content.damage("its HMAC must match, and does not", start + content.cipherBytes);
      }
      return await this.#context.engine.aesBlocks(keys.cipher);
    } finally {
      wipeEntryKeys(keys);
    }
  }

  /** Deciphered bytes of the range, which begins in a block and ends in one. */
  async *#decipher(
    blocks: AesBlocks,
    from: number,
    to: number,
    signal: AbortSignal | undefined,
  ): AsyncGenerator<Bytes> {
    const start = await this.content.cipherOffset();
    for (let at = from - (from % AES_BLOCK_BYTES); at < to; at += STEP_BYTES) {
      const stored = await this.#context.source.read(start + at, Math.min(STEP_BYTES, to - at), { signal });
      const plain = applyWinzip(blocks, stored, at / AES_BLOCK_BYTES);
      yield plain.subarray(Math.max(from - at, 0));
    }
  }

  async *#inflate(blocks: AesBlocks, signal: AbortSignal | undefined): AsyncGenerator<Bytes> {
    const { content } = this;
    const inflate = await this.#context.engine.inflater();
    const at = { source: content.label, offset: await content.cipherOffset() };
    const options = { maxBytes: content.row.size, at };
    yield* inflate(this.#decipher(blocks, 0, content.cipherBytes, signal), options);
  }

  #sizeFault(found: number): Error {
    const { content } = this;
    const problem = `it must have ${content.row.size} bytes, found ${found}`;
    return content.fault("format/aerovault1.size", problem, content.row.at);
  }

  /** AE-1 keeps a CRC beside the HMAC: it tells of a writer that was wrong, not of damage. */
  #checkCrc(found: number): void {
    const { row, label } = this.content;
    if (row.aes?.version !== 1 || row.crc === found) return;
    const message = `Cannot trust "${printable(row.path)}" of the vault: its CRC-32 must be that of its bytes, and is not`;
    throw new IntegrityError("integrity/aerovault1.crc", message, { source: label, offset: row.localOffset });
  }
}
