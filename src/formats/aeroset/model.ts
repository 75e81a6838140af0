import { FormatError, isTareError, UsageError } from "../../base/errors.ts";
import { printable } from "../../base/text.ts";
import { failingSource, LazySource } from "../../bytes/derived.ts";
import { PARALLEL_FILES } from "../../bytes/resolver.ts";
import type { Source } from "../../bytes/source.ts";
import type { Container } from "../../model/archive.ts";
import type { Finding, Loss } from "../../model/finding.ts";
import type { PartRange } from "../../model/format.ts";
import { Metadata, type MetadataEntry, stringValue } from "../../model/metadata.ts";
import { fingerprint } from "../../model/metadata-json.ts";
import { type Model, type Part, TensorIndex, type Verification } from "../../model/model.ts";
import { Tensor } from "../../model/tensor.ts";
import { type AeroModel, aeroLosses } from "../aero/model.ts";
import type { GlobalEntry, PlacedTensor } from "./part-tensors.ts";
import { labelOf, type PartFile } from "./parts.ts";
import type { ParsedSetFile } from "./set-file.ts";

/** What opening a set reads. */
export interface SetContent {
  /** The JSON. */
  readonly source: Source;
  readonly file: ParsedSetFile;
  /** `global_tidx`, opened: a file without weights. */
  readonly index: AeroModel;
  /** The tensors of the index, in its order. */
  readonly entries: readonly GlobalEntry[];
  readonly partFiles: readonly PartFile[];
  /** The part of each shard; the last one counts if several claim it. */
  readonly partOfShard: ReadonlyMap<number, PartFile>;
  readonly warnings: readonly Finding[];
}

type Place = Pick<Tensor, "offset" | "storedByteLength">;

const NOWHERE: Place = { offset: 0, storedByteLength: 0 };

/** The JSON and the global index come first in `SetModel.parts`; the parts of the set follow from here. */
export const FIRST_PART = 2;

/** An opened set. Owns the sources of the JSON, the index and every opened part. */
export class SetModel implements Model {
  readonly kind = "model";
  readonly format = "aeroset";
  readonly version: string;
  readonly content: SetContent;
  readonly parts: readonly Part[];
  readonly metadata: Metadata;
  readonly warnings: readonly Finding[];
  readonly facts: readonly (readonly [string, string])[];
  #index: TensorIndex;
  #numbers: ReadonlyMap<string, number> | undefined;
  readonly #placed = new Map<number, PlacedTensor>();

  constructor(content: SetContent) {
    const { source, file, index, partFiles } = content;
    this.content = content;
    this.version = file.version.join(".");
    this.parts = [
      { label: source.label, byteLength: source.byteLength, source },
      { ...(index.parts[0] as Part), label: labelOf(file.globalIndex.path) },
      ...partFiles,
    ];
    this.metadata = metadataOf(content);
    this.warnings = content.warnings;
    this.facts = factsOf(content);
    this.#index = this.#list((entry) => ({ offset: entry.dataOff, storedByteLength: entry.dataLen }));
  }

  /** Before a part is open, a tensor's offset counts from the beginning of its shard. */
  get tensors(): readonly Tensor[] {
    return this.#index.tensors;
  }

  /** Covers only the open parts. */
  get unread(): readonly Loss[] {
    return setLosses(this.content);
  }

  /** Covers only the open parts. */
  async findSurplus(options: { readonly signal?: AbortSignal | undefined } = {}): Promise<readonly Loss[]> {
    const { index, partFiles } = this.content;
    const found = (await index.findSurplus(options)).map((loss) => inFile("global_tidx", loss));
    for (const { model, label } of partFiles) {
      for (const loss of (await model?.findSurplus(options)) ?? []) found.push(inFile(label, loss));
    }
    return found;
  }

  /** Covers only the open parts. */
  get slack(): readonly PartRange[] {
    return this.content.partFiles.flatMap(({ model }, i) => {
      return (model?.slack ?? []).map((run) => ({ ...run, part: FIRST_PART + i }));
    });
  }

  tensor(name: string): Tensor {
    return this.#index.get(name);
  }

  /** Once the part is open, by what the part has; before, by what the global index promises. */
  verificationOf({ name }: Tensor): Verification {
    this.#numbers ??= new Map(this.content.entries.map((entry, i) => [entry.name, i]));
    const number = this.#numbers.get(name) ?? -1;
    const entry = this.content.entries[number];
    if (entry === undefined) return "unverified";
    if (this.partOf(entry)?.model === undefined) return entry.hash === undefined ? "unverified" : "tensor";
    try {
      return this.place(number).verification;
    } catch (error) {
      if (isTareError(error)) return "unverified"; // it cannot be read at all
      throw error;
    }
  }

