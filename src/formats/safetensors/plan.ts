import { checkLimit } from "../../base/limits.ts";
import { encodeUtf8, isWellFormed } from "../../base/text.ts";
import type { ModelContent, WriteOptions, WritePlan } from "../../model/format.ts";
import { type Metadata, type MetadataEntry, stringValue } from "../../model/metadata.ts";
import { type PackedMetadata, packMetadata } from "../../model/origin/metadata.ts";
import { ORIGIN_KEY, type OriginFacts, orderFor, splitChain } from "../../model/origin/origin.ts";
import type { Piece, PlannedFile } from "../../model/pieces.ts";
import { encodeHeader, type MetadataForm, renderHeader } from "./header.ts";
import { LENGTH_BYTES } from "./index.ts";
import { SAFETENSORS_LIMITS } from "./limits.ts";
import { type StoredTensor, storeTensors } from "./model.ts";
import { carriedHeader, furtherLosses, orderTensors, renderOrigin } from "./origin.ts";
import { groupShards, renderShardIndex, shardName, shardSetNames } from "./shards.ts";

/** A plan whose files are known to the byte. */
export interface SafetensorsPlan extends WritePlan {
  readonly files: readonly PlannedFile[];
}

/** The contents of a file or a set, with all format decisions made. */
interface Contents {
  readonly stored: readonly StoredTensor[];
  readonly native: readonly MetadataEntry[];
  readonly facts: OriginFacts;
  /** The text of `tare.origin`, "" for none. */
  readonly origin: string;
}

/** Decides every byte of one file, or of a set if the data exceeds `maxShardBytes` or the name is that of an index. */
export function planSafetensors(content: ModelContent, options: WriteOptions): SafetensorsPlan {
  const { link, own: facts = {}, keep } = splitChain(content.chain, "safetensors", "file");
  const { stored, carried, losses } = storeTensors(content.tensors);
  const isSet = wantsSet(stored, options);
  // A single file uses up its own facts. A set keeps them for the file that it may be merged into.
  const own = isSet && link !== undefined && Object.keys(facts).length > 0 ? [link] : [];
  const chain = [...own, ...keep];
  const groups = isSet ? groupShards(stored, options.maxShardBytes ?? Number.POSITIVE_INFINITY) : [stored];
  const reordered = keep.length > 0 && facts["header"] === undefined;
  const order = reordered ? writtenOrder(stored, groups, isSet ? {} : facts) : undefined;
  const { native, entries } = packStrings(content.metadata, chain.length > 0 || carried.length > 0 ? "taken" : "free");
  const origin = renderOrigin({
    chain,
    ...(entries === undefined ? {} : { entries }),
    ...(carried.length === 0 ? {} : { tensors: carried }),
    ...(order === undefined ? {} : { order }),
  });
  const contents: Contents = { stored, native, facts, origin };
  const files = isSet ? planSet(contents, options) : [planFile(contents, options.name)];
  const lost = isSet ? [] : furtherLosses(facts, headerOf(contents));
  const primary = files.at(-1)?.name ?? options.name; // the index, if there is one
  return { files, primary, losses: [...losses, ...lost], notes: planNotes(carried.length, files) };
}

function wantsSet(stored: readonly StoredTensor[], { name, maxShardBytes }: WriteOptions): boolean {
  const total = stored.reduce((sum, tensor) => sum + tensor.byteLength, 0);
  return shardSetNames(name).index === name || total > (maxShardBytes ?? Number.POSITIVE_INFINITY);
}

/** The place of each tensor of another format's file, so that its order can be restored. */
function writtenOrder(
  stored: readonly StoredTensor[],
  groups: readonly (readonly StoredTensor[])[],
  facts: OriginFacts,
): readonly number[] | undefined {
  const written = groups.flatMap((group) => orderTensors(group, facts));
  return orderFor(
    stored.map(({ name }) => name),
    written.map(({ name }) => name),
  );
}

