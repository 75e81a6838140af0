import { QUANT_ELEMENTS } from "../../primitives/quant/quantizer.ts";

type Floats = Float32Array<ArrayBuffer>;

/** The error that quantising causes in one tensor, measured on the values that will be read back. */
export interface QuantError {
  readonly elementCount: number;
  /** Root of the mean squared difference. */
  readonly rmse: number;
  /** `rmse` relative to the root mean square of the values; 0 for a tensor of zeros. */
  readonly relative: number;
  readonly maxAbs: number;
  /** Blocks with a value or a scale that is infinite or NaN: they decode to nothing useful. */
  readonly badBlocks: number;
}

/** Blocks of a tensor, from `first` up to but not including `end`, and what was found in them. */
interface BlockRun {
  readonly first: number;
  end: number;
  squares: number;
  power: number;
  maxAbs: number;
  bad: number;
  isSettled: boolean;
}

function emptyRun(first: number, end: number): BlockRun {
  return { first, end, squares: 0, power: 0, maxAbs: 0, bad: 0, isSettled: false };
}

interface TallyEvents {
  /** Called with the bad blocks of each run of blocks, once. */
  readonly onBadBlocks?: ((blocks: readonly number[]) => void) | undefined;
  /** Called once, when every block is counted. */
  readonly onComplete?: ((error: QuantError) => void) | undefined;
}

/**
 * Counts each block of a tensor once. Writers read runs of a tensor side by side, cut in the middle of blocks, and some
 * read twice. So each read claims the blocks that no read before it has claimed, and counts only these.
 */
export class BlockTally {
  readonly #blockCount: number;
  readonly #events: TallyEvents;
  /** The sum of all blocks before the first one that is not counted. It grows in order, whichever read ends first. */
  readonly #sum = emptyRun(0, 0);
  /** Claimed runs after those, in order. */
  #runs: readonly BlockRun[] = [];

  constructor(blockCount: number, events: TallyEvents) {
    this.#blockCount = blockCount;
    this.#events = events;
    if (blockCount === 0) events.onComplete?.(this.#result());
  }

  claim(first: number, end: number): BlockClaim {
    const runs: BlockRun[] = [];
    let position = Math.max(first, this.#sum.end);
    for (const taken of this.#runs) {
      if (taken.first >= end) break;
      if (position < taken.first) runs.push(emptyRun(position, taken.first));
      position = Math.max(position, taken.end);
    }
    if (position < end) runs.push(emptyRun(position, end));
    if (runs.length > 0) this.#runs = [...this.#runs, ...runs].sort((a, b) => a.first - b.first);
    return new BlockClaim(runs, {
      settle: (bad) => this.#settle(runs, bad),
      drop: () => {
        this.#runs = this.#runs.filter((run) => !runs.includes(run));
      },
    });
  }

  #settle(runs: readonly BlockRun[], bad: readonly number[]): void {
    if (runs.length === 0) return;
    for (const run of runs) run.isSettled = true;
    if (bad.length > 0) this.#events.onBadBlocks?.(bad);
    let next = 0;
    for (; this.#runs[next]?.first === this.#sum.end && this.#runs[next]?.isSettled === true; next++) {
      addRun(this.#sum, this.#runs[next] as BlockRun);
    }
    if (next > 0) this.#runs = this.#runs.slice(next);
    if (this.#sum.end === this.#blockCount) this.#events.onComplete?.(this.#result());
  }

  #result(): QuantError {
    const { squares, power, maxAbs, bad } = this.#sum;
    const elementCount = this.#blockCount * QUANT_ELEMENTS;
    const rmse = elementCount === 0 ? 0 : Math.sqrt(squares / elementCount);
    return { elementCount, rmse, relative: power === 0 ? 0 : Math.sqrt(squares / power), maxAbs, badBlocks: bad };
  }
}

/** The blocks that one read counts. Other blocks that it makes are counted by other reads. */
export class BlockClaim {
  readonly #runs: readonly BlockRun[];
  readonly #end: { readonly settle: (bad: readonly number[]) => void; readonly drop: () => void };
  readonly #bad: number[] = [];

  constructor(
    runs: readonly BlockRun[],
    end: { readonly settle: (bad: readonly number[]) => void; readonly drop: () => void },
  ) {
    this.#runs = runs;
    this.#end = end;
  }

  addBad(blocks: readonly number[]): void {
    for (const block of blocks) {
      const run = this.#runs.find(({ first, end }) => first <= block && block < end);
      if (run === undefined) continue;
      run.bad++;
      this.#bad.push(block);
    }
  }

  /** The stored values and what their blocks decode to, from the block `start` on. */
  addErrors(start: number, values: Floats, back: Floats): void {
    const stop = start + values.length / QUANT_ELEMENTS;
    for (const run of this.#runs) {
      const end = Math.min(run.end, stop);
      for (let block = Math.max(run.first, start); block < end; block++) {
        addDifferences(run, { values, back, from: (block - start) * QUANT_ELEMENTS });
      }
    }
  }

  settle(): void {
    this.#end.settle(this.#bad);
  }

  /** The read failed: another one may count these blocks. */
  drop(): void {
    this.#end.drop();
  }
}

/** Adds a run that begins where the sum ends. */
function addRun(sum: BlockRun, run: BlockRun): void {
  sum.end = run.end;
  sum.squares += run.squares;
  sum.power += run.power;
  sum.maxAbs = Math.max(sum.maxAbs, run.maxAbs);
  sum.bad += run.bad;
}

interface BlockPair {
  readonly values: Floats;
  readonly back: Floats;
  readonly from: number;
}

/** Adds one block. The differences of bad blocks are infinite or NaN, and would hide all others. */
function addDifferences(run: BlockRun, { values, back, from }: BlockPair): void {
  let squares = 0;
  let power = 0;
  let maxAbs = 0;
  for (let j = from; j < from + QUANT_ELEMENTS; j++) {
    const value = values[j] as number;
    const difference = Math.abs(value - (back[j] as number));
    squares += difference * difference;
    power += value * value;
    if (difference > maxAbs) maxAbs = difference;
  }
  if (!Number.isFinite(squares)) return;
  run.squares += squares;
  run.power += power;
  if (maxAbs > run.maxAbs) run.maxAbs = maxAbs;
}