  async openParts(): Promise<void> {
    const { partFiles } = this.content;
    let next = 0;
    const work = async (): Promise<void> => {
      for (let part = partFiles[next++]; part !== undefined; part = partFiles[next++]) await part.open();
    };
    await Promise.all(Array.from({ length: Math.min(PARALLEL_FILES, partFiles.length) }, work));
    this.#index = this.#list((_, i) => this.place(i).tensor);
    for (const part of partFiles) part.markPlaced();
  }

  async openPart(label: string): Promise<void> {
    await Promise.all(this.content.partFiles.filter((part) => part.label === label).map((part) => part.open()));
  }

  /**
   * Reading compares runs of tensors with the digests in the part itself. This compares everything that was read with
   * what the set says: the digests of its index and, if the index has none, the SHA-256 of local parts.
   */
  async prove({ signal }: { readonly signal?: AbortSignal | undefined } = {}): Promise<void> {
    const { file, partFiles } = this.content;
    for (const part of partFiles) {
      await part.tensors?.prove(signal);
      if (part.isLocal && part.tensors?.unstated !== undefined) await part.prove(file.locate, signal);
      // What neither the index nor a SHA-256 proves may still be damaged: shards have digests of their own.
      else await part.model?.prove({ signal });
    }
  }

  /** Remote parts: only reading all of their bytes would prove them. */
  get unproven(): readonly string[] {
    const parts = this.content.partFiles.filter(
      (part) => part.model !== undefined && !part.isLocal && part.entry.sha256 !== undefined && this.#isUnstated(part),
    );
    const [first] = parts;
    if (first === undefined) return [];
    const others = parts.length === 1 ? "" : ` and ${parts.length - 1} more`;
    return [
      `"${printable(first.label)}"${others} cannot be proven to be of this set without reading all of it: the index has no digests of its tensors; check with: tare verify`,
    ];
  }

  #isUnstated(part: PartFile): boolean {
    return this.content.entries.some((entry) => entry.hash === undefined && this.partOf(entry) === part);
  }

  /** The part that should hold the tensor; undefined if no part has its shard. */
  partOf({ shardId }: GlobalEntry): PartFile | undefined {
    return this.content.partOfShard.get(shardId);
  }

  /** The tensor in its part, which must be open. Throws if index and part disagree. */
  place(number: number): PlacedTensor {
    const known = this.#placed.get(number);
    if (known !== undefined) return known;
    const entry = this.content.entries[number] as GlobalEntry;
    const part = this.partOf(entry);
    if (part?.tensors === undefined) throw this.#noPart(entry);
    const placed = part.tensors.find(entry);
    this.#placed.set(number, placed);
    return placed;
  }

  async close(): Promise<void> {
    const { source, index, partFiles } = this.content;
    const closing = [source.close(), index.close(), ...partFiles.map((part) => part.close())];
    for (const result of await Promise.allSettled(closing)) if (result.status === "rejected") throw result.reason;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** A tensor whose shard is in no part has no place. */
  #list(placeOf: (entry: GlobalEntry, number: number) => Place): TensorIndex {
    const tensors = this.content.entries.map((entry, i) => {
      const { name, dtype, shape, byteLength } = entry;
      const file = this.partOf(entry)?.label;
      const { offset, storedByteLength } = file === undefined ? NOWHERE : placeOf(entry, i);
      const facts = { name, dtype, shape, byteLength, offset, storedByteLength, file };
      return new Tensor(facts, { source: () => this.#sourceOf(entry, i) });
    });
    return new TensorIndex(tensors, this.content.source.label);
  }

  #sourceOf(entry: GlobalEntry, number: number): Source {
    const part = this.partOf(entry);
    const { byteLength } = entry;
    if (part === undefined) return failingSource(this.content.source.label, byteLength, this.#noPart(entry));
    if (part.model === undefined) {
      const open = async (): Promise<Source> => {
        await part.open();
        return this.#openedSource(part, entry, number);
      };
      return new LazySource({ label: part.label, byteLength, open });
    }
    return this.#openedSource(part, entry, number);
  }

  #openedSource(part: PartFile, { byteLength }: GlobalEntry, number: number): Source {
    try {
      return this.place(number).tensor.source();
    } catch (error) {
      if (!isTareError(error)) throw error;
      return failingSource(part.label, byteLength, error);
    }
  }

  #noPart({ name, shardId }: GlobalEntry): FormatError {
    const message = `Cannot read tensor "${printable(name)}": its shard ${shardId} is in no part of the set`;
    return new FormatError("format/aeroset.missing-shard", message, this.content.file.locate("parts", "parts"));
  }
}

