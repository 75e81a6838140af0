import { isTareError, type Location, UsageError } from "../../../base/errors.ts";
import { printable } from "../../../base/text.ts";
import type { ArchiveKey } from "../../../model/archive.ts";
import type { Finding } from "../../../model/finding.ts";
import { JsonScanner } from "../../../struct/json-scanner.ts";
import { type ExtraKeys, FieldReader, NO_EXTRA_KEYS } from "../manifest/field-reader.ts";
import type { Manifest } from "../manifest/records.ts";
import type { ExtensionRow } from "./rows.ts";
import { isSlotId, readSlots } from "./slots.ts";

/**
 * The list of key slots in the manifest: labels, kinds and dates, which rows could not keep secret, and which slots there
 * are, so that one that somebody puts back opens nothing (docs/formats/aerovault.md#key-slots). Other programs drop it.
 */

/** The manifest's key for it. */
const LIST_KEY = "keys";
/** How many slots a finding names. */
const NAMED_SLOTS = 3;

/** A slot as the list has it. */
export interface ListedKey {
  readonly id: string;
  /** "password", "key-file", "recovery", "key"; or what a later version writes. */
  readonly kind: string;
  readonly label?: string | undefined;
  readonly created?: string | undefined;
  readonly extra: ExtraKeys;
}

type ListHolder = Pick<Manifest, "extra">;

/** The list; undefined if there is none, or if another program uses its name for something else. */
export function readKeyList({ extra }: ListHolder): readonly ListedKey[] | undefined {
  const text = extra.get(LIST_KEY);
  if (text === undefined) return undefined;
  const scanner = new JsonScanner(text, { source: "vault", offset: 0, what: "the list of keys" });
  const reader = new FieldReader(scanner, "format/aerovault.manifest");
  const list: ListedKey[] = [];
  try {
    reader.list(() => list.push(readKey(reader)));
  } catch (error) {
    if (isTareError(error)) return undefined;
    throw error;
  }
  return list.every(({ id }) => isSlotId(id)) ? list : undefined;
}

function readKey(reader: FieldReader): ListedKey {
  let id: string | undefined;
  let kind: string | undefined;
  let label: string | undefined;
  let created: string | undefined;
  let extra: Map<string, string> | undefined;
  reader.record((key) => {
    if (key === "id") id = reader.text();
    else if (key === "kind") kind = reader.text();
    else if (key === "label") label = reader.orNull(() => reader.text());
    else if (key === "created") created = reader.orNull(() => reader.text());
    else extra = reader.keep(extra, key);
  });
  return { id: reader.need(id, "id"), kind: reader.need(kind, "kind"), label, created, extra: extra ?? NO_EXTRA_KEYS };
}

/** The keys of a manifest with this list in it. */
export function withKeyList(extra: ExtraKeys, list: readonly ListedKey[]): ExtraKeys {
  const texts = list.map(({ id, kind, label, created, extra: others }) => {
    const named = label === undefined ? "" : `,"label":${JSON.stringify(label)}`;
    const dated = created === undefined ? "" : `,"created":${JSON.stringify(created)}`;
    const rest = [...others].map(([key, value]) => `,${JSON.stringify(key)}:${value}`).join("");
    return `{"id":${JSON.stringify(id)},"kind":${JSON.stringify(kind)}${named}${dated}${rest}}`;
  });
  return new Map([...extra, [LIST_KEY, `[${texts.join(",")}]`]]);
}

/**
 * The slots that a vault counts as its own. Without a list, which another program dropped, these are all that stand
 * there. Undefined if there is neither a list nor a slot: such a vault gets no list.
 */
export function ownKeys(manifest: ListHolder, rows: readonly ExtensionRow[]): readonly ListedKey[] | undefined {
  const list = readKeyList(manifest);
  if (list !== undefined) return list;
  const found = readSlots(rows).map(({ id, kind }): ListedKey => ({ id, kind, extra: NO_EXTRA_KEYS }));
  return found.length === 0 ? undefined : found;
}

