import { type Bytes, plainBytes } from "../../base/bytes.ts";
import { SourceError } from "../../base/errors.ts";
import { ofCaller, untilGrace } from "../abort.ts";
import { isMemory } from "../memory.ts";
import type { ReadOptions, Source, StreamOptions } from "../source.ts";
import { DelegatingSource, FILL } from "./base.ts";

/**
 * A Source that a program brought, at the door: what it promises is checked here, once, so that nothing behind it has
 * to. Its bytes become plain ones, which decoders copy before they write: a Buffer's `slice` would be a view of it.
 */
export function foreignSource(source: Source): Source {
  const isOurs = isMemory(source) || source.descriptor !== undefined || FILL in source;
  if (isOurs) return source;
  if (!Number.isSafeInteger(source.byteLength) || source.byteLength < 0)
    throw broken(
      callersLabel(source.label, "source"),
      `its byteLength must be a whole number, found ${String(source.byteLength)}`,
    );
  return new ForeignSource(source);
}

class ForeignSource extends DelegatingSource {
  override get label(): string {
    return callersLabel(this.inner.label, "source");
  }

  override async read(offset: number, byteLength: number, options: ReadOptions = {}): Promise<Bytes> {
    const reading = ofCaller(this.label, options.signal, () => this.inner.read(offset, byteLength, options));
    const given = bytesOf(await reading, this.label);
    if (given.byteLength !== byteLength) {
      throw broken(this.label, `a read of ${byteLength} bytes at ${offset} must give all of them`, given.byteLength);
    }
    const { into } = options;
    if (into === undefined) return given;
    if (given.buffer !== into.buffer || given.byteOffset !== into.byteOffset) into.set(given);
    return into;
  }

  override async *stream(offset: number, options: StreamOptions = {}): AsyncGenerator<Bytes> {
    const byteLength = options.byteLength ?? this.byteLength - offset;
    let done = 0;
    const pieces = this.inner.stream(offset, options)[Symbol.asyncIterator]();
    try {
      for (;;) {
        const next = await ofCaller(this.label, options.signal, () => pieces.next());
        if (next.done === true) break;
        const given = bytesOf(next.value, this.label);
        done += given.byteLength;
        if (done > byteLength) break;
        yield given;
      }
    } finally {
      void untilGrace(() => pieces.return?.()); // the piece that was asked for may never come
    }
    if (done === byteLength) return;
    throw broken(this.label, `a stream of ${byteLength} bytes from ${offset} must give just these`, done);
  }

  /** The bytes have been read: that its owner cannot let go of them changes nothing. */
  override close(): Promise<void> {
    return untilGrace(() => this.inner.close());
  }
}

function bytesOf(given: unknown, label: string): Bytes {
  if (given instanceof Uint8Array) return plainBytes(given);
  throw broken(label, `what it reads must be a Uint8Array, found ${given === null ? "null" : typeof given}`);
}

function broken(label: string, must: string, found?: number): SourceError {
  const message = `Cannot use the Source "${label}": ${must}${found === undefined ? "" : `, found ${found}`}`;
  const hint = "Sources are described on the page of the library, under tare/bytes";
  return new SourceError("source/contract", message, { source: label }, { hint });
}

/** What errors call an object of a program's own. Callers without types may leave its label out. */
export function callersLabel(label: unknown, otherwise: string): string {
  return typeof label === "string" ? label : otherwise;
}
