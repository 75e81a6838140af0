import { UnsupportedError } from "../base/errors.ts";
import { errnoOf, systemError } from "../base/system-errors.ts";

/** How an implementation runs: machine code from the host, WebAssembly, or plain TypeScript. */
export type TierName = "native" | "wasm" | "javascript";

/** One way to provide a primitive. `load` may reject: then the next candidate is tried. */
export interface Tier<T> {
  readonly tier: TierName;
  /** As `tare doctor` shows it: "node:crypto", "wasm simd". */
  readonly implementation: string;
  load(): Promise<T>;
}

/** A kernel of ours, in WebAssembly with SIMD. */
export function wasm<T>(load: () => Promise<T>): Tier<T> {
  return { tier: "wasm", implementation: "wasm simd", load };
}

/** The same in plain TypeScript. */
export function javascript<T>(load: () => Promise<T>): Tier<T> {
  return { tier: "javascript", implementation: "javascript", load };
}

/**
 * A primitive with several implementations, best first. The first one that loads and reproduces its known
 * answer is taken, once, on first use; a wrong answer counts as a failure to load.
 */
export class Tiers<T> {
  readonly primitive: string;
  readonly #candidates: readonly Tier<T>[];
  readonly #proves: (value: T) => boolean | Promise<boolean>;
  #position = 0;
  #loading: Promise<T> | undefined;

  constructor(primitive: string, candidates: readonly Tier<T>[], proves: (value: T) => boolean | Promise<boolean>) {
    this.primitive = primitive;
    this.#candidates = candidates;
    this.#proves = proves;
  }

  /** What is in use, or before the first `get` what will be tried first. */
  get implementation(): string {
    return this.#candidates[this.#position]?.implementation ?? "none";
  }

  get tier(): TierName | undefined {
    return this.#candidates[this.#position]?.tier;
  }

  get(): Promise<T> {
    // A rejection may stay: it says that no candidate works here, which asking again cannot change.
    this.#loading ??= this.#load();
    return this.#loading;
  }

  async #load(): Promise<T> {
    let cause: unknown;
    let fault: string | undefined;
    for (; this.#position < this.#candidates.length; this.#position++) {
      try {
        const value = await this.#candidates[this.#position]?.load();
        if (value !== undefined && (await this.#proves(value))) return value;
      } catch (error) {
        cause = error; // no such addon, no SIMD, a policy against compiling: the next candidate decides
        fault ??= errnoOf(error);
      }
    }
    // Code that the system did not let us read says nothing about what this machine can compute.
    if (fault !== undefined) throw systemError(fault, `Cannot load ${this.primitive}`, { source: "engine" }, { cause });
    const message = `Cannot compute ${this.primitive}: no implementation loads and gives the known answer`;
    throw new UnsupportedError("unsupported/engine.primitive", message, { source: "engine" }, { cause });
  }
}
