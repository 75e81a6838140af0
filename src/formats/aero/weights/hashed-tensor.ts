import { type Bytes, EMPTY_BYTES } from "../../../base/bytes.ts";
import { IntegrityError, isTareError, LimitError } from "../../../base/errors.ts";
import { encodeHex, printable } from "../../../base/text.ts";
import { allocateFor, deliver, ReadGuard } from "../../../bytes/layers/base.ts";
import type { Spool } from "../../../bytes/sink.ts";
import { runOf, type SliceSource, sliceSource, type WithinSource } from "../../../bytes/slice.ts";
import { PIECE_BYTES, type ReadOptions, type Source, type StreamOptions } from "../../../bytes/source.ts";
import type { Tensor, TensorReader } from "../../../model/tensor.ts";
import type { Engine } from "../../../primitives/engine.ts";

/** Local tensors up to this length are read once and checked in memory; longer ones are hashed in place, then read. */
const WHOLE_BYTES = 8 << 20;

/** A tensor with its own digest, which checks it. */
interface HashedTensor {
  readonly name: string;
  /** `data_len` bytes, padding included: the digest covers them. */
  readonly stored: Source;
  /** Their offset in the file. */
  readonly offset: number;
  /** 64 lower-case hex digits. */
  readonly hash: string;
  readonly engine: Engine;
  /** Most bytes of a remote tensor to hold for checking. */
  readonly maxBytes: number;
  /** Takes longer tensors; without it they are refused. */
  readonly spool?: Spool | undefined;
  /** Its shard, if that has page digests: for callers that read all of the tensor. */
  readonly paged?: TensorReader | undefined;
}

/**
 * Hands out a tensor's bytes only after all of them are found right: the digest covers the whole tensor, so the first
 * read of any part reads it all. Later reads go straight to the file.
 */
export class HashedTensorReader implements TensorReader {
  readonly #tensor: HashedTensor;
  #state: "unchecked" | "checked" = "unchecked";
  #checking: Promise<void> | undefined;
  /** The checked copy of a remote tensor that is too long for memory. */
  #copy: Source | undefined;

  constructor(tensor: HashedTensor) {
    this.#tensor = tensor;
  }

  source(tensor: Tensor): Source {
    const { stored, paged } = this.#tensor;
    return new HashedSource(this, sliceSource(stored, 0, tensor.byteLength), () => paged?.source(tensor));
  }

  get isChecked(): boolean {
    return this.#state === "checked";
  }

  /** The source of the checked bytes: the copy if there is one, else `plain`. */
  checkedSource(plain: Source): Source {
    return this.#copy === undefined ? plain : sliceSource(this.#copy, 0, plain.byteLength, plain.label);
  }

  /** The checked bytes if they fit in memory; undefined if they were checked without being kept. */
  async check(signal: AbortSignal | undefined): Promise<Bytes | undefined> {
    const { stored, engine, maxBytes, spool } = this.#tensor;
    const { byteLength } = stored;
    const isLocal = stored.descriptor !== undefined;
    if (byteLength > (isLocal ? WHOLE_BYTES : maxBytes)) {
      if (!isLocal && spool === undefined) throw this.#tooLong(maxBytes);
      await this.#checkInPlace(signal);
      return undefined;
    }
    const into = allocateFor(byteLength, stored.label);
    const bytes = byteLength === 0 ? EMPTY_BYTES : await stored.read(0, byteLength, { into, signal });
    this.#compare(await engine.digest("blake3", bytes));
    return bytes;
  }

