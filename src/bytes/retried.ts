import type { Bytes } from "../base/bytes.ts";
import { ReadGuard } from "./read-guard.ts";
import { pause, type RetryPolicy, retry, retryPolicy } from "./retry.ts";
import type { ReadOptions, Source, SourceDescriptor, StreamOptions } from "./source.ts";

/**
 * Repeats reads that failed with a transient SourceError. A stream that breaks goes on where it stopped, and
 * counts its tries anew whenever it got further. Closing closes the source below.
 */
export function withRetries(source: Source, options: Partial<RetryPolicy> = {}): Source {
  return new RetriedSource(source, retryPolicy(options));
}

class RetriedSource implements Source {
  readonly label: string;
  readonly byteLength: number;
  readonly #source: Source;
  readonly #policy: RetryPolicy;
  readonly #guard: ReadGuard;

  constructor(source: Source, policy: RetryPolicy) {
    this.label = source.label;
    this.byteLength = source.byteLength;
    this.#source = source;
    this.#policy = policy;
    this.#guard = new ReadGuard(source.label, source.byteLength);
  }

  get descriptor(): SourceDescriptor | undefined {
    return this.#source.descriptor;
  }

  /** As the source's own: bytes that landed before a failure are not asked for again. */
  get reportsBytes(): boolean {
    return this.#source.reportsBytes === true;
  }

  async read(offset: number, byteLength: number, options: ReadOptions = {}): Promise<Bytes> {
    this.#guard.checkRead(offset, byteLength, options);
    if (options.into === undefined || options.onBytes === undefined) {
      return retry(() => this.#attempt(offset, byteLength, options), this.#policy, options.signal);
    }
    return this.#readOn(offset, { ...options, into: options.into });
  }

  /** A read that breaks goes on where it stopped, as a stream does. */
  async #readOn(offset: number, options: ReadOptions & { readonly into: Bytes }): Promise<Bytes> {
    const { into, signal } = options;
    let done = 0;
    let attempt = 0;
    const onBytes = (byteLength: number): void => {
      done += byteLength;
      attempt = 0;
      options.onBytes?.(byteLength);
    };
    for (;;) {
      const rest = into.subarray(done);
      try {
        await this.#attempt(offset + done, rest.byteLength, { into: rest, signal, onBytes });
        return into;
      } catch (error) {
        await pause(error, attempt, { policy: this.#policy, signal });
        attempt++;
      }
    }
  }

  #attempt(offset: number, byteLength: number, options: ReadOptions): Promise<Bytes> {
    this.#guard.checkOpen();
    return this.#source.read(offset, byteLength, options);
  }

  async *stream(offset: number, options: StreamOptions = {}): AsyncGenerator<Bytes> {
    const end = offset + this.#guard.checkStream(offset, options);
    const { signal } = options;
    let position = offset;
    let attempt = 0;
    while (position < end) {
      try {
        this.#guard.checkOpen();
        for await (const piece of this.#source.stream(position, { ...options, byteLength: end - position })) {
          position += piece.byteLength;
          attempt = 0;
          yield piece;
        }
        return;
      } catch (error) {
        await pause(error, attempt, { policy: this.#policy, signal });
        attempt++;
      }
    }
  }

  close(): Promise<void> {
    this.#guard.close();
    return this.#source.close();
  }
}
