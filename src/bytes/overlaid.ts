import { type Bytes, EMPTY_BYTES } from "../base/bytes.ts";
import type { Extent } from "./extents.ts";
import { allocateFor, ReadGuard } from "./read-guard.ts";
import type { ReadOptions, Source, StreamOptions } from "./source.ts";

/** Pieces of a stream: what is overlaid may have to be computed. */
const PIECE_BYTES = 4 << 20;

/** Other bytes for a run of a source. */
export interface Overlay extends Extent {
  /** Offsets count from the start of the overlay. */
  read(offset: number, byteLength: number): Promise<Bytes>;
}

/** Bytes that are at hand, as an overlay. */
export function overlayBytes(offset: number, bytes: Bytes): Overlay {
  return {
    offset,
    byteLength: bytes.byteLength,
    read: async (at, byteLength) => bytes.subarray(at, at + byteLength),
  };
}

/**
 * A source with other bytes in some places and perhaps another length: what is beyond the end of `base` and of all overlays
 * is zeros. Of overlays that share bytes the last one counts. Closing it closes `base`.
 */
export function overlaidSource(base: Source, byteLength: number, overlays: readonly Overlay[]): Source {
  return new OverlaidSource(base, byteLength, overlays);
}

class OverlaidSource implements Source {
  readonly label: string;
  readonly byteLength: number;
  readonly #base: Source;
  readonly #overlays: readonly Overlay[];
  readonly #guard: ReadGuard;

  constructor(base: Source, byteLength: number, overlays: readonly Overlay[]) {
    this.label = base.label;
    this.byteLength = byteLength;
    this.#base = base;
    this.#overlays = overlays;
    this.#guard = new ReadGuard(base.label, byteLength);
  }

  async read(offset: number, byteLength: number, options: ReadOptions = {}): Promise<Bytes> {
    this.#guard.checkRead(offset, byteLength, options);
    if (byteLength === 0) return options.into ?? EMPTY_BYTES;
    const inBase = Math.max(0, Math.min(byteLength, this.#base.byteLength - offset));
    const overlays = this.#overlays.filter(
      (one) => one.offset < offset + byteLength && one.offset + one.byteLength > offset,
    );
    const { signal } = options;
    if (inBase === byteLength && overlays.length === 0) return this.#base.read(offset, byteLength, options);
    const bytes = options.into ?? allocateFor(byteLength, this.label);
    bytes.fill(0, inBase);
    if (inBase > 0) bytes.set(await this.#base.read(offset, inBase, { signal }));
    for (const overlay of overlays) {
      const start = Math.max(offset, overlay.offset);
      const end = Math.min(offset + byteLength, overlay.offset + overlay.byteLength);
      bytes.set(await overlay.read(start - overlay.offset, end - start), start - offset);
    }
    return bytes;
  }

  async *stream(offset: number, options: StreamOptions = {}): AsyncGenerator<Bytes> {
    const byteLength = this.#guard.checkStream(offset, options);
    for (let done = 0; done < byteLength; done += PIECE_BYTES) {
      yield await this.read(offset + done, Math.min(PIECE_BYTES, byteLength - done), { signal: options.signal });
    }
  }

  close(): Promise<void> {
    this.#guard.close();
    return this.#base.close();
  }
}
