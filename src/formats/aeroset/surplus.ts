import { printable } from "../../base/text.ts";
import type { Loss } from "../../model/format.ts";
import { fingerprint } from "../../model/metadata-json.ts";
import { type AeroModel, aeroLosses } from "../aero/model.ts";
import type { PartFile } from "./parts.ts";
import type { SetContent } from "./set-model.ts";

/** More are told by their number. */
const MAX_LISTED = 20;

/**
 * What a set holds that one written anew from its tensors and metadata would not have: keys of the JSON that the
 * specification does not name, and what its files hold beside their tensors. Of parts only those that are open are known.
 */
export function setLosses(content: SetContent): Loss[] {
  const { file, index, partFiles, entries } = content;
  const names = new Set(entries.map(({ name }) => name));
  return [
    ...listed(file.further),
    ...nameLosses(content),
    ...aeroLosses(index.content, "keys are lost").map((loss) => inFile("global_tidx", loss)),
    ...partFiles.flatMap((part) => partLosses(part, index, names)),
  ];
}

/** What one part holds beside its tensors; nothing where it is not open. */
function partLosses(part: PartFile, index: AeroModel, names: ReadonlySet<string>): Loss[] {
  const { model, label } = part;
  if (model === undefined) return [];
  const strangers = model.tensors.filter(({ name }) => !names.has(name));
  return [
    ...aeroLosses(model.content, "keys are lost"),
    ...metadataLosses(model, index),
    ...strangers.slice(0, 1).map(({ name }) => {
      const more = strangers.length === 1 ? "" : ` and ${strangers.length - 1} more`;
      return { name, reason: `the part has this tensor${more}, the index of the set has not` };
    }),
  ].map((loss) => inFile(label, loss));
}

/** Keys that say what a part is, or that are made anew with it. */
const PART_KEYS: ReadonlySet<string> = new Set([
  "model_name",
  "architecture",
  "aeroset_part",
  "source_format",
  "quant_descriptors",
]);

/** Metadata of a part alone: the model's own stands in the index. */
function metadataLosses({ metadata }: AeroModel, index: AeroModel): Loss[] {
  return metadata.entries
    .filter(({ key, value }) => {
      const global = index.metadata.get(key);
      return !PART_KEYS.has(key) && (global === undefined || fingerprint(global) !== fingerprint(value));
    })
    .map(({ key }) => ({ name: key, reason: "metadata that the index of the set does not have" }));
}

/** A JSON that is made anew repeats the words of the index. */
function nameLosses({ file, index }: SetContent): Loss[] {
  return (
    [
      ["name", "model_name"],
      ["architecture", "architecture"],
    ] as const
  ).flatMap(([field, key]) => {
    const text = file.model[field];
    const value = index.metadata.get(key);
    if (text === undefined || text === "" || value === undefined) return [];
    if (value.type === "string" && value.value === text) return [];
    return [{ name: `model.${field}`, reason: `"${printable(text)}", where the index has another ${key}` }];
  });
}

function listed(paths: readonly string[]): Loss[] {
  const losses = paths
    .slice(0, MAX_LISTED)
    .map((path) => ({ name: printable(path), reason: "a key that the specification does not name" }));
  const more = paths.length - losses.length;
  return more === 0 ? losses : [...losses, { name: `${more} more keys`, reason: "as the ones before" }];
}

function inFile(label: string, loss: Loss): Loss {
  return { ...loss, reason: `${loss.reason} (${label})` };
}
