import type { Bytes } from "../base/bytes.ts";
import { readMemory } from "../base/read-memory.ts";

/** A fixed number of reusable buffers; taking one waits until an earlier user is done with it. */
export class BufferPool {
  readonly #free: Bytes[] = [];
  readonly #waiting: ((buffer: Bytes) => void)[] = [];
  readonly #bufferBytes: number;
  readonly #pending = new Set<Promise<unknown>>();
  #left: number;
  #failure: { readonly error: unknown } | undefined;

  constructor(buffers: number, bufferBytes: number) {
    this.#left = buffers;
    this.#bufferBytes = bufferBytes;
  }

  take(): Promise<Bytes> {
    const free = this.#free.pop();
    if (free !== undefined) return Promise.resolve(free);
    if (this.#left > 0) {
      this.#left--;
      return Promise.resolve(readMemory(this.#bufferBytes));
    }
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  /** The buffer becomes free when `use` settles; a failure of `use` is thrown by `settled`. */
  giveBack(buffer: Bytes | undefined, use: Promise<unknown>): void {
    const tracked = use.then(
      () => undefined,
      (error: unknown) => {
        this.#failure ??= { error };
      },
    );
    const done = tracked.then(() => {
      this.#pending.delete(done);
      if (buffer !== undefined) this.#release(buffer);
    });
    this.#pending.add(done);
  }

  /** Waits for every buffer in use, then throws the first failure, if any. */
  async settled(): Promise<void> {
    while (this.#pending.size > 0) await Promise.all(this.#pending);
    if (this.#failure !== undefined) throw this.#failure.error;
  }

  get failed(): boolean {
    return this.#failure !== undefined;
  }

  #release(buffer: Bytes): void {
    const next = this.#waiting.shift();
    if (next === undefined) this.#free.push(buffer);
    else next(buffer);
  }
}
