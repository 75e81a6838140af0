import { type Bytes, EMPTY_BYTES } from "../../../base/bytes.ts";
import { FormatError, IntegrityError, type Location } from "../../../base/errors.ts";
import { printable } from "../../../base/text.ts";
import { allocateFor, ReadGuard } from "../../../bytes/layers/base.ts";
import { isSlice } from "../../../bytes/slice.ts";
import type { ReadOptions, Source, StreamOptions } from "../../../bytes/source.ts";
import type { GcmKey } from "../../../primitives/cipher/aes.ts";
import {
  NONCE_PREFIX_BYTES,
  openedByteLength,
  SEALED_SEGMENT_BYTES,
  SEGMENT_BYTES,
  type SealedTensor,
  segmentContext,
  segmentNonce,
  tensorContext,
} from "./segments.ts";

/** Segments of one read. */
const WINDOW_SEGMENTS = 16;

/** A file whose password was right and whose front matter is authentic. */
export interface Unlocked {
  readonly key: GcmKey;
  readonly fileId: Bytes;
}

/** A tensor's sealed bytes and how to open them. */
export interface UnsealFacts {
  /** Nonce prefix and segments. */
  readonly stored: Source;
  readonly unlock: () => Promise<Unlocked>;
  readonly tensor: Omit<SealedTensor, "fileId">;
  /** What opening must give; unknown for compressed tensors. */
  readonly expectedLength: number | undefined;
}

/** A segment, opened. */
interface Segment {
  readonly number: number;
  readonly bytes: Bytes;
}

/** What a segment has of a run that begins in it. */
function partOf({ number, bytes }: Segment, offset: number, byteLength: number): Bytes {
  const from = offset - number * SEGMENT_BYTES;
  return bytes.subarray(from, from + byteLength);
}

/** The bytes of an encrypted tensor. Reads and opens only the segments asked for; nothing unauthenticated comes out. */
export class UnsealedSource implements Source {
  readonly label: string;
  readonly byteLength: number;
  readonly #facts: UnsealFacts;
  readonly #guard: ReadGuard;
  #prefix: Promise<Bytes> | undefined;
  /** The segment that was opened last: short reads in a row open each one once. */
  #last: Segment | undefined;

  constructor(facts: UnsealFacts) {
    const { stored, tensor, expectedLength } = facts;
    const byteLength = openedByteLength(stored.byteLength);
    if (byteLength === undefined || (expectedLength !== undefined && byteLength !== expectedLength)) {
      const wanted = expectedLength === undefined ? "whole segments" : `sealed bytes for ${expectedLength}`;
      const message = `Cannot decrypt tensor "${printable(tensor.name)}": its size must be that of ${wanted}, found ${stored.byteLength}`;
      throw new FormatError("format/apr.sealed-size", message, { source: stored.label, path: tensor.name });
    }
    this.#facts = facts;
    this.label = stored.label;
    this.byteLength = byteLength;
    this.#guard = new ReadGuard(this.label, byteLength);
  }

  async read(offset: number, byteLength: number, options: ReadOptions = {}): Promise<Bytes> {
    this.#guard.checkRead(offset, byteLength, options);
    if (byteLength === 0) return options.into ?? EMPTY_BYTES;
    const target = options.into ?? allocateFor(byteLength, this.label);
    for (let done = 0; done < byteLength; ) {
      const segments = await this.#open(offset + done, byteLength - done, options.signal);
      for (const segment of segments) {
        const part = partOf(segment, offset + done, byteLength - done);
        target.set(part, done);
        done += part.byteLength;
      }
      this.#last = segments.at(-1);
    }
    return target;
  }

  async *stream(offset: number, options: StreamOptions = {}): AsyncGenerator<Bytes> {
    const byteLength = this.#guard.checkStream(offset, options);
    for (let done = 0; done < byteLength; ) {
      const segments = await this.#open(offset + done, byteLength - done, options.signal);
      for (const segment of segments) {
        const part = partOf(segment, offset + done, byteLength - done);
        done += part.byteLength;
        yield segment === this.#last ? part.slice() : part;
        options.signal?.throwIfAborted();
        this.#guard.checkOpen();
      }
    }
  }

  close(): Promise<void> {
    this.#guard.close();
    return Promise.resolve();
  }

  /** The segments that begin the run, as many as one read brings. */
  async #open(offset: number, byteLength: number, signal: AbortSignal | undefined): Promise<readonly Segment[]> {
    const first = Math.floor(offset / SEGMENT_BYTES);
    if (this.#last?.number === first) return [this.#last];
    const { key, fileId } = await this.#facts.unlock();
    const until = Math.min(Math.ceil((offset + byteLength) / SEGMENT_BYTES), first + WINDOW_SEGMENTS);
    const start = NONCE_PREFIX_BYTES + first * SEALED_SEGMENT_BYTES;
    const end = Math.min(NONCE_PREFIX_BYTES + until * SEALED_SEGMENT_BYTES, this.#facts.stored.byteLength);
    const [prefix, sealed] = await this.#fetch(start, end, signal);
    const context = tensorContext({ ...this.#facts.tensor, fileId });
    const opened: Segment[] = [];
    for (let number = first; number < until; number++) {
      const at = (number - first) * SEALED_SEGMENT_BYTES;
      const segment = sealed.subarray(at, at + SEALED_SEGMENT_BYTES);
      const place = (number + 1) * SEGMENT_BYTES >= this.byteLength ? "last" : "inner";
      const nonce = segmentNonce(prefix, number, place);
      const bytes = await key.open(nonce, segment, segmentContext(context, number));
      if (bytes === undefined) throw this.#damaged(number, start + at);
      opened.push({ number, bytes });
    }
    this.#last = opened.at(-1);
    return opened;
  }

  /** The prefix comes with the first segment, or in a read of its own. */
  async #fetch(start: number, end: number, signal: AbortSignal | undefined): Promise<readonly [Bytes, Bytes]> {
    const { stored } = this.#facts;
    if (start === NONCE_PREFIX_BYTES) {
      const both = await stored.read(0, end, { signal });
      const prefix = both.slice(0, NONCE_PREFIX_BYTES);
      this.#prefix ??= Promise.resolve(prefix);
      return [prefix, both.subarray(NONCE_PREFIX_BYTES)];
    }
    this.#prefix ??= stored.read(0, NONCE_PREFIX_BYTES, { signal }).then(
      (bytes) => bytes.slice(),
      (error: unknown) => {
        this.#prefix = undefined;
        throw error;
      },
    );
    return Promise.all([this.#prefix, stored.read(start, end - start, { signal })]);
  }

  #damaged(number: number, at: number): IntegrityError {
    const { stored, tensor } = this.#facts;
    const message = `Cannot decrypt tensor "${printable(tensor.name)}": segment ${number} was changed after it was encrypted`;
    const offset = (isSlice(stored) ? stored.start : 0) + at;
    const location: Location = { source: stored.label, offset, path: `"${printable(tensor.name)}".segment[${number}]` };
    return new IntegrityError("integrity/apr.segment", message, location, { hint: "Get another copy of the file" });
  }
}
