import type { CommonOptions } from "./options.ts";

/** Events between the first and the last come at most this often. */
const INTERVAL_MS = 100;

export interface ProgressJob {
  /** A participle: "writing", "verifying". */
  readonly label: string;
  /** Bytes; absent if the total is not known. */
  readonly total?: number | undefined;
}

/** Counts what a job has done, and tells it. */
export interface ProgressMeter {
  add(byteLength: number): void;
  /** Says what the total is, if it was not known at the start or has changed. */
  expect(total: number): void;
  /** Tells that all is done; allowed twice, and never throws. Not called by jobs that fail. */
  end(): void;
}

/** Tells the progress of some work. The end is told once the work has ended, and not if it fails. */
export async function withProgress<T>(
  job: ProgressJob,
  onProgress: CommonOptions["onProgress"],
  work: (progress: ProgressMeter) => Promise<T>,
): Promise<T> {
  const progress = startProgress(job, onProgress);
  const result = await work(progress);
  progress.end();
  return result;
}

/**
 * Progress as `onProgress` gets it: the first event at once, with nothing done, the last at the end, at most ten a
 * second between. `now` is in milliseconds.
 */
export function startProgress(
  { label, total: stated }: ProgressJob,
  onProgress: CommonOptions["onProgress"],
  now: () => number = () => performance.now(),
): ProgressMeter {
  if (onProgress === undefined) return { add: () => undefined, expect: () => undefined, end: () => undefined };
  const start = now();
  let done = 0;
  let total = stated;
  let told = start;
  let isOver = false;
  const tell = (at: number): void => {
    told = at;
    const seconds = (at - start) / 1000;
    const bytesPerSecond = seconds > 0 ? Math.round(done / seconds) : 0;
    onProgress({ type: "progress", label, done, total: total ?? null, bytesPerSecond });
  };
  tell(start);
  return {
    add(byteLength) {
      done += byteLength;
      const at = now();
      if (at - told >= INTERVAL_MS) tell(at);
    },
    expect(byteLength) {
      total = byteLength;
    },
    end() {
      if (isOver) return;
      isOver = true;
      // The job is done, however much it turned out to be.
      total = Math.max(total ?? 0, done);
      done = total;
      try {
        tell(now());
      } catch {
        // What was to be written has its name by now: who listens cannot make the call fail any more.
      }
    },
  };
}
