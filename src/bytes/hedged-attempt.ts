import type { Bytes } from "../base/bytes.ts";
import type { Mirror } from "./hedged-mirrors.ts";
import { type Clock, LEAST_RATE_BYTES, type Pace, Progress } from "./hedged-pace.ts";
import { LinkedAbort } from "./linked-abort.ts";
import type { ReadOptions } from "./source.ts";

export type Outcome = { readonly ok: true } | { readonly ok: false; readonly error: unknown };

/** Made once, because an error with its stack costs more than a small read. */
const CANCELLED = new Error("another request was faster");

/** A range, and where it goes. */
export interface Wanted {
  readonly offset: number;
  /** Filled from `offset` on; an attempt writes to it until its `ended` settles. */
  readonly target: Bytes;
  readonly signal: AbortSignal | undefined;
  readonly onBytes: ReadOptions["onBytes"];
}

export interface AttemptOptions extends Wanted {
  readonly mirror: Mirror;
  readonly clock: Clock;
  readonly pace: Pace;
}

/** One request for a range, watched while it runs. */
export class Attempt {
  readonly mirror: Mirror;
  readonly progress: Progress;
  /** Never rejects. */
  readonly ended: Promise<Outcome>;
  readonly #options: AttemptOptions;
  readonly #abort: LinkedAbort;

  constructor(options: AttemptOptions) {
    this.#options = options;
    this.mirror = options.mirror;
    this.progress = new Progress(options.clock.now());
    this.#abort = new LinkedAbort(options.signal);
    this.mirror.active++;
    this.ended = this.#abort
      .run((signal) => this.#run(signal))
      .then(
        () => this.#end({ ok: true }),
        (error: unknown) => this.#end({ ok: false, error }),
      );
  }

  /** Bytes that have not come yet. */
  get missing(): number {
    return this.#options.target.byteLength - this.progress.received;
  }

  cancel(): void {
    this.#abort.abort(CANCELLED);
  }

  async #run(signal: AbortSignal): Promise<void> {
    const { mirror, offset, target, clock, pace } = this.#options;
    const { progress } = this;
    const { source } = mirror;
    const onBytes = (byteLength: number): void => {
      progress.add(byteLength, clock.now());
      this.#options.onBytes?.(byteLength);
    };
    if (source.reportsBytes === true) {
      await source.read(offset, target.byteLength, { into: target, signal, onBytes });
    } else {
      for await (const piece of source.stream(offset, { byteLength: target.byteLength, signal })) {
        target.set(piece, progress.received);
        onBytes(piece.byteLength);
      }
    }
    pace.record(progress, clock.now());
    if (progress.received >= LEAST_RATE_BYTES) mirror.record(progress, clock.now());
  }

  #end(outcome: Outcome): Outcome {
    this.mirror.active--;
    this.#abort.release();
    return outcome;
  }
}
