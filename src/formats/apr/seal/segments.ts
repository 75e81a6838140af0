import { type Bytes, concatBytes, EMPTY_BYTES } from "../../../base/bytes.ts";
import { FormatError, IntegrityError, type Location } from "../../../base/errors.ts";
import { encodeUtf8, printable } from "../../../base/text.ts";
import { allocateFor, ReadGuard } from "../../../bytes/layers/base.ts";
import { isSlice } from "../../../bytes/slice.ts";
import type { ReadOptions, Source, StreamOptions } from "../../../bytes/source.ts";
import type { Shape } from "../../../model/dtype.ts";
import { GCM_NONCE_BYTES, GCM_TAG_BYTES, type GcmKey } from "../../../primitives/cipher/aes.ts";
import { ByteWriter } from "../../../struct/cursor.ts";

/** A tensor's stored bytes are cut into segments of this length; each is sealed by itself. */
const SEGMENT_BYTES = 64 << 10;
/** A full segment with its tag. */
export const SEALED_SEGMENT_BYTES = SEGMENT_BYTES + GCM_TAG_BYTES;
/** Random bytes before a tensor's segments: the first part of every nonce. */
export const NONCE_PREFIX_BYTES = 7;

/** Bytes in the file for a tensor whose packed or raw form has `byteLength`; none for an empty one. */
export function sealedByteLength(byteLength: number): number {
  if (byteLength === 0) return 0;
  return NONCE_PREFIX_BYTES + byteLength + Math.ceil(byteLength / SEGMENT_BYTES) * GCM_TAG_BYTES;
}

/** The inverse; undefined if no length gives this one. */
export function openedByteLength(sealed: number): number | undefined {
  if (sealed === 0) return 0;
  const body = sealed - NONCE_PREFIX_BYTES;
  const last = body % SEALED_SEGMENT_BYTES;
  // A last segment has at least one byte besides its tag.
  if (body <= GCM_TAG_BYTES || (last !== 0 && last <= GCM_TAG_BYTES)) return undefined;
  return body - Math.ceil(body / SEALED_SEGMENT_BYTES) * GCM_TAG_BYTES;
}

/** What the tag of every segment covers besides the segment, so that none fits another tensor, place or file. */
interface SealedTensor {
  readonly fileId: Bytes;
  readonly name: string;
  /** Type id. */
  readonly dtype: number;
  readonly shape: Shape;
  /** Bytes of the tensor itself, before compression. */
  readonly rawSize: number;
}

/** The bytes for everything except the segment's number, which comes last. */
function tensorContext({ fileId, name, dtype, shape, rawSize }: SealedTensor): Bytes {
  const nameBytes = encodeUtf8(name);
  const writer = new ByteWriter(fileId.byteLength + nameBytes.byteLength + 8 * shape.length + 12);
  writer.bytes(fileId);
  writer.u16(nameBytes.byteLength);
  writer.bytes(nameBytes);
  writer.u8(dtype);
  writer.u8(shape.length);
  for (const dimension of shape) writer.u64(dimension);
  writer.u64(rawSize);
  return writer.take();
}

/** The associated data of one segment: the tensor's context and the segment's number, u32 little-endian. */
function segmentContext(context: Bytes, number: number): Bytes {
  return concatBytes([context, u32(number)]);
}

/** 7 random bytes of the tensor, the segment's number, and 1 for the last segment, so that missing segments show. */
function segmentNonce(prefix: Bytes, number: number, place: "inner" | "last"): Bytes {
  const nonce = new Uint8Array(GCM_NONCE_BYTES);
  nonce.set(prefix);
  nonce.set(u32(number), NONCE_PREFIX_BYTES);
  nonce[GCM_NONCE_BYTES - 1] = place === "last" ? 1 : 0;
  return nonce;
}

function u32(value: number): Bytes {
  const bytes = new Uint8Array(4);
  new DataView(bytes.buffer).setUint32(0, value, true);
  return bytes;
}

interface SealerFacts {
  readonly key: GcmKey;
  readonly tensor: SealedTensor;
  /** Never the same for two tensors of a file. */
  readonly prefix: Bytes;
  /** Where sealed bytes go. */
  readonly emit: (bytes: Bytes) => Promise<void>;
}

/** Seals a tensor's bytes as they come. A full segment waits until it is clear whether another one follows. */
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

  /** Seals the last segment; an empty tensor has none. */
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

/** Segments of one read. */
const WINDOW_SEGMENTS = 16;

/** A file whose password was right and whose front matter is authentic. */
export interface Unlocked {
  readonly key: GcmKey;
  readonly fileId: Bytes;
}

/** A tensor's sealed bytes and how to open them. */
interface UnsealFacts {
  /** Nonce prefix and segments. */
  readonly stored: Source;
  readonly unlock: () => Promise<Unlocked>;
  readonly tensor: Omit<SealedTensor, "fileId">;
  /** The length that opening must give; unknown for compressed tensors. */
  readonly expectedLength: number | undefined;
}

/** A segment, opened. */
interface Segment {
  readonly number: number;
  readonly bytes: Bytes;
}

/** The part of the segment that belongs to a run that begins in it. */
function partOf({ number, bytes }: Segment, offset: number, byteLength: number): Bytes {
  const from = offset - number * SEGMENT_BYTES;
  return bytes.subarray(from, from + byteLength);
}

/** The bytes of an encrypted tensor. Reads and opens only the needed segments; hands out only authenticated bytes. */
export class UnsealedSource implements Source {
  readonly label: string;
  readonly byteLength: number;
  readonly #facts: UnsealFacts;
  readonly #guard: ReadGuard;
  #prefix: Promise<Bytes> | undefined;
  /** The segment that was opened last: short reads in a row open each segment once. */
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

  /** The segments at the beginning of the run, as many as one read brings. */
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

  /** The prefix comes with the first segment, or in a separate read. */
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
