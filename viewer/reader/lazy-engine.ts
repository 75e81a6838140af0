import type { Engine } from "../../src/primitives/engine.ts";
import { DelegatingEngine } from "./delegating-engine.ts";
import { inheritingScript } from "./inheriting-script.ts";

/** The engine with workers of its own, loaded when something is hashed or decrypted: most overviews need neither. */
export function lazyEngine(): Engine {
  return new LazyEngine();
}

class LazyEngine extends DelegatingEngine {
  #engine: Promise<Engine> | undefined;

  protected inner(): Promise<Engine> {
    this.#engine ??= loadEngine();
    return this.#engine;
  }
}

async function loadEngine(): Promise<Engine> {
  const { webEngine } = await import("../../src/platform/web/engine.ts");
  // Beside this script, where the build puts it.
  return webEngine({ workerUrl: inheritingScript(new URL("./hasher.js", import.meta.url)) });
}
