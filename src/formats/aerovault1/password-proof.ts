import type { Bytes } from "../../base/bytes.ts";
import { isTareError, type Location, UsageError } from "../../base/errors.ts";
import type { PasswordSource } from "../../model/format.ts";
import { wipe } from "../../primitives/crypto/secrets.ts";
import { askPassword } from "../aerovault/unlock.ts";
import type { EntryContent } from "./entry-content.ts";
import { wipeEntryKeys } from "./winzip-aes.ts";

/** Entries whose verifiers stand in for the meta entry where that is damaged: 48 bits against chance. */
const WITNESSES = 3;

/**
 * The password of a vault of version 1, asked for when the first file is read and proven by the meta entry. Kept until the
 * vault is closed: every entry makes keys of its own from it.
 */
export class PasswordProof {
  readonly #meta: EntryContent;
  readonly #others: readonly EntryContent[];
  readonly #ask: PasswordSource | undefined;
  #password: Promise<Bytes> | undefined;

  constructor(meta: EntryContent, others: readonly EntryContent[], ask: PasswordSource | undefined) {
    this.#meta = meta;
    this.#others = others.slice(0, WITNESSES);
    this.#ask = ask;
  }

  /** Throws `usage/password.wrong` and `usage/password.missing`. The bytes stay the vault's. Asked once for all who wait. */
  get(): Promise<Bytes> {
    if (this.#password === undefined) {
      const proving = this.#prove();
      this.#password = proving;
      proving.catch(() => {
        this.#password = undefined;
      });
    }
    return this.#password as Promise<Bytes>;
  }

  async wipe(): Promise<void> {
    const password = await this.#password?.catch(() => undefined);
    wipe(password);
    this.#password = undefined;
  }

  async #prove(): Promise<Bytes> {
    const at: Location = { source: this.#meta.label, offset: this.#meta.row.localOffset };
    const password = await askPassword(at, this.#ask);
    if ((await this.#opensMeta(password)) || (await this.#isWitnessed(password))) return password;
    wipe(password);
    throw new UsageError("usage/password.wrong", `Cannot open "${at.source}": the password is wrong`, at, {
      hint: "Where the password is certain, get another copy of the vault",
    });
  }

  async #opensMeta(password: Bytes): Promise<boolean> {
    try {
      const keys = await this.#meta.keysFor(password);
      if (keys === undefined) return false;
      const isAuthentic = await this.#meta.isAuthentic(keys);
      wipeEntryKeys(keys);
      return isAuthentic;
    } catch (error) {
      if (!isTareError(error) || !error.code.startsWith("format/")) throw error;
      return false; // the meta entry is damaged: others may be whole
    }
  }

  /** True where all of a few other entries have the password's verifier: then only the meta entry is damaged. */
  async #isWitnessed(password: Bytes): Promise<boolean> {
    for (const content of this.#others) {
      const keys = await content.keysFor(password);
      if (keys === undefined) return false;
      wipeEntryKeys(keys);
    }
    return this.#others.length > 0;
  }
}