/** Strings are native; numbers and booleans become readable text; everything else is carried. */
function packStrings(metadata: Metadata, originKey: "taken" | "free"): PackedMetadata {
  const pack = (reserved: "taken" | "free"): PackedMetadata =>
    packMetadata(metadata, ({ key, value }) => {
      // A foreign value under our key gives way if we need the key.
      if (!isWellFormed(key) || (reserved === "taken" && key === ORIGIN_KEY)) return "none";
      switch (value.type) {
        case "string":
          return value.raw === undefined && isWellFormed(value.value) ? "native" : "none";
        case "bool":
          return value.raw === undefined ? "text" : "none";
        case "array":
        case "map":
        case "bytes":
        case "null":
          return "none";
        default:
          return "text";
      }
    });
  const packed = pack(originKey);
  return packed.entries === undefined ? packed : pack("taken");
}

function metadataOf({ native, origin }: Contents): readonly MetadataEntry[] {
  return origin === "" ? native : [...native, { key: ORIGIN_KEY, value: stringValue(origin) }];
}

function headerOf(contents: Contents): ReturnType<typeof carriedHeader> {
  return carriedHeader(contents.facts, contents.stored, metadataOf(contents));
}

function planFile(contents: Contents, name: string): PlannedFile {
  const { stored, facts } = contents;
  const metadata = metadataOf(contents);
  const carried = headerOf(contents);
  if (carried !== undefined) {
    const places = new Map(carried.tensors.map((tensor) => [tensor.name, tensor]));
    const offsetOf = (tensor: StoredTensor): number => places.get(tensor.name)?.offset ?? 0;
    return buildFile(
      name,
      carried.text,
      [...stored].sort((a, b) => offsetOf(a) - offsetOf(b)),
    );
  }
  const ordered = orderTensors(stored, facts);
  return buildFile(name, renderHeader(formOf(metadata, facts), ordered), ordered);
}

function formOf(metadata: readonly MetadataEntry[], facts: OriginFacts): MetadataForm {
  if (metadata.length > 0) return metadata;
  const form = facts["metadata"];
  return form === "null" || form === "empty" ? form : "absent";
}

/** Shards in the standard layout, filled in the order of the content, and the index, which is committed last. */
function planSet(contents: Contents, { name, maxShardBytes }: WriteOptions): PlannedFile[] {
  const { stored, native, origin } = contents;
  const { base, index } = shardSetNames(name);
  const shards = groupShards(stored, maxShardBytes ?? Number.POSITIVE_INFINITY);
  const form: MetadataForm = native.length > 0 ? native : "absent";
  const weightMap: (readonly [string, string])[] = [];
  const files = shards.map((tensors, number) => {
    const file = shardName(base, number + 1, shards.length);
    const ordered = orderTensors(tensors, {});
    for (const tensor of ordered) weightMap.push([tensor.name, file]);
    return buildFile(file, renderHeader(form, ordered), ordered);
  });
  const totalSize = stored.reduce((sum, tensor) => sum + tensor.byteLength, 0);
  const bytes = encodeUtf8(renderShardIndex({ totalSize, origin, weightMap }));
  return [...files, { name: index, byteLength: bytes.byteLength, pieces: [{ kind: "bytes", bytes }] }];
}

function buildFile(name: string, headerText: string, tensors: readonly StoredTensor[]): PlannedFile {
  const header = encodeHeader(headerText);
  checkPlannedHeader(header.byteLength - LENGTH_BYTES, name);
  const pieces: Piece[] = [{ kind: "bytes", bytes: header }];
  let byteLength = header.byteLength;
  for (const { tensor } of tensors) {
    byteLength += tensor.byteLength;
    if (tensor.byteLength > 0) pieces.push({ kind: "tensor", tensor });
  }
  return { name, byteLength, pieces };
}

/** Refuses to write a header that is too long to read: the reference implementation stops exactly above this limit. */
export function checkPlannedHeader(byteLength: number, name: string): void {
  const limit = SAFETENSORS_LIMITS.headerBytes.default;
  checkLimit(byteLength, limit, "SafeTensors header bytes", "limit/safetensors.header-bytes", { source: name });
}

function planNotes(carriedCount: number, files: readonly PlannedFile[]): string[] {
  const notes: string[] = [];
  if (carriedCount > 0) {
    notes.push(
      `${carriedCount} tensors of types that SafeTensors lacks are stored as U8; tare.origin says what they are`,
    );
  }
  if (files.length > 1) notes.push(`${files.length - 1} shards and an index`);
  return notes;
}
