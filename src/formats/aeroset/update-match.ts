import { UsageError } from "../../base/errors.ts";
import { printable } from "../../base/text.ts";
import type { Tensor } from "../../model/tensor.ts";
import type { PartFile } from "./parts.ts";
import type { SetModel } from "./set-model.ts";

/** Names shown of those that are missing or too many. */
const MAX_NAMES = 3;

/** The part that the tensors belong to: the one asked for, else the one that holds exactly their names. */
export function findPart(set: SetModel, tensors: readonly Tensor[], wanted: string | undefined): PartFile {
  const names = new Set(tensors.map(({ name }) => name));
  const owned = namesByPart(set);
  if (wanted === undefined) return findByNames(set, names, owned);
  const part = set.content.partFiles.find(({ entry, number }) => wanted === String(number) || wanted === entry.path);
  if (part === undefined) {
    const message = `Cannot find part "${printable(wanted)}": the set has parts 0 to ${set.content.partFiles.length - 1}`;
    throw new UsageError("usage/aeroset.no-part", message, { source: labelOf(set) });
  }
  checkNames(set, part, { found: names, wanted: owned.get(part) ?? new Set() });
  return part;
}

function namesByPart(set: SetModel): ReadonlyMap<PartFile, ReadonlySet<string>> {
  const owned = new Map<PartFile, Set<string>>();
  for (const entry of set.content.entries) {
    const part = set.partOf(entry);
    if (part === undefined) continue;
    const names = owned.get(part) ?? new Set();
    owned.set(part, names.add(entry.name));
  }
  return owned;
}

function findByNames(
  set: SetModel,
  names: ReadonlySet<string>,
  owned: ReadonlyMap<PartFile, ReadonlySet<string>>,
): PartFile {
  for (const [part, own] of owned)
    if (own.size === names.size && [...names].every((name) => own.has(name))) return part;
  // The first name tells which part was meant, and so what is wrong.
  const [first] = names;
  for (const [part, own] of owned) {
    if (first !== undefined && own.has(first)) checkNames(set, part, { found: names, wanted: own });
  }
  const message = "Cannot tell which part to replace: no part of the set holds these tensors";
  throw new UsageError("usage/aeroset.no-part", message, { source: labelOf(set) });
}

interface Names {
  readonly found: ReadonlySet<string>;
  readonly wanted: ReadonlySet<string>;
}

function checkNames(set: SetModel, part: PartFile, { found, wanted }: Names): void {
  const missing = [...wanted].filter((name) => !found.has(name));
  const added = [...found].filter((name) => !wanted.has(name));
  if (missing.length + added.length === 0) return;
  const faults = [
    ...(missing.length === 0 ? [] : [`without ${listNames(missing)}`]),
    ...(added.length === 0 ? [] : [`with ${listNames(added)}, which the part does not have`]),
  ];
  const message = `Cannot replace "${printable(part.label)}": must be given exactly its tensors, found a file ${faults.join(" and ")}`;
  const hint = "Take the tensors of one part with: tare convert SET OUT.aero --include NAME";
  throw new UsageError("usage/aeroset.part-tensors", message, { source: labelOf(set) }, { hint });
}

function listNames(names: readonly string[]): string {
  const shown = names.slice(0, MAX_NAMES).map((name) => `"${printable(name)}"`);
  const more = names.length > MAX_NAMES ? ` and ${names.length - MAX_NAMES} more` : "";
  return `${shown.join(", ")}${more}`;
}

function labelOf(set: SetModel): string {
  return set.content.source.label;
}
