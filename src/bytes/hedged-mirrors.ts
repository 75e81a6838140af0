import { UsageError } from "../base/errors.ts";
import type { Progress } from "./hedged-pace.ts";
import type { Source } from "./source.ts";

/** How much the last transfer counts against those before it. */
const WEIGHT = 0.5;

/** One place that has the bytes, and how it has done so far. */
export class Mirror {
  readonly source: Source;
  /** Transfers under way. */
  active = 0;
  #rate: number | undefined;

  constructor(source: Source) {
    this.source = source;
  }

  /** Bytes a millisecond, smoothed; undefined before the first transfer. */
  get rate(): number | undefined {
    return this.#rate;
  }

  /** Also for a transfer that was given up: what it got in its time is what the mirror is worth. */
  record(progress: Progress, now: number): void {
    const rate = progress.rate(now);
    this.#rate = this.#rate === undefined ? rate : WEIGHT * rate + (1 - WEIGHT) * this.#rate;
  }

  fail(): void {
    this.#rate = 0;
  }
}

/** Sources of the same bytes. The first one is asked first, and the others are tried once before the best is kept to. */
export class Mirrors {
  readonly all: readonly Mirror[];

  /** Throws `usage/mirror-length` where one has another length: it cannot hold the same bytes. */
  constructor(first: Source, others: readonly Source[]) {
    for (const other of others) {
      if (other.byteLength === first.byteLength) continue;
      const message = `Cannot use "${other.label}" as a mirror of "${first.label}": it must have ${first.byteLength} bytes, found ${other.byteLength}`;
      throw new UsageError("usage/mirror-length", message, { source: other.label });
    }
    this.all = [first, ...others].map((source) => new Mirror(source));
  }

  /** For the next request. */
  pick(): Mirror {
    const [first] = this.all as readonly [Mirror, ...Mirror[]];
    if (first.rate === undefined && first.active === 0) return first;
    return this.all.find(({ rate, active }) => rate === undefined && active === 0) ?? this.#best(this.all);
  }

  /** For a request that another mirror does not answer; the same one where there is no other. */
  pickOther(than: Mirror): Mirror {
    const others = this.all.filter((mirror) => mirror !== than);
    return others.length === 0 ? than : (others.find(({ rate }) => rate === undefined) ?? this.#best(others));
  }

  #best(mirrors: readonly Mirror[]): Mirror {
    return mirrors.reduce((best, mirror) => ((mirror.rate ?? 0) > (best.rate ?? 0) ? mirror : best));
  }
}
