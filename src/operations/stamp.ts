import { IntegrityError, UnsupportedError, UsageError } from "../base/errors.ts";
import type { LimitOverrides } from "../base/limits.ts";
import { printable } from "../base/text.ts";
import type { Sink } from "../bytes/sink.ts";
import type { FormatRestamp } from "../model/capabilities.ts";
import type { Loss } from "../model/finding.ts";
import type { FormatReader, Opened } from "../model/format.ts";
import { type Metadata, type MetadataValue, stringValue } from "../model/metadata.ts";
import { fingerprint } from "../model/metadata-json.ts";
import { type Model, nearNames } from "../model/model.ts";
import { type CarriedEntry, encodeOrigin, ORIGIN_KEY, parseOrigin } from "../model/origin/origin.ts";
import type { Tensor } from "../model/tensor.ts";
import type { Engine } from "../primitives/engine.ts";
import { unclaimedWithin } from "./reading/unclaimed.ts";
import { type Patch, SplicedSource } from "./stamp/spliced-source.ts";
import { checkEditable, type EnteredValue, fitValue } from "./stamp/values.ts";

export { type Patch, SplicedSource } from "./stamp/spliced-source.ts";
export { decodeEntered, type EnteredValue, parseEntered, typeOf } from "./stamp/values.ts";

/** One edit; later ones win. */
export type MetadataEdit =
  | { readonly kind: "set"; readonly key: string; readonly entered: EnteredValue }
  | { readonly kind: "unset"; readonly key: string };

/** The effect of an edit on a key. */
export interface MetadataChange {
  readonly key: string;
  readonly before: MetadataValue | undefined;
  readonly after: MetadataValue | undefined;
}

export interface StampContext {
  readonly engine: Engine;
  readonly limits?: LimitOverrides | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Leaves out a signature inside the file; without this a signed file is refused. */
  readonly signature?: "drop" | undefined;
}

/** A file with other metadata, planned and checked; nothing is written yet. */
export interface StampPlan {
  /** Label of the file that changes: the first one of a split set. */
  readonly label: string;
  /** Only keys whose values differ. */
  readonly changes: readonly MetadataChange[];
  /** Notes for the user about the edits. */
  readonly notes: readonly string[];
  /** The file after the edits. */
  readonly result: SplicedSource;
  /** What to write over the file if the room suffices; undefined if tensors have to move. */
  readonly patches: readonly Patch[] | undefined;
}

/**
 * Plans edits of a model's metadata. The planned file is opened before this returns: its metadata must match the edits,
 * and every tensor must be the same run of the same bytes.
 */
export async function planStamp(
  opened: Opened,
  edits: readonly MetadataEdit[],
  context: StampContext,
): Promise<StampPlan> {
  const { container, format, reader } = opened;
  const source = container.parts[0]?.label ?? container.format;
  if (edits.length === 0) {
    throw new UsageError("usage/stamp.empty", "Cannot stamp without an edit: must set or unset a key", { source });
  }
  const { restamp } = (await format.write?.()) ?? {};
  if (restamp === undefined || container.kind !== "model") throw noRestamp(opened, source);
  const target = restamp.target(container);
  const { metadata, notes } = applyEdits(target.metadata, edits, { restamp, source });
  const changes = changesBetween(target.metadata, metadata);
  const { engine, signal, signature } = context;
  const limits = context.limits ?? {};
  const unchanged = [{ kind: "copy", offset: 0, byteLength: target.source.byteLength }] as const;
  const pieces =
    changes.length === 0 ? unchanged : await restamp.plan(container, metadata, { engine, limits, signal, signature });
  const result = new SplicedSource(target.source, pieces);
  if (changes.length > 0) {
    const rewritten = { label: target.source.label, runs: result.replaced() };
    refuseLosses([...(target.unread ?? []), ...(await unclaimedWithin(opened, rewritten, signal))], source);
    await checkResult(result, { before: container, metadata, reader, restamp, context });
  }
  return { label: target.source.label, changes, notes, result, patches: await result.patches(signal) };
}

/** Writes the whole planned file; the caller commits the sink. */
export async function writeStamp(
  { result }: StampPlan,
  sink: Sink,
  options: { readonly signal?: AbortSignal | undefined; readonly onProgress?: (byteLength: number) => void } = {},
): Promise<void> {
  for await (const piece of result.stream(0, { signal: options.signal })) {
    await sink.append(piece);
    options.onProgress?.(piece.byteLength);
  }
}

/** Values and bytes that no edit is about, in what is written again. */
function refuseLosses([first, ...more]: readonly Loss[], source: string): void {
  if (first === undefined) return;
  const others = more.length === 0 ? "" : ` and ${more.length} more`;
  const message = `Cannot stamp without loss: ${printable(first.name)} (${first.reason})${others}`;
  const hint =
    "To go on without it, lay the new values over a copy: tare convert, with the option metadata and the option allowLossy";
  throw new UnsupportedError("unsupported/lossy", message, first.at ?? { source }, { hint });
}

interface EditRules {
  readonly restamp: FormatRestamp;
  readonly source: string;
}

