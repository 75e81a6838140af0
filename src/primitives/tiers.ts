import { errnoOf, systemError, UnsupportedError } from "../base/errors.ts";

/** How an implementation runs: machine code from the host, WebAssembly, or plain TypeScript. */
export type TierName = "native" | "wasm" | "javascript";

/** One way to provide a primitive. `load` may reject: then the next tier is tried. */
export interface Tier<T> {
  readonly tier: TierName;
  /** As `tare doctor` shows it: "node:crypto", "wasm simd". */
  readonly implementation: string;
  load(): Promise<T>;
}

/** What the host has built in: `implementation` says what that is. */
export function host<T>(implementation: string, load: () => Promise<T>): Tier<T> {
  return { tier: "native", implementation, load };
}

/** In WebAssembly; most of our kernels have SIMD. */
export function wasm<T>(load: () => Promise<T>, implementation = "wasm simd"): Tier<T> {
  return { tier: "wasm", implementation, load };
}

/** The same in plain TypeScript. */
export function javascript<T>(load: () => Promise<T>): Tier<T> {
  return { tier: "javascript", implementation: "javascript", load };
}

/** A primitive: its tiers, best first, and how one of them shows that it is right. */
export interface Row<T> {
  /** As `tare doctor` shows it. */
  readonly primitive: string;
  readonly tiers: readonly Tier<T>[];
  /** Whether the known answer comes out. */
  proves(value: T): boolean | Promise<boolean>;
}

/**
 * The tiers of one primitive. The first one that loads and reproduces its known answer is taken, once, on first use; a wrong
 * answer counts as a failure to load.
 */
export class Tiers<T> {
  readonly primitive: string;
  readonly #row: Row<T>;
  #position = 0;
  #loading: Promise<T> | undefined;

  constructor(row: Row<T>) {
    this.primitive = row.primitive;
    this.#row = row;
  }

  /** What is in use, or before the first `get` what will be tried first. */
  get implementation(): string {
    return this.#row.tiers[this.#position]?.implementation ?? "none";
  }

  get tier(): TierName | undefined {
    return this.#row.tiers[this.#position]?.tier;
  }

  get(): Promise<T> {
    // A rejection may stay: it says that no tier works here, which asking again cannot change.
    this.#loading ??= this.#load();
    return this.#loading;
  }

  async #load(): Promise<T> {
    let cause: unknown;
    let fault: string | undefined;
    for (; this.#position < this.#row.tiers.length; this.#position++) {
      try {
        const value = await this.#row.tiers[this.#position]?.load();
        if (value !== undefined && (await this.#row.proves(value))) return value;
      } catch (error) {
        cause = error; // no such addon, no SIMD, a policy against compiling: the next tier decides
        fault ??= errnoOf(error);
      }
    }
    // Code that the system did not let us read says nothing about what this machine can compute.
    if (fault !== undefined) throw systemError(fault, `Cannot load ${this.primitive}`, { source: "engine" }, { cause });
    const message = `Cannot compute ${this.primitive}: no implementation loads and gives the known answer`;
    throw new UnsupportedError("unsupported/engine.primitive", message, { source: "engine" }, { cause });
  }
}
