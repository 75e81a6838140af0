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

/** A tier that the host has built in, named by `implementation`. */
export function host<T>(implementation: string, load: () => Promise<T>): Tier<T> {
  return { tier: "native", implementation, load };
}

/** A tier in WebAssembly. Most of our kernels use SIMD. */
export function wasm<T>(load: () => Promise<T>, implementation = "wasm simd"): Tier<T> {
  return { tier: "wasm", implementation, load };
}

/** A tier in plain TypeScript. */
export function javascript<T>(load: () => Promise<T>): Tier<T> {
  return { tier: "javascript", implementation: "javascript", load };
}

/** A primitive: its tiers, best first, and the test that one of them is right. */
export interface Row<T> {
  /** As `tare doctor` shows it. */
  readonly primitive: string;
  readonly tiers: readonly Tier<T>[];
  /** Whether the known answer comes out. */
  proves(value: T): boolean | Promise<boolean>;
}

/**
 * The tiers of one primitive. On first use, takes the first one that loads and reproduces its known answer. A wrong
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

  /** The implementation in use; before the first `get`, the one that will be tried first. */
  get implementation(): string {
    return this.#row.tiers[this.#position]?.implementation ?? "none";
  }

  get tier(): TierName | undefined {
    return this.#row.tiers[this.#position]?.tier;
  }

  get(): Promise<T> {
    // Keep a rejection: it means that no tier works here, and a retry would not change that.
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
        cause = error; // no such addon, no SIMD, a policy against compiling: try the next tier
        fault ??= errnoOf(error);
      }
    }
    // If the system did not let us read the code, that says nothing about what this machine can compute.
    if (fault !== undefined) throw systemError(fault, `Cannot load ${this.primitive}`, { source: "engine" }, { cause });
    const message = `Cannot compute ${this.primitive}: no implementation loads and gives the known answer`;
    throw new UnsupportedError("unsupported/engine.primitive", message, { source: "engine" }, { cause });
  }
}
