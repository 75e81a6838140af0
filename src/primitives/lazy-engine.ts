import type { Engine } from "./engine.ts";
import { PassingEngine } from "./passing-engine.ts";

/** The portable engine, whose code is loaded when something is computed: reading most models computes nothing. */
export function lazyPortableEngine(): Engine {
  return new LazyEngine(async () => (await import("./portable.ts")).portableEngine());
}

class LazyEngine extends PassingEngine {
  override readonly name = "portable";
  readonly #load: () => Promise<Engine>;
  #engine: Promise<Engine> | undefined;
  #present: Engine | undefined;

  constructor(load: () => Promise<Engine>) {
    super();
    this.#load = load;
  }

  protected override inner(): Promise<Engine> {
    this.#engine ??= this.#load().then((engine) => {
      this.#present = engine;
      return engine;
    });
    return this.#engine;
  }

  protected override present(): Engine | undefined {
    return this.#present;
  }

  override async cutBlake3(): ReturnType<NonNullable<Engine["cutBlake3"]>> {
    return (await this.inner()).cutBlake3?.();
  }

  override async close(): Promise<void> {
    await this.#present?.close();
  }
}

/** The engine of formats that compute nothing when they are read. It has no primitives, so what asks for one is a fault of ours. */
export function noEngine(): Engine {
  return new LazyEngine(() => Promise.reject(new Error("this format was said to need no primitives")));
}
