/** Steps between two turns: a few milliseconds of parsing, so a turn costs next to nothing in comparison. */
const STEPS = 4096;

/**
 * Lets other tasks run during a long loop: timers, replies, and the abort signal that stops the loop. Counts steps, not
 * time, so that a loop does the same on every machine.
 */
export class Turns {
  readonly #signal: AbortSignal | undefined;
  #left = STEPS;

  constructor(signal: AbortSignal | undefined) {
    this.#signal = signal;
  }

  /** One step of the loop. The caller awaits the promise, if there is one; it rejects if the signal is aborted. */
  step(count = 1): Promise<void> | undefined {
    this.#left -= count;
    if (this.#left > 0) return undefined;
    this.#left = STEPS;
    return this.#turn();
  }

  #turn(): Promise<void> {
    return takeTurn(this.#signal);
  }
}

/** Lets other tasks run between two long steps; rejects if the signal is aborted by then. */
export async function takeTurn(signal: AbortSignal | undefined): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve, 0));
  signal?.throwIfAborted();
}

/**
 * Work that can be done at once or in turns: yields after every step, or the number of steps after several, and returns what
 * it made.
 */
// biome-ignore lint/suspicious/noConfusingVoidType: a bare yield gives undefined
export type Steps<T> = Generator<number | void, T>;

/** Steps of work that takes no time by itself: yielding after each of them would take longer. */
export const FEW_STEPS = 256;

/** Does the work and lets other tasks run in between. */
export async function inTurns<T>(steps: Steps<T>, signal: AbortSignal | undefined): Promise<T> {
  const turns = new Turns(signal);
  for (;;) {
    const { done, value } = steps.next();
    if (done === true) return value;
    const turn = turns.step(value ?? 1);
    if (turn !== undefined) await turn;
  }
}

/** Does the work without a break, for callers that cannot wait. */
export function atOnce<T>(steps: Steps<T>): T {
  for (;;) {
    const { done, value } = steps.next();
    if (done === true) return value;
  }
}
