import { type Bytes, equalBytes } from "../../base/bytes.ts";
import { FormatError, IntegrityError, isTareError, type Location, UsageError } from "../../base/errors.ts";
import { printable } from "../../base/text.ts";
import type { Source } from "../../bytes/source.ts";
import type { PasswordSource } from "../../model/format.ts";
import { createHmac, equalSecrets } from "../../primitives/crypto/hmac.ts";
import { wipe } from "../../primitives/crypto/secrets.ts";
import type { Engine } from "../../primitives/engine.ts";
import { askPassword } from "../aerovault/keys.ts";
import { FLAG, IN_ZIP64_32, LOCAL_HEADER_BYTES, localHeader } from "./layout.ts";
import {
  deriveEntryKeys,
  type EntryKeys,
  HEAD_BYTES,
  MAC_BYTES,
  SALT_BYTES,
  WINZIP_BYTES,
  wipeEntryKeys,
} from "./winzip-aes.ts";
import { decodeExtra, type ZipRow } from "./zip-directory.ts";

/** Bytes that are read and hashed at a time; whole AES blocks. */
export const STEP_BYTES = 1 << 20;

/** What reading entries needs. */
export interface ContentContext {
  readonly source: Source;
  readonly engine: Engine;
}

/** The stored bytes of one file: where they are, and whether they are those that were written. */
export class EntryContent {
  readonly row: ZipRow;
  readonly #context: ContentContext;
  /** Where the next entry or the directory begins; reads stop there. */
  readonly #limit: number;
  #payload: Promise<number> | undefined;

  constructor(row: ZipRow, limit: number, context: ContentContext) {
    this.row = row;
    this.#limit = limit;
    this.#context = context;
  }

  get label(): string {
    return this.#context.source.label;
  }

  /** Bytes of ciphertext. */
  get cipherBytes(): number {
    return this.row.compressedSize - WINZIP_BYTES;
  }

  /** Offset of the first byte of ciphertext in the file. */
  async cipherOffset(): Promise<number> {
    return (await this.#payloadOffset()) + HEAD_BYTES;
  }

  /** The keys if the password matches the entry's verifier, which one in 65536 wrong ones does too; else undefined. */
  async keysFor(password: Bytes, signal?: AbortSignal): Promise<EntryKeys | undefined> {
    const { source, engine } = this.#context;
    const head = await source.read(await this.#payloadOffset(), HEAD_BYTES, { signal });
    const keys = await deriveEntryKeys(engine, password, head.slice(0, SALT_BYTES));
    if (equalSecrets(keys.verifier, head.subarray(SALT_BYTES))) return keys;
    wipeEntryKeys(keys);
    return undefined;
  }

  /** Whether the ciphertext is the one that was written; reads all of it. */
  async isAuthentic({ mac }: EntryKeys, signal?: AbortSignal): Promise<boolean> {
    const { source, engine } = this.#context;
    const start = await this.cipherOffset();
    const end = start + this.cipherBytes;
    const hmac = await createHmac(engine, "sha1", mac);
    for (let at = start; at < end; at += STEP_BYTES) {
      hmac.update(await source.read(at, Math.min(STEP_BYTES, end - at), { signal }));
    }
    const stored = await source.read(end, MAC_BYTES, { signal });
    return equalSecrets(hmac.digest().subarray(0, MAC_BYTES), stored);
  }

  /** The error for an entry whose bytes are not those that were written. */
  damage(problem: string, at: number): IntegrityError {
    const message = `Cannot trust "${printable(this.row.path)}" of the vault: ${problem}`;
    const hint = "Get another copy of the vault";
    return new IntegrityError("integrity/aerovault1.hmac", message, { source: this.label, offset: at }, { hint });
  }

  fault(code: `format/aerovault1.${string}`, problem: string, at: Location): FormatError {
    return new FormatError(code, `Cannot read "${printable(this.row.path)}" of the vault: ${problem}`, at);
  }

  #payloadOffset(): Promise<number> {
    if (this.#payload === undefined) {
      const reading = this.#readLocal();
      this.#payload = reading;
      reading.catch(() => {
        this.#payload = undefined;
      });
    }
    return this.#payload as Promise<number>;
  }

  /** The local header must say the same as the directory, or readers would disagree about the entry. */
  async #readLocal(): Promise<number> {
    const { row } = this;
    const { source } = this.#context;
    const at = { source: source.label, offset: row.localOffset };
    const fixed = await source.read(row.localOffset, LOCAL_HEADER_BYTES);
    const local = localHeader.decode(fixed, at, { code: "format/aerovault1.local" });
    const headBytes = LOCAL_HEADER_BYTES + local.nameLength + local.extraLength;
    if (headBytes + row.compressedSize > this.#limit - row.localOffset) {
      throw this.fault("format/aerovault1.local", `it must end before ${this.#limit}, where something else begins`, at);
    }
    const tail = await source.read(row.localOffset + LOCAL_HEADER_BYTES, local.nameLength + local.extraLength);
    const { aes } = decodeExtra(tail.subarray(local.nameLength), { ...at, path: "extra" });
    const isSame =
      equalBytes(tail.subarray(0, local.nameLength), row.name) &&
      local.flags === row.flags &&
      local.method === row.method &&
      aes !== undefined &&
      row.aes !== undefined &&
      equalBytes(aes.bytes, row.aes.bytes) &&
      ((local.flags & FLAG.descriptor) !== 0 ||
        (local.crc === row.crc && agrees(local.size, row.size) && agrees(local.compressedSize, row.compressedSize)));
    if (isSame) return row.localOffset + headBytes;
    throw this.fault("format/aerovault1.local", "its local header must say what the directory says, and does not", at);
  }
}

/** A number that a local header moves to its ZIP64 field is not compared: the directory's number counts. */
function agrees(local: number, central: number): boolean {
  return local === central || local === IN_ZIP64_32;
}

/** Entries whose verifiers replace the meta entry if that is damaged: 48 bits against chance. */
const WITNESSES = 3;

/**
 * The password of a vault of version 1. The first read of a file asks for it, and the meta entry proves it. It is kept
 * until the vault is closed, because every entry derives its own keys from it.
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

  /**
   * Throws `usage/password.wrong` and `usage/password.missing`. The vault owns the bytes. Asks once for all waiting
   * callers.
   */
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
      return false; // the meta entry is damaged; others may be intact
    }
  }

  /** True if the password matches the verifiers of a few other entries: then only the meta entry is damaged. */
  async #isWitnessed(password: Bytes): Promise<boolean> {
    for (const content of this.#others) {
      const keys = await content.keysFor(password);
      if (keys === undefined) return false;
      wipeEntryKeys(keys);
    }
    return this.#others.length > 0;
  }
}
