/** Lets at most so many jobs run at a time; the others wait in the order they came. */
export class Limiter {
  #free: number;
  readonly #waiting: (() => void)[] = [];

  constructor(concurrency: number) {
    this.#free = concurrency;
  }

  async run<T>(job: () => Promise<T>): Promise<T> {
    if (this.#free > 0) this.#free--;
    else await new Promise<void>((resolve) => this.#waiting.push(resolve));
    try {
      return await job();
    } finally {
      const next = this.#waiting.shift();
      // The place is handed on, not freed: a newcomer must not slip in between.
      if (next === undefined) this.#free++;
      else next();
    }
  }
}