function applyEdits(
  metadata: Metadata,
  edits: readonly MetadataEdit[],
  { restamp, source }: EditRules,
): { readonly metadata: Metadata; readonly notes: readonly string[] } {
  const notes: string[] = [];
  let edited = metadata;
  for (const edit of edits) {
    const { key } = edit;
    checkEditable(key, restamp.fixedKeys, source);
    if (edit.kind === "set") {
      const value = fitValue(key, edit.entered, metadata.get(key), restamp.values);
      edited = reviseOrigin(edited, key, "set").with(key, value);
      continue;
    }
    const revised = reviseOrigin(edited, key, "unset");
    if (revised === edited && edited.get(key) === undefined) notes.push(absentNote(key, edited));
    edited = revised.without(key);
  }
  return { metadata: edited, notes };
}

function absentNote(key: string, metadata: Metadata): string {
  const near = nearNames(
    key,
    metadata.entries.map((entry) => entry.key),
  );
  const hint = near.length === 0 ? "" : `; did you mean ${near.map((name) => `"${printable(name)}"`).join(", ")}?`;
  return `There is no key "${printable(key)}" to unset${hint}`;
}

function changesBetween(before: Metadata, after: Metadata): readonly MetadataChange[] {
  const keys = new Set([...before.entries, ...after.entries].map(({ key }) => key));
  const changes: MetadataChange[] = [];
  for (const key of keys) {
    const [old, now] = [before.get(key), after.get(key)];
    if (old === now || (old !== undefined && now !== undefined && fingerprint(old) === fingerprint(now))) continue;
    changes.push({ key, before: old, after: now });
  }
  return changes;
}

interface Expected {
  readonly before: Model;
  readonly metadata: Metadata;
  readonly reader: FormatReader;
  readonly restamp: FormatRestamp;
  readonly context: StampContext;
}

/** Opens the planned file before any byte of it is written. */
async function checkResult(
  result: SplicedSource,
  { before, metadata, reader, restamp, context }: Expected,
): Promise<void> {
  const { engine, limits = {}, signal } = context;
  const after = await reader.open(result, { engine, limits, signal });
  const [change] = changesBetween(restamp.target(after).metadata, metadata);
  if (change !== undefined) throw unwritten(result.label, `the metadata key "${printable(change.key)}"`);
  const own = before.tensors.filter(({ file }) => file === undefined || file === result.label);
  const now = after.kind === "model" ? after.tensors : [];
  if (own.length !== now.length) throw unwritten(result.label, "the list of tensors");
  for (const [i, tensor] of own.entries()) {
    const other = now[i];
    if (other === undefined || !isSameTensor(tensor, other, result)) {
      throw unwritten(result.label, `the tensor "${printable(tensor.name)}"`);
    }
  }
}

function isSameTensor(a: Tensor, b: Tensor, result: SplicedSource): boolean {
  const isSame =
    a.name === b.name &&
    a.dtype === b.dtype &&
    a.byteLength === b.byteLength &&
    a.storedByteLength === b.storedByteLength &&
    a.shape.length === b.shape.length &&
    a.shape.every((dimension, i) => dimension === b.shape[i]);
  return isSame && (a.storedByteLength === 0 || result.originOf(b.offset, b.storedByteLength) === a.offset);
}

function noRestamp({ container, format }: Opened, source: string): UnsupportedError {
  if (container.parts.length > 1 || format.id === "aeroset") {
    const message = `Cannot edit the metadata of this set (${format.name}): must be one file`;
    const hint = "Make one file of it with tare merge, stamp that, and cut it again";
    return new UnsupportedError("unsupported/stamp.set", message, { source }, { hint });
  }
  const message = `Cannot edit the metadata of ${format.name}: must be SafeTensors, GGUF, AERO, APR or EMBD`;
  return new UnsupportedError("unsupported/stamp.layout", message, { source });
}

function unwritten(source: string, what: string): IntegrityError {
  const message = `Cannot stamp: ${what} would not be read back as it should be; nothing was written`;
  return new IntegrityError("integrity/stamp", message, { source });
}

/**
 * Adapts `tare.origin` to an edit of a key. A value that only the origin carried must not come back in the next
 * conversion, and a key that a writer had added belongs to the model once it is set. The type of a value that the file
 * holds as text or as a plain number stays.
 */
function reviseOrigin(metadata: Metadata, key: string, edit: "set" | "unset"): Metadata {
  const text = metadata.text(ORIGIN_KEY);
  const origin = text === undefined ? undefined : parseOrigin(text);
  const entry = origin?.entries?.find(([name]) => name === key);
  if (origin?.entries === undefined || entry === undefined) return metadata;
  const isHeld = entry.length === 1 || (entry.length === 2 && entry[1] !== "added");
  if (edit === "set" && isHeld) return metadata;
  const entries = origin.entries.flatMap((other): CarriedEntry[] => {
    if (other[0] !== key) return [other];
    return edit === "set" ? [[key]] : [];
  });
  return metadata.with(ORIGIN_KEY, stringValue(encodeOrigin({ ...origin, entries })));
}
