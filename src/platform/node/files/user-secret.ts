import { createHmac, randomBytes } from "node:crypto";
import { constants } from "node:fs";
import { open } from "node:fs/promises";
import { join } from "node:path";
import type { Environment } from "../http/proxy-environment.ts";
import { foreignFolder, foreignness, makeOwnFolder, stateFolder } from "./own-folder.ts";
import { createPartial, publishExclusive, publishReplacing, removePartial } from "./partial-files.ts";

const SECRET_BYTES = 32;
const SECRET_FILE = "seal.key";

/**
 * Makes seals that only this user on this machine can make. Files in a folder of models may come from anyone, so their
 * statements are trusted only if a seal shows that they were written here.
 */
export class Sealer {
  readonly #secret: Buffer | undefined;

  private constructor(secret: Buffer | undefined) {
    this.#secret = secret;
  }

  /** Makes the secret if there is none. If it cannot be kept, or others could have put it there, nothing is sealed. */
  static async open(environment: Environment): Promise<Sealer> {
    const place = stateFolder(environment);
    const folder = place === undefined ? undefined : await makeOwnFolder(place);
    if (folder === undefined) return new Sealer(undefined);
    const path = join(folder, SECRET_FILE);
    const found = await readSecret(path);
    if (found instanceof Buffer) return new Sealer(found);
    // Another process may have been faster: all of them use the secret that is there in the end.
    await makeSecret(path, found === "damaged" ? "replace" : "refuse").catch(() => undefined);
    const made = await readSecret(path);
    return new Sealer(made instanceof Buffer ? made : undefined);
  }

  /** For those who only check seals: makes nothing. Without a secret nothing was sealed. */
  static async existing(environment: Environment): Promise<Sealer> {
    const folder = stateFolder(environment);
    if (folder === undefined || (await foreignFolder(folder)) !== undefined) return new Sealer(undefined);
    const found = await readSecret(join(folder, SECRET_FILE));
    return new Sealer(found instanceof Buffer ? found : undefined);
  }

  /** False if there is no secret. */
  get canSeal(): boolean {
    return this.#secret !== undefined;
  }

  /** Undefined if there is no secret: then nothing that was written earlier is trusted. */
  seal(facts: readonly unknown[]): string | undefined {
    if (this.#secret === undefined) return undefined;
    return createHmac("sha256", this.#secret)
      .update(JSON.stringify(facts.map(String)))
      .digest("hex");
  }
}

/** "damaged" for a file of ours that is not a secret, for example after a full disk or a crash. */
async function readSecret(path: string): Promise<Buffer | "damaged" | undefined> {
  // Do not wait for a writer, if there is a pipe in its place.
  const flags = constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0);
  const handle = await open(path, flags).catch(() => undefined);
  if (handle === undefined) return undefined;
  try {
    const facts = await handle.stat();
    // A user who can read it can seal.
    const isOurs = facts.isFile() && foreignness(facts) === undefined && isPrivate(facts.mode);
    if (!isOurs) return undefined;
    return facts.size === SECRET_BYTES ? await handle.readFile() : "damaged";
  } catch {
    return undefined;
  } finally {
    await handle.close();
  }
}

/** Windows has no such bits: its access lists keep the folder of a user closed. */
function isPrivate(mode: number): boolean {
  return process.geteuid === undefined || (mode & 0o077) === 0;
}

/** Written to a temporary file first and renamed once it is on the disk, so that a reader never finds half of it. */
async function makeSecret(path: string, overwrite: "refuse" | "replace"): Promise<void> {
  const partial = await createPartial({ path, newMode: 0o600 });
  try {
    try {
      await partial.handle.writeFile(randomBytes(SECRET_BYTES));
      await partial.handle.sync();
    } finally {
      await partial.handle.close();
    }
    await (overwrite === "replace" ? publishReplacing : publishExclusive)(partial.path, path);
  } catch (error) {
    await removePartial(partial.path);
    throw error;
  }
}
