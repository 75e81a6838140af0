import type { Bytes } from "../../base/bytes.ts";
import { LimitError, type Location, UnsupportedError, UsageError } from "../../base/errors.ts";
import { nearestFirst } from "../../base/nearest.ts";
import { isWellFormed, printable } from "../../base/text.ts";
import {
  factsOf,
  HEADER_ID,
  keyName,
  type ListedKey,
  ownKeys,
  vaultKeys,
  withKeyList,
} from "../../formats/aerovault/extensions/key-list.ts";
import {
  isSlotId,
  type KeySlot,
  keyBase,
  MOST_SLOTS,
  newSlotId,
  readSlot,
  readSlots,
  slotRow,
  slotRowId,
  wrapSlot,
} from "../../formats/aerovault/extensions/slots.ts";
import { deriveBase, SALT_BYTES } from "../../formats/aerovault/keys.ts";
import { NO_EXTRA_KEYS } from "../../formats/aerovault/manifest/field-reader.ts";
import type { Vault } from "../../formats/aerovault/vault.ts";
import type { NewKeys } from "../../formats/aerovault/write/edit.ts";
import type { VaultState } from "../../formats/aerovault/write/state.ts";
import type { ArchiveKey } from "../../model/archive.ts";
import { type RandomBytes, wipe } from "../../primitives/crypto/secrets.ts";
import type { Engine } from "../../primitives/engine.ts";

/** The longest label: it is shown on one line. */
const LABEL_CHARACTERS = 100;

export type NewKeyKind = "password" | "key-file" | "recovery";

/** A key that a vault gets besides those that it has. */
export interface NewKey {
  readonly kind: NewKeyKind;
  /** The password, or the bytes of the key. The caller wipes them. */
  readonly secret: Bytes;
  readonly label?: string | undefined;
}

export interface NewKeyContext {
  readonly engine: Engine;
  readonly random: RandomBytes;
  /** The time of the change, in the form of manifests. */
  readonly now: string;
  readonly signal?: AbortSignal | undefined;
}

/** Keys after a change: what is written, and what is told of it. */
export interface ChangedKeys {
  /** The key that was added or removed. */
  readonly key: ArchiveKey;
  readonly ring: NewKeys;
  readonly keys: readonly ArchiveKey[];
}

/** Refuses a key that the vault cannot have, before its secret is asked for. */
export function checkNewKey(vault: Vault, label: string | undefined): void {
  const { manifest, extensions, source } = vault;
  const at = { source: source.label };
  checkEncrypted(vault, "give another key to");
  const own = ownKeys(manifest, extensions) ?? [];
  if (label !== undefined) checkLabel(label, own, at);
  if (standing(own, extensions).length < MOST_SLOTS) return;
  const message = `Cannot give another key to "${at.source}": it must have at most ${MOST_SLOTS} besides its first password`;
  const hint = "Take one out with: tare vault key rm";
  throw new LimitError("limit/aerovault.keys", message, at, { hint });
}

/** A vault without encryption has no keys. */
export function checkEncrypted({ keys, source }: Pick<Vault, "keys" | "source">, action: string): void {
  if (keys.lane === "encrypted") return;
  const message = `Cannot ${action} "${source.label}": it is not encrypted`;
  const hint = "Create an encrypted vault, and add what is in this one";
  throw new UnsupportedError("unsupported/vault.plain", message, { source: source.label }, { hint });
}

/** A label is a name on one line, and not what could be the id of a key. */
function checkLabel(label: string, own: readonly ListedKey[], at: Location): void {
  const isLine = isWellFormed(label) && /^\P{Cc}+$/u.test(label) && label.trim() === label;
  const fault = !isLine
    ? "must be text on one line, without white space at its ends"
    : label.length > LABEL_CHARACTERS
      ? `must have at most ${LABEL_CHARACTERS} characters`
      : label === HEADER_ID || isSlotId(label)
        ? "must not be like the id of a key"
        : own.some((key) => key.label === label)
          ? "another key of the vault has it"
          : undefined;
  if (fault === undefined) return;
  throw new UsageError("usage/vault.key", `Cannot use the label "${printable(label)}": ${fault}`, at);
}

/** The vault's own slots among the rows, and those that others put there. */
function standing(own: readonly ListedKey[], rows: Vault["extensions"]): readonly KeySlot[] {
  const listed = new Set(own.map(({ id }) => id));
  return readSlots(rows).filter(({ id }) => listed.has(id));
}

