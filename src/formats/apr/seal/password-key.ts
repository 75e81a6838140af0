import type { Bytes } from "../../../base/bytes.ts";
import { UsageError } from "../../../base/errors.ts";
import { encodeHex } from "../../../base/hex.ts";
import type { PasswordSource } from "../../../model/format.ts";
import { AES_KEY_BYTES } from "../../../primitives/cipher/aes.ts";
import type { Engine } from "../../../primitives/engine.ts";
import type { KdfCost } from "./encryption-record.ts";

/** What the password is turned into a key with. */
export interface KeyRequest {
  readonly engine: Engine;
  readonly password: PasswordSource | undefined;
  readonly cost: KdfCost;
  readonly salt: Bytes;
  /** Names the file to whoever is asked. */
  readonly label: string;
}

/** The shards of a set share a salt: what was slow for the first one is remembered as long as the password's giver lives. */
const derived = new WeakMap<PasswordSource, Map<string, Promise<Bytes>>>();

/** The key that wraps file keys. Rejects with `usage/password.missing` where nobody gives a password. */
export function passwordKey(request: KeyRequest): Promise<Bytes> {
  const { password, cost, salt, label } = request;
  if (password === undefined) return Promise.reject(missingPassword(label));
  const known = derived.get(password) ?? new Map<string, Promise<Bytes>>();
  derived.set(password, known);
  const name = `${encodeHex(salt)} ${cost.memoryKib} ${cost.passes} ${cost.lanes}`;
  const key = known.get(name) ?? derive(password, request);
  known.set(name, key);
  key.catch(() => known.delete(name));
  return key;
}

/** For a password that turned out to be wrong: the next try asks again. */
export function forgetPasswordKeys(password: PasswordSource | undefined): void {
  if (password !== undefined) derived.delete(password);
}

async function derive(password: PasswordSource, { engine, cost, salt, label }: KeyRequest): Promise<Bytes> {
  const secret = await password(label);
  if (secret === undefined) throw missingPassword(label);
  try {
    return await engine.argon2id(secret, { ...cost, salt, byteLength: AES_KEY_BYTES });
  } finally {
    secret.fill(0);
  }
}

function missingPassword(label: string): UsageError {
  const message = `Cannot use "${label}" without a password: its tensors are encrypted`;
  return new UsageError(
    "usage/password.missing",
    message,
    { source: label },
    {
      hint: "Pass --password-file FILE, or set TARE_PASSWORD_FILE, TARE_PASSWORD_COMMAND or TARE_PASSWORD",
    },
  );
}