  /** Several readers of one tensor wait for the same pass; if the first reader gives up, the next one starts over. */
  async #checkInPlace(signal: AbortSignal | undefined): Promise<void> {
    const waiting = this.#checking;
    this.#checking ??= this.#hashInPlace(signal).finally(() => {
      this.#checking = undefined;
    });
    try {
      await this.#checking;
    } catch (error) {
      if (waiting === undefined || isTareError(error)) throw error;
      signal?.throwIfAborted();
      await this.#checkInPlace(signal);
    }
  }

  async #hashInPlace(signal: AbortSignal | undefined): Promise<void> {
    const { stored, engine, spool } = this.#tensor;
    const { byteLength } = stored;
    if (stored.descriptor === undefined && spool !== undefined) return this.#spoolChecked(spool, signal);
    this.#compare(await engine.digestRange("blake3", stored, { offset: 0, byteLength, signal }));
  }

  /** Downloads once: hashes on the way to the disk, and reads from there once the digest is right. */
  async #spoolChecked(spool: Spool, signal: AbortSignal | undefined): Promise<void> {
    const { stored, engine } = this.#tensor;
    const hasher = await engine.hasher("blake3");
    const hashed = async function* (): AsyncGenerator<Bytes> {
      for await (const piece of stored.stream(0, { signal })) {
        hasher.update(piece);
        yield piece;
      }
    };
    const copy = await spool(hashed(), { label: stored.label, signal });
    try {
      this.#compare(hasher.digest());
    } catch (error) {
      await copy.close();
      throw error;
    }
    this.#copy = copy;
  }

  #compare(found: Bytes): void {
    const { name, hash, stored, offset } = this.#tensor;
    const hex = encodeHex(found);
    if (hex !== hash)
      throw tensorError({ name, label: stored.label, offset, byteLength: stored.byteLength, hash }, hex);
    this.#state = "checked";
  }

  #tooLong(maxBytes: number): LimitError {
    const { name, stored, offset } = this.#tensor;
    const message = `Cannot check "${printable(name)}" before reading from it: its ${stored.byteLength} bytes must be <= ${maxBytes}`;
    return new LimitError(
      "limit/aero.verify-bytes",
      message,
      { source: stored.label, offset, path: name },
      { hint: "Raise the limit aero.verifyBytes, or download the file first; page hashes avoid this" },
    );
  }
}

/** The error for a tensor that does not match its `hash_b3`. */
export function tensorError(
  tensor: {
    readonly name: string;
    readonly label: string;
    readonly offset: number;
    readonly byteLength: number;
    readonly hash: string;
  },
  found: string,
): IntegrityError {
  const { name, label, offset, byteLength, hash } = tensor;
  const where = `bytes ${offset} to ${offset + byteLength}`;
  const message = `Tensor "${printable(name)}" is damaged: BLAKE3 of ${where} must be ${hash}, found ${found}`;
  return new IntegrityError(
    "integrity/aero.tensor-hash",
    message,
    { source: label, offset, byteLength, path: name },
    {
      hint: "Download the file again",
    },
  );
}

class HashedSource implements WithinSource {
  readonly label: string;
  readonly byteLength: number;
  readonly #reader: HashedTensorReader;
  readonly #plain: Source;
  readonly #paged: () => Source | undefined;
  readonly #guard: ReadGuard;

  constructor(reader: HashedTensorReader, plain: Source, paged: () => Source | undefined) {
    this.#reader = reader;
    this.#plain = plain;
    this.#paged = paged;
    this.label = plain.label;
    this.byteLength = plain.byteLength;
    this.#guard = new ReadGuard(plain.label, plain.byteLength);
  }

  get within(): SliceSource | undefined {
    const paged = this.#paged();
    return paged === undefined ? undefined : runOf(paged);
  }

  async read(offset: number, byteLength: number, options: ReadOptions = {}): Promise<Bytes> {
    this.#guard.checkRead(offset, byteLength, options);
    if (this.byteLength === 0) return options.into ?? EMPTY_BYTES;
    const bytes = this.#reader.isChecked ? undefined : await this.#reader.check(options.signal);
    if (bytes !== undefined) return deliver(bytes.subarray(offset, offset + byteLength), options.into);
    if (byteLength === 0) return options.into ?? EMPTY_BYTES;
    return this.#reader.checkedSource(this.#plain).read(offset, byteLength, options);
  }

  async *stream(offset: number, options: StreamOptions = {}): AsyncGenerator<Bytes> {
    const byteLength = this.#guard.checkStream(offset, options);
    const bytes = this.#reader.isChecked ? undefined : await this.#reader.check(options.signal);
    if (bytes === undefined) {
      yield* this.#reader.checkedSource(this.#plain).stream(offset, { ...options, byteLength });
      return;
    }
    const end = offset + byteLength;
    for (let start = offset; start < end; start += PIECE_BYTES) {
      options.signal?.throwIfAborted();
      yield bytes.subarray(start, Math.min(start + PIECE_BYTES, end));
    }
  }

  /** The caller that opened the file closes it. */
  close(): Promise<void> {
    return Promise.resolve();
  }
}
