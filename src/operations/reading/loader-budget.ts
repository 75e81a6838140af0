import type { Tensor } from "../../model/tensor.ts";

/** Room for the bytes of one tensor. */
export interface Reservation {
  /** The bytes are here and stay until others need the room. */
  keep(name: string, tensor: Tensor): void;
  /** Gives the room back unless the bytes were kept; may be called twice. */
  release(): void;
}

/** Tensors in memory and room for those being read; together they never exceed `maxBytes`. */
export class TensorBudget {
  readonly maxBytes: number;
  /** Least recently used first. */
  readonly #held = new Map<string, Tensor>();
  readonly #waiting: (() => void)[] = [];
  #reservedBytes = 0;
  #heldBytes = 0;

  constructor(maxBytes: number) {
    this.maxBytes = maxBytes;
  }

  get usedBytes(): number {
    return this.#heldBytes + this.#reservedBytes;
  }

  /** A tensor whose bytes are here. This call makes it the last one to be dropped. */
  held(name: string): Tensor | undefined {
    const tensor = this.#held.get(name);
    if (tensor === undefined) return undefined;
    this.#held.delete(name);
    this.#held.set(name, tensor);
    return tensor;
  }

  /** Reserves room at once, by dropping held tensors except `spared`; undefined if that does not suffice. */
  tryReserve(byteLength: number, spared: ReadonlySet<string> = new Set()): Reservation | undefined {
    const droppable = [...this.#held].filter(([name]) => !spared.has(name));
    const freeable = droppable.reduce((sum, [, tensor]) => sum + tensor.byteLength, 0);
    if (this.usedBytes - freeable + byteLength > this.maxBytes) return undefined;
    for (const [name] of droppable) {
      if (this.usedBytes + byteLength <= this.maxBytes) break;
      this.#drop(name);
    }
    this.#reservedBytes += byteLength;
    return this.#reservation(byteLength);
  }

  /**
   * Waits for reads in progress if dropping everything else does not suffice; `byteLength` must not exceed `maxBytes`.
   */
  async reserve(byteLength: number, signal: AbortSignal | undefined): Promise<Reservation> {
    for (;;) {
      signal?.throwIfAborted();
      const reservation = this.tryReserve(byteLength);
      if (reservation !== undefined) return reservation;
      await this.#released(signal);
    }
  }

  clear(): void {
    for (const name of [...this.#held.keys()]) this.#drop(name);
  }

  /** Resolves when some room was given back, or the signal fired. */
  #released(signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve) => {
      const wake = (): void => {
        signal?.removeEventListener("abort", wake);
        resolve();
      };
      signal?.addEventListener("abort", wake, { once: true });
      this.#waiting.push(wake);
    });
  }

  #reservation(byteLength: number): Reservation {
    let isOpen = true;
    const end = (): void => {
      isOpen = false;
      this.#reservedBytes -= byteLength;
    };
    return {
      keep: (name, tensor) => {
        if (!isOpen) return;
        end();
        this.#drop(name);
        this.#held.set(name, tensor);
        this.#heldBytes += tensor.byteLength;
        this.#wakeAll();
      },
      release: () => {
        if (!isOpen) return;
        end();
        this.#wakeAll();
      },
    };
  }

  /** Waiters that still do not fit wait again. */
  #wakeAll(): void {
    for (const wake of this.#waiting.splice(0)) wake();
  }

  #drop(name: string): void {
    this.#heldBytes -= this.#held.get(name)?.byteLength ?? 0;
    this.#held.delete(name);
  }
}
