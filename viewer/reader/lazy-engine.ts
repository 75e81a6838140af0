import type { Engine } from "../../src/primitives/engine.ts";
import { PassingEngine } from "../../src/primitives/passing-engine.ts";
import { inheritingScript } from "../shared/inheriting-script.ts";

/** From this size on, workers are worth their start. Opening a file hashes less. */
const MIN_POOLED_BYTES = 1 << 20;

/**
 * The engine with its own workers, loaded when something is hashed or decrypted. Most overviews need neither, and those
 * that hash an index need no workers for it.
 */
export function lazyEngine(): Engine {
  return new LazyEngine();
}

class LazyEngine extends PassingEngine {
  #small: Promise<Engine> | undefined;
  #pooled: Promise<Engine> | undefined;

  protected override inner(): Promise<Engine> {
    this.#small ??= loadPortable();
    return this.#pooled ?? this.#small;
  }

  override async digestRange(...args: Parameters<Engine["digestRange"]>): ReturnType<Engine["digestRange"]> {
    const [, , { byteLength }] = args;
    return (await this.#engineFor(byteLength)).digestRange(...args);
  }

  override async digestExtents(...args: Parameters<Engine["digestExtents"]>): ReturnType<Engine["digestExtents"]> {
    const [, , extents] = args;
    const total = extents.reduce((sum, { byteLength }) => sum + byteLength, 0);
    return (await this.#engineFor(total)).digestExtents(...args);
  }

  override async digest(...args: Parameters<Engine["digest"]>): ReturnType<Engine["digest"]> {
    const [, bytes] = args;
    return (await this.#engineFor(bytes.byteLength)).digest(...args);
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
  // Next to this script, where the build puts it.
  return webEngine({ workerUrl: inheritingScript(new URL("./hasher.js", import.meta.url)) });
}