/** The metadata of the global index; the JSON adds what the index does not say. */
function metadataOf({ index, file }: SetContent): Metadata {
  const entries: MetadataEntry[] = [...index.metadata.entries];
  const add = (key: string, text: string | undefined): void => {
    if (text === undefined || text === "" || entries.some((entry) => entry.key === key)) return;
    entries.push({ key, value: stringValue(text) });
  };
  add("model_name", file.model.name);
  add("architecture", file.model.architecture);
  return new Metadata(entries);
}

function factsOf({ file, entries, partFiles, partOfShard }: SetContent): (readonly [string, string])[] {
  const hashed = entries.reduce((count, { hash }) => count + (hash === undefined ? 0 : 1), 0);
  const known = partFiles.filter(({ entry }) => entry.sizeBytes !== undefined).length;
  return [
    ["parts", String(partFiles.length)],
    ["shards", String(partOfShard.size)],
    ...(file.baseUrl === undefined ? [] : [["base_url", labelOf(file.baseUrl)] as const]),
    ...(known === partFiles.length ? [] : [["sizes", `${partFiles.length - known} parts of unknown size`] as const]),
    ["verified reads", verifiedReads(hashed, entries.length)],
  ];
}

function verifiedReads(hashed: number, total: number): string {
  if (hashed === 0) return "by what each part carries";
  return hashed === total
    ? "yes, by tensor hashes of the index"
    : `${hashed} of ${total} by tensor hashes of the index`;
}

/** The container as a model of this format; refuses any other. */
export function setModel(container: Container): SetModel {
  if (container instanceof SetModel) return container;
  const message = `Cannot treat a ${container.format} container as AEROSET`;
  throw new UsageError("usage/aeroset.container", message, { source: container.parts[0]?.label ?? container.format });
}

/** Further ones are only counted. */
const MAX_LISTED = 20;

/**
 * What a set holds that a set written from its tensors and metadata would not have: keys of the JSON that the
 * specification does not name, and what its files hold besides their tensors. Covers only the open parts.
 */
function setLosses(content: SetContent): Loss[] {
  const { file, index, partFiles, entries } = content;
  const names = new Set(entries.map(({ name }) => name));
  return [
    ...listed(file.further),
    ...nameLosses(content),
    ...aeroLosses(index.content, "in a set").map((loss) => inFile("global_tidx", loss)),
    ...partFiles.flatMap((part) => partLosses(part, content, names)),
  ];
}

/** What one part holds besides its tensors; empty if it is not open. */
function partLosses(part: PartFile, content: SetContent, names: ReadonlySet<string>): Loss[] {
  const { model, label } = part;
  if (model === undefined) return [];
  const strangers = model.tensors.filter(({ name }) => !names.has(name));
  return [
    ...aeroLosses(model.content, "in a set"),
    ...metadataLosses(model, content.index),
    ...partNameLosses(model, content),
    ...strangers.slice(0, 1).map(({ name }) => {
      const more = strangers.length === 1 ? "" : ` and ${strangers.length - 1} more`;
      return { name, reason: `the part has this tensor${more}, the index of the set has not` };
    }),
  ].map((loss) => inFile(label, loss));
}

/** Keys that say what a part is, or that are written again for each part. */
const PART_KEYS: ReadonlySet<string> = new Set([
  "model_name",
  "architecture",
  "aeroset_part",
  "source_format",
  "quant_descriptors",
]);

/** Metadata that only a part has: the index has the model's own. */
function metadataLosses({ metadata }: AeroModel, index: AeroModel): Loss[] {
  return metadata.entries
    .filter(({ key, value }) => {
      const global = index.metadata.get(key);
      return !PART_KEYS.has(key) && (global === undefined || fingerprint(global) !== fingerprint(value));
    })
    .map(({ key }) => ({ name: key, reason: "metadata that the index of the set does not have" }));
}

const NAMES = [
  ["name", "model_name"],
  ["architecture", "architecture"],
] as const;

/** A part's name of its model, in JSON or manifest, if neither the set nor its index has that name. */
function partNameLosses({ content }: AeroModel, { file, index }: SetContent): Loss[] {
  return NAMES.flatMap(([field, key]): Loss[] => {
    const value = content.json?.entries.find((entry) => entry.key === key)?.value;
    const isText = value?.type === "string";
    const known = [file.model[field], index.metadata.text(key), undefined, ""];
    const texts = [isText ? value.value : undefined, content.manifest[field]];
    const own = texts.find((text) => !known.includes(text));
    if (own !== undefined) return [{ name: key, reason: `the part calls it "${printable(own)}", the set does not` }];
    return value === undefined || isText ? [] : [{ name: key, reason: "the part has it as something else than text" }];
  });
}

/** A new JSON repeats the texts of the index. */
function nameLosses({ file, index }: SetContent): Loss[] {
  return NAMES.flatMap(([field, key]) => {
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
