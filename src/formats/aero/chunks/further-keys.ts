import { type Bytes, concatBytes } from "../../../base/bytes.ts";
import { isTareError } from "../../../base/errors.ts";
import { decodeBase64, encodeBase64, printable } from "../../../base/text.ts";
import type { Loss } from "../../../model/finding.ts";
import type { Json } from "../../../model/origin/origin.ts";
import { MsgpackReader } from "../../../primitives/encoding/msgpack-reader.ts";
import type { MsgpackWriter } from "../../../primitives/encoding/msgpack-writer.ts";
import { ENTRY_FIELDS } from "../layout.ts";

/** Pairs of a MessagePack map as stored: key, value, key, value. */
export interface StoredPairs {
  readonly count: number;
  readonly bytes: Bytes;
  /** Present if one of the keys is `flags`; then the writer does not set it. */
  readonly flags?: "given" | undefined;
}

/**
 * The most stored bytes for all further keys of one file: they are kept in `tare.origin`, which readers hold in memory.
 * Larger extensions are reported as a loss.
 */
export const MAX_FURTHER_BYTES = 256 << 10;

/**
 * Keys of TIDX and MMSG that the specification does not name. It lets writers add them, so a rewritten file must have
 * them too.
 */
export class FurtherKeys {
  #left = MAX_FURTHER_BYTES;
  readonly #dropped = new Tally();
  readonly #misstated = new Tally();
  readonly #root: Bytes[] = [];
  readonly #manifest: Bytes[] = [];
  readonly #model: Bytes[] = [];
  readonly #entries = new Map<string, StoredPairs>();

  /** A pair of TIDX next to `tensors`. */
  root(key: string, pair: Bytes): void {
    this.#keep(this.#root, `TIDX.${key}`, pair);
  }

