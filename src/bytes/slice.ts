import type { Bytes } from "../base/bytes.ts";
import { checkRange } from "./extents.ts";
import { passOn } from "./layers/base.ts";
import type { ReadOptions, Source, SourceDescriptor, StreamOptions } from "./source.ts";

/** A Source that is a run of another one; `whole` and `start` let readers fetch neighbours together. */
export interface SliceSource extends Source {
  readonly whole: Source;
  readonly start: number;
}

/** A Source whose bytes can also be read, equally well checked, as a run of a longer one. */
export interface WithinSource extends Source {
  readonly within: SliceSource | undefined;
}

/** The run of a longer source that holds the same bytes: read from it if neighbours are wanted as well. */
export function runOf(source: Source): SliceSource | undefined {
  if (isSlice(source)) return source;
  return "within" in source ? (source as WithinSource).within : undefined;
}

/** Closing a slice does nothing: the caller that opened the whole source closes it. */
export function sliceSource(of: Source, offset: number, byteLength: number, label: string = of.label): SliceSource {
  checkRange(of.label, of.byteLength, offset, byteLength);
  // A slice of a slice reads from the whole directly.
  const whole = isSlice(of) ? of.whole : of;
  const start = isSlice(of) ? of.start + offset : offset;
  return new Slice(whole, start, byteLength, label);
}

export function isSlice(source: Source): source is SliceSource {
  return source instanceof Slice;
}

class Slice implements SliceSource {
  readonly label: string;
  readonly byteLength: number;
  readonly whole: Source;
  readonly start: number;

  constructor(whole: Source, start: number, byteLength: number, label: string) {
    this.whole = whole;
    this.start = start;
    this.byteLength = byteLength;
    this.label = label;
  }

  get descriptor(): SourceDescriptor | undefined {
    const of = this.whole.descriptor;
    if (of === undefined) return undefined;
    return { kind: "slice", of, offset: this.start, byteLength: this.byteLength };
  }

  async read(offset: number, byteLength: number, options?: ReadOptions): Promise<Bytes> {
    checkRange(this.label, this.byteLength, offset, byteLength);
    return this.whole.read(this.start + offset, byteLength, options);
  }

  stream(offset: number, options: StreamOptions = {}): AsyncIterable<Bytes> {
    return passOn(() => {
      const byteLength = options.byteLength ?? this.byteLength - offset;
      checkRange(this.label, this.byteLength, offset, byteLength);
      return this.whole.stream(this.start + offset, { ...options, byteLength });
    });
  }

  close(): Promise<void> {
    return Promise.resolve();
  }
}
