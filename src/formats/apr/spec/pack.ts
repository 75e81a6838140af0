import { type Bytes, readMemory } from "../../../base/bytes.ts";
import type { Source } from "../../../bytes/source.ts";
import type { Tensor } from "../../../model/tensor.ts";
import { type Lz4Codec, lz4Bound } from "../../../primitives/compress/lz4.ts";
import { BLOCK_BYTES, BLOCK_HEADER_BYTES } from "./layout.ts";

/** Raw bytes of one read: a whole number of blocks. */
const WINDOW_BYTES = 32 * BLOCK_BYTES;
/** Packed bytes held while it is not yet clear whether a tensor shrinks. */
const KEPT_BYTES = 32 << 20;
/** What a block takes if no match shortens it. */
const WORST_BLOCK = BLOCK_HEADER_BYTES + lz4Bound(BLOCK_BYTES);

/** Where packed bytes go; the caller may reuse them when the promise settles. */
export type Emit = (bytes: Bytes) => Promise<void>;

/** How a tensor was stored. */
export interface Packed {
  readonly storage: "raw" | "lz4";
  /** Bytes emitted. */
  readonly size: number;
}

export interface PackContext {
  readonly codec: Lz4Codec;
  readonly signal?: AbortSignal | undefined;
  /** Called with the number of raw bytes that are finished. */
  readonly onProgress?: ((byteLength: number) => void) | undefined;
}

/**
 * Emits a tensor as LZ4 blocks, or as raw bytes if blocks are not shorter. The choice is exact, and made before the
 * first byte is emitted: blocks are held in memory until they save more than the rest can lose, which is at most 277
 * bytes per block. If that takes more memory than is allowed, the blocks after the held ones are packed twice.
 */
export async function packTensor(tensor: Tensor, emit: Emit, context: PackContext): Promise<Packed> {
  if (tensor.byteLength === 0) return { storage: "raw", size: 0 };
  const reader = new WindowReader(tensor, context.signal);
  const packer = new Packer(context.codec);
  const trial = await tryBlocks(reader, packer, tensor.byteLength);
  const { onProgress } = context;
  if (trial.verdict === "raw") return { storage: "raw", size: await emitRaw(reader, emit, onProgress) };
  let size = 0;
  const give = async (bytes: Bytes, rawLength: number): Promise<void> => {
    size += bytes.byteLength;
    await emit(bytes);
    onProgress?.(rawLength);
  };
  for (const { bytes, rawLength } of trial.kept) await give(bytes, rawLength);
  for (let offset = trial.keptRaw; offset < tensor.byteLength; ) {
    const window = await reader.read(offset);
    offset += window.byteLength;
    await give(packer.pack(window), window.byteLength);
  }
  return { storage: "lz4", size };
}

interface Trial {
  readonly verdict: "raw" | "lz4";
  readonly kept: readonly { readonly bytes: Bytes; readonly rawLength: number }[];
  /** Raw bytes in the kept blocks. */
  readonly keptRaw: number;
}

async function tryBlocks(reader: WindowReader, packer: Packer, byteLength: number): Promise<Trial> {
  const kept: { bytes: Bytes; rawLength: number }[] = [];
  let keptBytes = 0;
  let keptRaw = 0;
  let packed = 0;
  for (let done = 0; done < byteLength; ) {
    const window = await reader.read(done);
    const bytes = packer.pack(window);
    if (keptRaw === done && keptBytes + bytes.byteLength <= KEPT_BYTES) {
      kept.push({ bytes: bytes.slice(), rawLength: window.byteLength });
      keptBytes += bytes.byteLength;
      keptRaw += window.byteLength;
    }
    packed += bytes.byteLength;
    done += window.byteLength;
    const left = byteLength - done;
    const worst = left + Math.ceil(left / BLOCK_BYTES) * (WORST_BLOCK - BLOCK_BYTES);
    if (packed + worst < byteLength) return { verdict: "lz4", kept, keptRaw };
  }
  return { verdict: "raw", kept: [], keptRaw: 0 };
}

async function emitRaw(reader: WindowReader, emit: Emit, onProgress: PackContext["onProgress"]): Promise<number> {
  let done = 0;
  while (done < reader.byteLength) {
    const window = await reader.read(done);
    await emit(window);
    onProgress?.(window.byteLength);
    done += window.byteLength;
  }
  return done;
}

/** Reads a tensor window by window, the next one while the caller uses this one. A window is valid until the next. */
class WindowReader {
  readonly byteLength: number;
  readonly #source: Source;
  readonly #signal: AbortSignal | undefined;
  readonly #buffers: readonly [Bytes, Bytes];
  #turn = 0;
  #ahead: { readonly offset: number; readonly window: Promise<Bytes> } | undefined;

  constructor(tensor: Tensor, signal: AbortSignal | undefined) {
    this.#source = tensor.source();
    this.#signal = signal;
    this.byteLength = tensor.byteLength;
    const bufferBytes = Math.min(WINDOW_BYTES, tensor.byteLength);
    const isLong = tensor.byteLength > WINDOW_BYTES;
    this.#buffers = [readMemory(bufferBytes), readMemory(isLong ? bufferBytes : 0)];
  }

  async read(offset: number): Promise<Bytes> {
    const ahead = this.#ahead;
    this.#ahead = undefined;
    // A read whose result is no longer wanted still writes to its buffer, so it must end first.
    if (ahead !== undefined && ahead.offset !== offset) await ahead.window.catch(() => undefined);
    const window = await (ahead?.offset === offset ? ahead.window : this.#fetch(offset));
    const next = offset + window.byteLength;
    if (next < this.byteLength) {
      const fetching = this.#fetch(next);
      fetching.catch(() => undefined); // the next read reports it
      this.#ahead = { offset: next, window: fetching };
    }
    return window;
  }

  #fetch(offset: number): Promise<Bytes> {
    const buffer = this.#buffers[this.#turn % 2] as Bytes;
    this.#turn += this.byteLength > WINDOW_BYTES ? 1 : 0;
    const into = buffer.subarray(0, Math.min(buffer.byteLength, this.byteLength - offset));
    return this.#source.read(offset, into.byteLength, { into, signal: this.#signal });
  }
}

/** Packs blocks; the result is valid until the next call. */
class Packer {
  readonly #codec: Lz4Codec;
  #room: Bytes = new Uint8Array(0);

  constructor(codec: Lz4Codec) {
    this.#codec = codec;
  }

  pack(raw: Bytes): Bytes {
    const most = Math.ceil(raw.byteLength / BLOCK_BYTES) * WORST_BLOCK;
    if (this.#room.byteLength < most) this.#room = new Uint8Array(most);
    const view = new DataView(this.#room.buffer);
    let end = 0;
    for (let start = 0; start < raw.byteLength; start += BLOCK_BYTES) {
      const block = raw.subarray(start, start + BLOCK_BYTES);
      const at = end + BLOCK_HEADER_BYTES;
      const byteLength = this.#codec.encode(block, this.#room.subarray(at, at + lz4Bound(block.byteLength)));
      if (byteLength === undefined) throw new Error("an LZ4 block exceeded its bound");
      view.setUint32(end, byteLength, true);
      end = at + byteLength;
    }
    return this.#room.subarray(0, end);
  }
}