/** How many slots the next change lists again, because another program dropped the list. */
export function unlistedCount(manifest: ListHolder, rows: readonly ExtensionRow[]): number {
  return readKeyList(manifest) === undefined ? readSlots(rows).length : 0;
}

/** What opens a vault: the header's password first. */
export function vaultKeys(manifest: ListHolder, rows: readonly ExtensionRow[]): readonly ArchiveKey[] {
  const standing = new Set(readSlots(rows).map(({ id }) => id));
  const own = ownKeys(manifest, rows) ?? [];
  const listed = own.map(
    (key): ArchiveKey => (standing.has(key.id) ? factsOf(key) : { ...factsOf(key), state: "gone" }),
  );
  const known = new Set(own.map(({ id }) => id));
  const strays = readSlots(rows)
    .filter(({ id }) => !known.has(id))
    .map(({ id, kind }): ArchiveKey => ({ id, label: null, kind, created: null, state: "unlisted" }));
  return [{ id: HEADER_ID, label: null, kind: "password", created: null }, ...listed, ...strays];
}

/** The id of the key that every vault has, and that other programs know. */
export const HEADER_ID = "header";

export function factsOf({ id, kind, label, created }: ListedKey): ArchiveKey {
  return { id, label: label ?? null, kind: KINDS.find((known) => known === kind) ?? "key", created: created ?? null };
}

const KINDS = ["password", "key-file", "recovery", "key"] as const;

/** How messages call a key. */
export function keyName({ id, label }: Pick<ArchiveKey, "id" | "label">): string {
  return label === null ? id : `"${printable(label)}" (${id})`;
}

/** Refuses keys that came from a slot that is not on the list: it was removed, and somebody put it back. */
export function checkListed(slot: string | undefined, manifest: ListHolder, at: Location): void {
  const list = slot === undefined ? undefined : readKeyList(manifest);
  if (list === undefined || list.some(({ id }) => id === slot)) return;
  const message = `Cannot open "${at.source}" with this key: its slot ${slot} was removed from the vault, and put back by somebody`;
  const hint = "Open it with another key, and take the slot out with: tare vault key rm";
  throw new UsageError("key/slot.removed", message, { ...at, path: `extensions["${slot}"]` }, { hint });
}

/** What is doubtful about the slots of a vault: some were taken, others put there by somebody. */
export function* slotFindings(manifest: ListHolder, rows: readonly ExtensionRow[], at: Location): Generator<Finding> {
  const keys = vaultKeys(manifest, rows);
  const named = (state: ArchiveKey["state"]): string | undefined => {
    const names = keys.filter((key) => key.state === state).map(keyName);
    const more = names.length - NAMED_SLOTS;
    return names.length === 0
      ? undefined
      : `${names.slice(0, NAMED_SLOTS).join(", ")}${more > 0 ? ` and ${more} more` : ""}`;
  };
  const gone = named("gone");
  if (gone !== undefined) {
    const message = `Key slots of the vault are gone or damaged, and open it no more: ${gone}`;
    const hint =
      "Somebody took them: make them again with tare vault key add, or take them off the list with tare vault key rm";
    yield { severity: "warning", code: "integrity/aerovault.slot-gone", message, at, hint };
  }
  const unlisted = named("unlisted");
  if (unlisted !== undefined) {
    const message = `Key slots stand in the vault that it does not list, and open nothing: ${unlisted}`;
    const hint = "Somebody put them there: take them out with tare vault key rm";
    yield { severity: "warning", code: "integrity/aerovault.slot-unlisted", message, at, hint };
  }
}

/** True for a finding of `slotFindings`. */
export function isSlotFinding({ code }: Pick<Finding, "code">): boolean {
  return code === "integrity/aerovault.slot-gone" || code === "integrity/aerovault.slot-unlisted";
}
