import type { Bytes } from "../../src/base/bytes.ts";
import type {
  DigestAlgorithm,
  Engine,
  ExtentsOptions,
  HashExtent,
  RangeOptions,
  ReadableRange,
} from "../../src/primitives/engine.ts";
import { DelegatingEngine } from "./delegating-engine.ts";
import { inheritingScript } from "./inheriting-script.ts";

/** From here on workers are worth their start; opening a file hashes less. */
const MIN_POOLED_BYTES = 1 << 20;

/**
 * The engine with workers of its own, loaded when something is hashed or decrypted: most overviews need neither, and those
 * that hash an index need no workers for it.
 */
export function lazyEngine(): Engine {
  return new LazyEngine();
}

class LazyEngine extends DelegatingEngine {
  #small: Promise<Engine> | undefined;
  #pooled: Promise<Engine> | undefined;

  protected inner(): Promise<Engine> {
    this.#small ??= loadPortable();
    return this.#pooled ?? this.#small;
  }

  override async digestRange(algorithm: DigestAlgorithm, range: ReadableRange, options: RangeOptions): Promise<Bytes> {
    return (await this.#engineFor(options.byteLength)).digestRange(algorithm, range, options);
  }

  override async digestExtents(
    algorithm: DigestAlgorithm,
    range: ReadableRange,
    extents: readonly HashExtent[],
    options?: ExtentsOptions,
  ): Promise<Bytes[]> {
    const total = extents.reduce((sum, { byteLength }) => sum + byteLength, 0);
    return (await this.#engineFor(total)).digestExtents(algorithm, range, extents, options);
  }

  override async digest(algorithm: DigestAlgorithm, bytes: Bytes): Promise<Bytes> {
    return (await this.#engineFor(bytes.byteLength)).digest(algorithm, bytes);
  }

  #engineFor(byteLength: number): Promise<Engine> {
    if (byteLength < MIN_POOLED_BYTES) return this.inner();
    this.#pooled ??= loadPooled();
    return this.#pooled;
  }
}

async function loadPortable(): Promise<Engine> {
  return (await import("../../src/primitives/portable.ts")).portableEngine();
}

async function loadPooled(): Promise<Engine> {
  const { webEngine } = await import("../../src/platform/web/engine.ts");
  // Beside this script, where the build puts it.
  return webEngine({ workerUrl: inheritingScript(new URL("./hasher.js", import.meta.url)) });
}
