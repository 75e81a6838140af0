import { decodeBase64, encodeBase64 } from "../../base/text.ts";
import { isBlocks, QUANTIZATION_VERSION_KEY } from "../../model/ggml/file-types.ts";
import { Metadata, type MetadataEntry } from "../../model/metadata.ts";
import { type Json, ORIGIN_KEY, type OriginFacts, takeOrigin } from "../../model/origin.ts";
import { SPLIT_KEYS } from "./layout.ts";
import type { GgufModel } from "./model.ts";
import { decodeGgufValue, encodeGgufValue, GGUF_ENCODING } from "./values.ts";

/** What a standard file does not say by itself, and the writer needs for writing it again. */
export interface GgufFacts {
  readonly version: 2 | 3;
  /** Where `tare.origin` stood, if not at the end. */
  readonly originIndex?: number;
  /** Offsets of the tensors in the data, where they were not packed in order. */
  readonly offsets?: readonly number[];
  /** Bytes behind the last tensor, where padding was missing, and the length of the data that this goes with. */
  readonly tail?: { readonly dataBytes: number; readonly byteLength: number };
  /** `split.*` keys of a file that was then split again: place, key and stored value. */
  readonly split?: readonly (readonly [index: number, key: string, value: string])[];
  /** Present where a file of blocks did not say which version of blocks they are. */
  readonly unversioned?: true;
}

/** Facts by which `plan` writes the file again, as `tare.origin` keeps them. */
export function describeGguf(model: GgufModel): OriginFacts {
  const [{ header, source }, ...others] = model.files;
  // A set was one file once: what is unusual about that one stands in the first part's own link.
  const inherited = others.length === 0 ? undefined : ownLink(model.metadata);
  const originIndex = model.metadata.entries.findIndex(({ key }) => key === ORIGIN_KEY);
  const facts: { [key: string]: Json } = { version: header.version };
  if (header.byteOrder === "big") facts["byteOrder"] = "big";
  const isVersioned = model.metadata.get(QUANTIZATION_VERSION_KEY) !== undefined;
  if (!isVersioned && model.tensors.some(({ dtype }) => isBlocks(dtype))) facts["unversioned"] = true;
  if (originIndex >= 0 && originIndex < model.metadata.size - 1) facts["originIndex"] = originIndex;
  if (others.length === 0) {
    const { layout, infos, dataStart } = header;
    if (!layout.packed) facts["offsets"] = infos.map(({ offset }) => offset);
    if (source.byteLength < layout.paddedEnd) {
      facts["tail"] = [layout.dataEnd - dataStart, source.byteLength - layout.dataEnd];
    }
  }
  return { ...inherited, ...facts };
}

function ownLink(metadata: Metadata): OriginFacts | undefined {
  return takeOrigin(metadata).origin?.chain.find(({ format }) => format === "gguf")?.facts;
}

/** Facts from `tare.origin`: anything that is not as we write it is left out. */
export function parseFacts(facts: OriginFacts | undefined): GgufFacts {
  if (facts === undefined) return { version: 3 };
  const { version, originIndex, offsets, tail, split, unversioned } = facts;
  const [dataBytes, byteLength] = isCounts(tail) ? tail : [];
  return {
    version: version === 2 ? 2 : 3,
    ...(isCount(originIndex) ? { originIndex } : {}),
    ...(isCounts(offsets) ? { offsets } : {}),
    ...(dataBytes !== undefined && byteLength !== undefined ? { tail: { dataBytes, byteLength } } : {}),
    ...(Array.isArray(split) && split.every(isSplitKey) ? { split } : {}),
    ...(unversioned === true ? { unversioned } : {}),
  };
}

/** The link that the first part of a set keeps; undefined where the parts say it all. */
export function linkFacts(facts: GgufFacts): OriginFacts | undefined {
  const { offsets, tail, split } = facts;
  if (offsets === undefined && tail === undefined && split === undefined) return undefined;
  return {
    ...(offsets === undefined ? {} : { offsets }),
    ...(tail === undefined ? {} : { tail: [tail.dataBytes, tail.byteLength] }),
    ...(split === undefined ? {} : { split }),
  };
}

/** Puts the `split.*` keys of the file that was split back in their places. */
export function restoreSplitKeys(metadata: Metadata, facts: GgufFacts): Metadata {
  const entries: MetadataEntry[] = [...metadata.entries];
  for (const [index, key, base64] of facts.split ?? []) {
    // Nothing else is ever taken out, so a longer list was not written by us.
    if (!SPLIT_KEYS.some((name) => name === key)) continue;
    const bytes = decodeBase64(base64);
    const value = bytes === undefined ? undefined : decodeGgufValue({ encoding: GGUF_ENCODING, bytes });
    if (value === undefined || entries.some((entry) => entry.key === key)) continue; // edited, or set anew since
    entries.splice(Math.min(index, entries.length), 0, { key, value });
  }
  return facts.split === undefined ? metadata : new Metadata(entries);
}

/** Takes the `split.*` keys out, since the parts need them for themselves. */
export function takeSplitKeys(metadata: Metadata, facts: GgufFacts): readonly [Metadata, GgufFacts] {
  const names = new Set<string>(SPLIT_KEYS);
  const split = metadata.entries.flatMap(({ key, value }, index) => {
    return names.has(key) ? [[index, key, encodeBase64(encodeGgufValue(value))] as const] : [];
  });
  if (split.length === 0) return [metadata, facts];
  return [new Metadata(metadata.entries.filter(({ key }) => !names.has(key))), { ...facts, split }];
}

function isCount(value: Json | undefined): value is number {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0;
}

function isCounts(value: Json | undefined): value is readonly number[] {
  return Array.isArray(value) && value.every(isCount);
}

function isSplitKey(value: Json): value is readonly [number, string, string] {
  if (!Array.isArray(value) || value.length !== 3) return false;
  const [index, key, base64] = value as readonly Json[];
  return isCount(index) && typeof key === "string" && typeof base64 === "string";
}
