import { type Bytes, equalBytes } from "../../src/base/bytes.ts";
import { decodeHex, encodeUtf8 } from "../../src/base/text.ts";
import type { OpenContext } from "../../src/model/format.ts";
import type { Argon2Parameters } from "../../src/primitives/crypto/argon2.ts";
import type { Engine } from "../../src/primitives/engine.ts";
import { quickEngine } from "./sealed-apr.ts";

/** Of the fixture `encrypted`. */
export const KNOWN_PASSWORD = "crafted-shared-4";
/** What Argon2id gives for that password and the fixture's salt with 128 MiB, four passes and four lanes. */
const KNOWN_KEY = "df55a347a8765f610057b76d01083cf8173a9b487b2a6a9e16e3152d09930936";
/** The first bytes of the fixture's salt. */
const KNOWN_SALT_OFFSET = 12;

/** A password, and what Argon2id gives for it and the salt of one vault. */
export interface KnownKey {
  readonly password: string;
  readonly key: string;
}

/** Everything real, but Argon2id answers from memory for the fixture: a second of work for each test is too much. */
export function knowingEngine(
  vault: Bytes,
  known: KnownKey = { password: KNOWN_PASSWORD, key: KNOWN_KEY },
): Engine & { readonly derivations: () => number } {
  const base = quickEngine();
  const salt = vault.slice(KNOWN_SALT_OFFSET, KNOWN_SALT_OFFSET + 32);
  let derivations = 0;
  const argon2id = async (password: Bytes, parameters: Argon2Parameters): Promise<Bytes> => {
    derivations++;
    const { memoryKib, passes, lanes } = parameters;
    const isKnown =
      equalBytes(password, encodeUtf8(known.password)) &&
      equalBytes(parameters.salt, salt) &&
      memoryKib === 131_072 &&
      passes === 4 &&
      lanes === 4;
    return isKnown ? (decodeHex(known.key) as Bytes) : base.argon2id(password, parameters);
  };
  return new Proxy(base, {
    get: (target, name) => {
      if (name === "argon2id") return argon2id;
      if (name === "derivations") return () => derivations;
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === "function" ? value.bind(target) : value;
    },
  }) as Engine & { readonly derivations: () => number };
}

/** A context that knows a password. */
export function vaultContext(engine: Engine, password: string | undefined): OpenContext {
  return { engine, limits: {}, password: password === undefined ? undefined : async () => encodeUtf8(password) };
}
