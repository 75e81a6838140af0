import type { Bytes } from "../../base/bytes.ts";
import { type TareError, UnsupportedError } from "../../base/errors.ts";
import { ReadGuard } from "../../bytes/layers/base.ts";
import type { ReadOptions, Source, StreamOptions } from "../../bytes/source.ts";
import { dtypeFacts } from "../../model/dtype.ts";
import type { Tensor } from "../../model/tensor.ts";

/** Pieces that a stream yields: a multiple of every item size. */
const PIECE_BYTES = 1 << 20;

/**
 * The bytes of a tensor of a big-endian file in the order of the model view, which is little-endian. Block types
 * are refused on reading: writers disagree on whether the scales inside a block were swapped.
 */
export function swappedSource(stored: Source, tensor: Tensor): Source {
  const facts = dtypeFacts(tensor.dtype);
  if (facts.layout !== "plain") return new RefusingSource(stored, blocksRefused(tensor, stored.label));
  const itemBytes = facts.bits / 8;
  return itemBytes === 1 ? stored : new SwappedSource(stored, itemBytes);
}

/** Reverses the bytes of every item; ranges may begin and end inside one. Closing does nothing, as for slices. */
class SwappedSource implements Source {
  readonly label: string;
  readonly byteLength: number;
  readonly #stored: Source;
  readonly #itemBytes: number;
  readonly #guard: ReadGuard;

  constructor(stored: Source, itemBytes: number) {
    this.label = stored.label;
    this.byteLength = stored.byteLength;
    this.#stored = stored;
    this.#itemBytes = itemBytes;
    this.#guard = new ReadGuard(stored.label, stored.byteLength);
  }

  async read(offset: number, byteLength: number, options: ReadOptions = {}): Promise<Bytes> {
    this.#guard.checkRead(offset, byteLength, options);
    const { into, signal } = options;
    const start = offset - (offset % this.#itemBytes);
    const rest = (offset + byteLength) % this.#itemBytes;
    const end = offset + byteLength + (rest === 0 ? 0 : this.#itemBytes - rest);
    const wholeItems = end - start === byteLength;
    // The stored bytes may be shared, so they are always read into a buffer of our own before they change.
    const items = wholeItems && into !== undefined ? into : new Uint8Array(end - start);
    await this.#stored.read(start, end - start, { into: items, signal });
    reverseItems(items, this.#itemBytes);
    if (wholeItems) return items;
    const wanted = items.subarray(offset - start, offset - start + byteLength);
    into?.set(wanted);
    return into ?? wanted;
  }

  async *stream(offset: number, options: StreamOptions = {}): AsyncGenerator<Bytes> {
    const end = offset + this.#guard.checkStream(offset, options);
    for (let position = offset; position < end; ) {
      // Pieces after the first begin at an item, so that no item is read twice.
      const next = Math.min(end, position - (position % this.#itemBytes) + PIECE_BYTES);
      yield await this.read(position, next - position, { signal: options.signal });
      position = next;
    }
  }

  close(): Promise<void> {
    return Promise.resolve();
  }
}

function reverseItems(bytes: Bytes, itemBytes: number): void {
  for (let start = 0; start < bytes.byteLength; start += itemBytes) {
    for (let low = start, high = start + itemBytes - 1; low < high; low++, high--) {
      const kept = bytes[low] as number;
      bytes[low] = bytes[high] as number;
      bytes[high] = kept;
    }
  }
}

/** A Source that can be described but not read. */
class RefusingSource implements Source {
  readonly label: string;
  readonly byteLength: number;
  readonly #reason: TareError;

  constructor(stored: Source, reason: TareError) {
    this.label = stored.label;
    this.byteLength = stored.byteLength;
    this.#reason = reason;
  }

  async read(): Promise<Bytes> {
    throw this.#reason;
  }

  // biome-ignore lint/correctness/useYield: a stream that fails before its first piece
  async *stream(): AsyncGenerator<Bytes> {
    throw this.#reason;
  }

  close(): Promise<void> {
    return Promise.resolve();
  }
}

function blocksRefused(tensor: Tensor, label: string): UnsupportedError {
  const message = `Cannot read tensor "${tensor.name}": ${tensor.dtype} blocks of a big-endian file have no agreed byte order`;
  return new UnsupportedError(
    "unsupported/gguf.big-endian-blocks",
    message,
    { source: label, offset: tensor.offset, path: tensor.name },
    { hint: "Quantise the model again on a little-endian machine, or use its little-endian copy" },
  );
}
