export interface Interval {
  readonly start: number;
  readonly end: number;
}

/** Runs of addresses, in order, none touching the next. */
export class IntervalSet {
  #runs: Interval[] = [];

  get runs(): readonly Interval[] {
    return this.#runs;
  }

  /** Bytes in all. */
  get total(): number {
    return this.#runs.reduce((sum, { start, end }) => sum + end - start, 0);
  }

  add(start: number, end: number): void {
    if (end <= start) return;
    // The first run that ends at or after the beginning, and the first that begins after the end.
    const from = firstWhere(this.#runs, (run) => run.end >= start);
    const to = firstWhere(this.#runs, (run) => run.start > end);
    const joined = this.#runs.slice(from, to);
    const merged = {
      start: Math.min(start, joined[0]?.start ?? start),
      end: Math.max(end, joined.at(-1)?.end ?? end),
    };
    this.#runs.splice(from, to - from, merged);
  }

  /** The runs that share a byte with a window. */
  within(start: number, end: number): readonly Interval[] {
    return this.#runs.slice(
      firstWhere(this.#runs, (run) => run.end > start),
      firstWhere(this.#runs, (run) => run.start >= end),
    );
  }
}

/** Index of the first run for which `isTrue` holds; it must hold for all later ones too. */
function firstWhere(runs: readonly Interval[], isTrue: (run: Interval) => boolean): number {
  let low = 0;
  let high = runs.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (isTrue(runs[middle] as Interval)) high = middle;
    else low = middle + 1;
  }
  return low;
}
