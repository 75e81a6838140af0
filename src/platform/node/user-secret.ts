import { createHmac, randomBytes } from "node:crypto";
import { constants } from "node:fs";
import { open } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";
import { foreignness, makeOwnFolder } from "./own-folder.ts";
import type { Environment } from "./proxy-environment.ts";

const SECRET_BYTES = 32;
const SECRET_FILE = "seal.key";

/** What this user keeps between runs on this machine, and nobody hands on: not in folders of models. */
export function stateFolder(environment: Environment): string {
  const state = environment["XDG_STATE_HOME"];
  return join(state?.startsWith("/") === true ? state : join(homedir(), ".local", "state"), "tare");
}

/**
 * Makes seals that only this user on this machine can make: files in a folder of models may come from anybody, and what
 * they state is believed only where a seal shows that it was written here.
 */
export class Sealer {
  readonly #secret: Buffer | undefined;

  private constructor(secret: Buffer | undefined) {
    this.#secret = secret;
  }

  /** Makes the secret where there is none. Where it cannot be kept, or others could have put it there, nothing is sealed. */
  static async open(environment: Environment): Promise<Sealer> {
    const folder = await makeOwnFolder(stateFolder(environment));
    if (folder === undefined) return new Sealer(undefined);
    const path = join(folder, SECRET_FILE);
    return new Sealer((await readSecret(path)) ?? (await makeSecret(path)) ?? (await readSecret(path)));
  }

  /** Undefined where there is no secret: then nothing that was written earlier is believed. */
  seal(facts: readonly unknown[]): string | undefined {
    if (this.#secret === undefined) return undefined;
    return createHmac("sha256", this.#secret)
      .update(JSON.stringify(facts.map(String)))
      .digest("hex");
  }
}

async function readSecret(path: string): Promise<Buffer | undefined> {
  const handle = await open(path, constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0)).catch(() => undefined);
  if (handle === undefined) return undefined;
  try {
    const facts = await handle.stat();
    // Whoever can read it can seal.
    const isOurs = facts.isFile() && foreignness(facts) === undefined && isPrivate(facts.mode);
    const secret = isOurs ? await handle.readFile() : undefined;
    return secret?.byteLength === SECRET_BYTES ? secret : undefined;
  } catch {
    return undefined;
  } finally {
    await handle.close();
  }
}

/** Windows has no such bits: its lists keep the folder of a user closed. */
function isPrivate(mode: number): boolean {
  return process.geteuid === undefined || (mode & 0o077) === 0;
}

/** Undefined where another process was faster, or nothing can be written. */
async function makeSecret(path: string): Promise<Buffer | undefined> {
  const secret = randomBytes(SECRET_BYTES);
  const handle = await open(path, "wx", 0o600).catch(() => undefined);
  if (handle === undefined) return undefined;
  try {
    await handle.writeFile(secret);
    return secret;
  } catch {
    return undefined;
  } finally {
    await handle.close();
  }
}