  /** Pairs of the entry of one tensor. */
  entry(name: string, pairs: readonly Bytes[]): void {
    const byteLength = pairs.reduce((sum, pair) => sum + pair.byteLength, 0);
    if (!this.#take(byteLength)) this.#drop(`TIDX entry "${printable(name)}"`);
    else this.#entries.set(name, { count: pairs.length, bytes: concatBytes(pairs) });
  }

  /** A pair of the manifest. */
  manifest(key: string, pair: Bytes): void {
    this.#keep(this.#manifest, `MMSG.${key}`, pair);
  }

  /** A pair of the manifest's `model`. */
  model(key: string, pair: Bytes): void {
    this.#keep(this.#model, `MMSG.model.${key}`, pair);
  }

  /** Something in the manifest that a new manifest has no place for. */
  unplaced(path: string): void {
    this.#drop(path);
  }

  /** A value in the manifest that a new manifest replaces by another. */
  misstated(path: string): void {
    this.#misstated.add(path);
  }

  /** For `tare.origin`; undefined if the file has no such keys. */
  facts(): { readonly [key: string]: Json } | undefined {
    const facts: { [key: string]: Json } = {};
    for (const [key, pairs] of [
      ["root", this.#root],
      ["manifest", this.#manifest],
      ["model", this.#model],
    ] as const) {
      if (pairs.length > 0) facts[key] = [pairs.length, encodeBase64(concatBytes(pairs))];
    }
    const entries = [...this.#entries].map(([name, { count, bytes }]) => [name, count, encodeBase64(bytes)]);
    if (entries.length > 0) facts["entries"] = entries;
    return Object.keys(facts).length === 0 ? undefined : facts;
  }

  /** All keys as losses: for formats that consist of AERO files and do not carry their keys. */
  allLosses(): Loss[] {
    const kept = this.#root.length + this.#manifest.length + this.#model.length + this.#entries.size;
    const names = [
      ...(this.#root.length > 0 ? ["TIDX"] : []),
      ...(this.#manifest.length + this.#model.length > 0 ? ["MMSG"] : []),
      ...[...this.#entries.keys()].slice(0, 1).map((name) => `TIDX entry "${printable(name)}"`),
    ];
    if (kept === 0) return this.losses();
    return [{ name: names.join(", "), reason: "has keys that the specification does not name" }, ...this.losses()];
  }

  /** What was not kept. */
  losses(): Loss[] {
    return [
      ...this.#dropped.losses("keys that the specification does not name, beyond what is carried"),
      ...this.#misstated.losses("a value that the file's tables do not have, and a new manifest repeats the tables"),
    ];
  }

  #keep(list: Bytes[], path: string, pair: Bytes): void {
    if (this.#take(pair.byteLength)) list.push(pair.slice());
    else this.#drop(printable(path));
  }

  #take(byteLength: number): boolean {
    if (byteLength > this.#left) return false;
    this.#left -= byteLength;
    return true;
  }

  #drop(path: string): void {
    this.#dropped.add(path);
  }
}

/** Counts paths and keeps the first. */
class Tally {
  #count = 0;
  #first = "";

  add(path: string): void {
    if (this.#count++ === 0) this.#first = path;
  }

  losses(reason: string): Loss[] {
    if (this.#count === 0) return [];
    const more = this.#count === 1 ? "" : ` and ${this.#count - 1} more`;
    return [{ name: this.#first, reason: `${reason}${more}` }];
  }
}

/** The result of `FurtherKeys.facts`, ready to be written. */
export interface CarriedKeys {
  readonly root?: StoredPairs | undefined;
  readonly manifest?: StoredPairs | undefined;
  readonly model?: StoredPairs | undefined;
  readonly entries: ReadonlyMap<string, StoredPairs>;
}

const NOTHING: CarriedKeys = { entries: new Map() };
const MANIFEST_KEYS: readonly string[] = ["format", "model", "chunks", "shards"];
const MODEL_KEYS: readonly string[] = ["name", "architecture"];
const ENTRY_KEYS = ENTRY_FIELDS.filter((key) => key !== "flags");

/** Facts come from a file: ignores everything that is not as `FurtherKeys` writes it. */
export function parseFurther(fact: Json | undefined): CarriedKeys {
  if (typeof fact !== "object" || fact === null || Array.isArray(fact)) return NOTHING;
  const { root, manifest, model, entries } = fact as { readonly [key: string]: Json };
  const rows = Array.isArray(entries) ? (entries as readonly Json[]) : [];
  return {
    root: parsePairs(root, ["tensors"]),
    manifest: parsePairs(manifest, MANIFEST_KEYS),
    model: parsePairs(model, MODEL_KEYS),
    entries: new Map(
      rows.flatMap((row) => {
        const [name, ...rest] = Array.isArray(row) ? (row as readonly Json[]) : [];
        const pairs = parsePairs(rest, ENTRY_KEYS);
        return typeof name === "string" && pairs !== undefined ? [[name, pairs] as const] : [];
      }),
    ),
  };
}

/** `[count, base64]`. Refuses keys that the writer sets itself: they would appear twice, and no reader accepts that. */
function parsePairs(fact: Json | undefined, taken: readonly string[]): StoredPairs | undefined {
  const [count, text] = Array.isArray(fact) ? (fact as readonly Json[]) : [];
  const bytes = typeof text === "string" ? decodeBase64(text) : undefined;
  if (bytes === undefined || typeof count !== "number" || bytes.byteLength > MAX_FURTHER_BYTES) return undefined;
  const reader = new MsgpackReader(bytes, { source: "tare.origin", base: 0, what: "AERO keys" });
  try {
    let found = 0;
    let flags: StoredPairs["flags"];
    for (; reader.remaining > 0; found++) {
      const key = reader.readKey();
      if (taken.includes(key)) return undefined;
      if (key === "flags") flags = "given";
      reader.skip();
    }
    return found === count ? { count, bytes, flags } : undefined;
  } catch (error) {
    if (isTareError(error)) return undefined;
    throw error;
  }
}

/** Appends the pairs to a map whose header counts them. */
export function writePairs(writer: MsgpackWriter, pairs: StoredPairs | undefined): void {
  if (pairs !== undefined) writer.encoded(pairs.bytes);
}
