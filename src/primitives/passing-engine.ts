import type { Engine, EngineEntry } from "./engine.ts";

/** What an engine computes; the rest says what it is, or belongs to some engines only. */
type Call = Exclude<keyof Engine, "name" | "entries" | "quantizeRange" | "cutBlake3" | "expect" | "close">;

/** All of them: a new method of Engine does not compile before it is here, and then every engine below passes it on. */
const CALLS: { readonly [C in Call]: true } = {
  digest: true,
  hasher: true,
  digestRange: true,
  digestExtents: true,
  crc32: true,
  zstdCompress: true,
  zstdDecompress: true,
  quantizer: true,
  lz4: true,
  aes: true,
  aesGcmSiv: true,
  blake3Keyed: true,
  gear: true,
  reedSolomon: true,
  ed25519: true,
  argon2id: true,
  aesBlocks: true,
  chacha20Poly1305: true,
  pbkdf2Sha1: true,
  inflater: true,
};

abstract class PassingBase {
  readonly name: Engine["name"] = "pooled";

  /** The engine below, which may have to be loaded first. */
  protected abstract inner(): Engine | Promise<Engine>;

  /** The same where it is there already. */
  protected present(): Engine | undefined {
    return undefined;
  }

  get entries(): readonly EngineEntry[] {
    return this.present()?.entries ?? [];
  }

  async close(): Promise<void> {
    await (await this.inner()).close();
  }

  async pass(call: Call, args: readonly unknown[]): Promise<unknown> {
    const engine = await this.inner();
    return Reflect.apply(engine[call], engine, args);
  }
}

for (const call of Object.keys(CALLS) as Call[]) {
  const value = function (this: PassingBase, ...args: readonly unknown[]): Promise<unknown> {
    return this.pass(call, args);
  };
  Object.defineProperty(PassingBase.prototype, call, { value, configurable: true, writable: true });
}

/** Passes every call on to another engine: the base of those that do some things in another way. */
export const PassingEngine = PassingBase as unknown as abstract new () => PassingBase & Engine;
