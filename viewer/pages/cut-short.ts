import type { Bytes } from "../../src/base/bytes.ts";
import { isTareError, type TareError } from "../../src/base/errors.ts";
import { checkRange } from "../../src/bytes/extents.ts";
import { DelegatingSource } from "../../src/bytes/layers/base.ts";
import type { ReadOptions, Source, StreamOptions } from "../../src/bytes/source.ts";
import type { Opened } from "../../src/model/format.ts";
import { type OpenOptions, openSource } from "../../src/open.ts";

/** Readers name the first thing that reaches beyond the end; the next may reach further. */
const MAX_TRIES = 16;

/**
 * Opens a file whose end is missing, as the reader said by `fault`: what its tables list is shown, and reading what is
 * gone fails with `fault` again. Rejects with it where the tables themselves are gone, or something of the opening read.
 */
export async function openCutShort(source: Source, fault: TareError, options: OpenOptions): Promise<Opened> {
  let neededBytes = fault.neededBytes ?? 0;
  for (let tries = 0; tries < MAX_TRIES; tries++) {
    try {
      return await openSource(new CutSource(source, neededBytes, fault), options);
    } catch (error) {
      const more = isTareError(error) ? (error.neededBytes ?? 0) : 0;
      if (more <= neededBytes) break;
      neededBytes = more;
    }
  }
  throw fault;
}

/** As long as the file should be. No byte is made up: what is missing cannot be read. */
class CutSource extends DelegatingSource {
  readonly #byteLength: number;
  readonly #fault: TareError;

  constructor(inner: Source, byteLength: number, fault: TareError) {
    super(inner);
    this.#byteLength = byteLength;
    this.#fault = fault;
  }

  override get byteLength(): number {
    return this.#byteLength;
  }

  /** Whoever opens the file anew finds it shorter. */
  override get descriptor(): undefined {
    return undefined;
  }

  override async read(offset: number, byteLength: number, options?: ReadOptions): Promise<Bytes> {
    checkRange(this.label, this.byteLength, offset, byteLength);
    if (byteLength > 0 && offset + byteLength > this.inner.byteLength) throw this.#fault;
    return this.inner.read(Math.min(offset, this.inner.byteLength), byteLength, options);
  }

  override async *stream(offset: number, options: StreamOptions = {}): AsyncGenerator<Bytes> {
    const byteLength = options.byteLength ?? this.byteLength - offset;
    checkRange(this.label, this.byteLength, offset, byteLength);
    const present = Math.max(0, Math.min(byteLength, this.inner.byteLength - offset));
    if (present > 0) yield* this.inner.stream(offset, { ...options, byteLength: present });
    if (present < byteLength) throw this.#fault;
  }
}
