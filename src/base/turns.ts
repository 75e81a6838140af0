/** Steps between two turns: a few milliseconds of parsing, so that a turn costs next to nothing beside them. */
const STEPS = 4096;

/**
 * Lets others run while a long loop works: timers, replies, and the signal by which somebody asks it to stop. Counts steps,
 * not time, so that a loop does the same on every machine.
 */
export class Turns {
  readonly #signal: AbortSignal | undefined;
  #left = STEPS;

  constructor(signal: AbortSignal | undefined) {
    this.#signal = signal;
  }

  /** One step of the loop. To be awaited where it gives a promise; throws where the signal is aborted. */
  step(): Promise<void> | undefined {
    if (--this.#left > 0) return undefined;
    this.#left = STEPS;
    return this.#turn();
  }

  async #turn(): Promise<void> {
    await new Promise((resolve) => setTimeout(resolve, 0));
    this.#signal?.throwIfAborted();
  }
}

/** Work that can be done at once or in turns: yields after every step, and returns what it made. */
export type Steps<T> = Generator<void, T>;

/** Does the work and lets others run in between. */
export async function inTurns<T>(steps: Steps<T>, signal: AbortSignal | undefined): Promise<T> {
  const turns = new Turns(signal);
  for (;;) {
    const { done, value } = steps.next();
    if (done === true) return value;
    const turn = turns.step();
    if (turn !== undefined) await turn;
  }
}

/** Does the work without a break, where nobody can wait. */
export function atOnce<T>(steps: Steps<T>): T {
  for (;;) {
    const { done, value } = steps.next();
    if (done === true) return value;
  }
}
