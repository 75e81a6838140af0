import { type Bytes, equalBytes } from "../../base/bytes.ts";
import { FormatError, IntegrityError, type Location } from "../../base/errors.ts";
import { printable } from "../../base/text.ts";
import type { Source } from "../../bytes/source.ts";
import { createHmac, equalSecrets } from "../../primitives/crypto/hmac.ts";
import type { Engine } from "../../primitives/engine.ts";
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
import type { ZipRow } from "./zip-directory.ts";
import { decodeExtra } from "./zip-extra.ts";

/** What is read and hashed at a time; whole blocks of AES. */
export const STEP_BYTES = 1 << 20;

/** What entries are read with. */
export interface ContentContext {
  readonly source: Source;
  readonly engine: Engine;
}

/** The stored bytes of one file: where they are, and whether they are those that were written. */
export class EntryContent {
  readonly row: ZipRow;
  readonly #context: ContentContext;
  /** Where the next entry or the directory begins: nothing is read beyond it. */
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

  /** Of the first byte of ciphertext, in the file. */
  async cipherOffset(): Promise<number> {
    return (await this.#payloadOffset()) + HEAD_BYTES;
  }

  /** The keys, where the password has the entry's verifier: one in 65536 others has it too. Undefined where not. */
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

  /** The local header says the same as the directory, or readers would disagree on what the entry is. */
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

/** A number that a local header leaves to its ZIP64 field is not looked at: the directory's counts. */
function agrees(local: number, central: number): boolean {
  return local === central || local === IN_ZIP64_32;
}