/** Wraps the keys of a vault for another password or key. */
export async function addKey(vault: Vault, fresh: NewKey, context: NewKeyContext): Promise<ChangedKeys> {
  checkNewKey(vault, fresh.label);
  const { manifest, extensions } = vault;
  const { random, now } = context;
  const own = ownKeys(manifest, extensions) ?? [];
  const taken = new Set([...own, ...readSlots(extensions)].map(({ id }) => id));
  const slot = await makeSlot(vault, fresh, { ...context, id: newSlotId(random, taken) });
  const { kind, label } = fresh;
  const listed = { id: slot.id, kind, label, created: now, extra: NO_EXTRA_KEYS };
  const mine = new Set(standing(own, extensions).map(({ id }) => id));
  const isMine = (row: Vault["extensions"][number]): boolean => mine.has(readSlot(row)?.id ?? "");
  const isStray = (row: Vault["extensions"][number]): boolean => readSlot(row) !== undefined && !isMine(row);
  // Only the first slots count for a reader, so those that others put there come last.
  const rows = [
    ...extensions.filter((row) => !isStray(row) && !isMine(row)),
    ...extensions.filter(isMine),
    slotRow(slot),
    ...extensions.filter(isStray),
  ];
  return changed(factsOf(listed), { rows, extra: withKeyList(manifest.extra, [...own, listed]) });
}

async function makeSlot(
  vault: Vault,
  { kind, secret }: NewKey,
  { engine, random, signal, id }: NewKeyContext & { readonly id: string },
): Promise<KeySlot> {
  const { keys, header, manifest, extensions } = vault;
  const own = standing(ownKeys(manifest, extensions) ?? [], extensions);
  // One salt for all passwords, so that a wrong one costs little more than in a vault without slots.
  const shared = own.find((slot) => slot.kind === "password")?.salt ?? header.values.salt;
  const salt = kind === "password" ? shared.slice() : random(SALT_BYTES);
  const base =
    kind === "password" ? await deriveBase(engine, secret, { salt, signal }) : await keyBase(engine, secret, salt);
  try {
    return await wrapSlot(engine, keys, base, { id, kind: kind === "password" ? "password" : "key", salt });
  } finally {
    wipe(base);
  }
}

/** Takes out the slot of this id or label. */
export function removeKey(vault: Vault, named: string): ChangedKeys {
  const { manifest, extensions, source } = vault;
  const at = { source: source.label };
  checkEncrypted(vault, "remove a key of");
  if (named === HEADER_ID) {
    const message = `Cannot remove the first password of "${at.source}": every vault has one`;
    throw new UsageError("usage/vault.key", message, at, { hint: "Change it with: tare vault passwd" });
  }
  const key = findKey(vaultKeys(manifest, extensions).slice(1), named, at);
  const own = (ownKeys(manifest, extensions) ?? []).filter(({ id }) => id !== key.id);
  const rows = extensions.filter(({ extensionId }) => extensionId !== slotRowId(key.id));
  return changed(key, { rows, extra: withKeyList(manifest.extra, own) });
}

/** An id counts before a label, and no label is like an id. */
function findKey(keys: readonly ArchiveKey[], named: string, at: Location): ArchiveKey {
  const found = keys.find(({ id }) => id === named) ?? keys.find(({ label }) => label === named);
  if (found !== undefined) return found;
  const message = `Cannot find the key "${printable(named)}" of "${at.source}"`;
  const names = keys.map(({ id, label }) => label ?? id);
  const hint = names.length === 0 ? "It has no key but its first password" : nearestFirst(named, names, "Its keys are");
  throw new UsageError("usage/vault.key-not-found", message, at, { hint });
}

function changed(key: ArchiveKey, ring: Pick<Required<NewKeys>, "rows" | "extra">): ChangedKeys {
  return { key, ring, keys: vaultKeys(ring, ring.rows) };
}

/**
 * The state of a vault without key slots, for new keys: slots cannot be wrapped again without their passwords. The empty
 * list says that whatever is put back opens nothing.
 */
export function withoutSlots(state: VaultState): VaultState {
  if (ownKeys(state.manifest, state.extensions) === undefined) return state;
  const manifest = { ...state.manifest, extra: withKeyList(state.manifest.extra, []) };
  return { ...state, manifest, extensions: state.extensions.filter((row) => readSlot(row) === undefined) };
}

/** The keys that end when a vault gets new ones: all but the header's password. */
export function slotKeys({ manifest, extensions }: Pick<Vault, "manifest" | "extensions">): readonly ArchiveKey[] {
  return vaultKeys(manifest, extensions)
    .slice(1)
    .filter(({ state }) => state !== "unlisted");
}

/** A list of keys for messages. */
export function keyNames(keys: readonly ArchiveKey[]): string {
  return keys.map(keyName).join(", ");
}
