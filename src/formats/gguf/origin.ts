import { isBlocks, QUANTIZATION_VERSION_KEY } from "../../model/ggml/retyping.ts";
import type { Metadata } from "../../model/metadata.ts";
import { type Json, ORIGIN_KEY, type OriginFacts, takeOrigin } from "../../model/origin/origin.ts";
import type { GgufModel } from "./model.ts";
import { splitFacts } from "./split.ts";

/** What a standard file does not show by itself, and the writer needs to write the file again. */
export interface GgufFacts {
  readonly version: 2 | 3;
  /** Index of `tare.origin`, if it was not at the end. */
  readonly originIndex?: number;
  /** Offsets of the tensors in the data, if they were not packed in order. */
  readonly offsets?: readonly number[];
  /** Bytes after the last tensor, if padding was missing, and the data length that this belongs to. */
  readonly tail?: { readonly dataBytes: number; readonly byteLength: number };
  /** Present if the file is one part of a set, opened alone: its `split.*` keys belong there. */
  readonly part?: true;
  /** Present if a key of the file is empty. */
  readonly emptyKey?: true;
  /** Present if a file of blocks did not state the version of its blocks. */
  readonly unversioned?: true;
}

/** The facts with which `plan` writes the file again, as `tare.origin` keeps them. */
export function describeGguf(model: GgufModel): OriginFacts {
  const [{ header, source }, ...others] = model.files;
  // A set was once one file. The first part's own link has what was unusual about that file.
  const inherited = others.length === 0 ? undefined : ownLink(model.metadata);
  const originIndex = model.metadata.entries.findIndex(({ key }) => key === ORIGIN_KEY);
  const facts: { [key: string]: Json } = { version: header.version };
  if (header.byteOrder === "big") facts["byteOrder"] = "big";
  const isVersioned = model.metadata.get(QUANTIZATION_VERSION_KEY) !== undefined;
  if (!isVersioned && model.tensors.some(({ dtype }) => isBlocks(dtype))) facts["unversioned"] = true;
  if (originIndex >= 0 && originIndex < model.metadata.size - 1) facts["originIndex"] = originIndex;
  if (model.metadata.get("") !== undefined) facts["emptyKey"] = true;
  if (others.length === 0) {
    if (splitFacts(model.metadata) !== undefined) facts["part"] = true;
    const { layout, infos, dataStart } = header;
    if (!layout.packed) facts["offsets"] = infos.map(({ offset }) => offset);
    if (source.byteLength < layout.paddedEnd) {
      facts["tail"] = [layout.dataEnd - dataStart, source.byteLength - layout.dataEnd];
    }
  }
  return { ...inherited, ...facts };
}

/** True if `planGguf` gives these facts by itself: those of a packed file of version 3. */
export function isUsualGguf(facts: OriginFacts): boolean {
  return Object.entries(facts).every(([name, value]) => name === "version" && value === 3);
}

function ownLink(metadata: Metadata): OriginFacts | undefined {
  return takeOrigin(metadata).origin?.chain.find(({ format }) => format === "gguf")?.facts;
}

/** Facts from `tare.origin`. Anything that we would not write is left out. */
export function parseFacts(facts: OriginFacts | undefined): GgufFacts {
  if (facts === undefined) return { version: 3 };
  const { version, originIndex, offsets, tail, part, unversioned, emptyKey } = facts;
  const [dataBytes, byteLength] = isCounts(tail) ? tail : [];
  return {
    version: version === 2 ? 2 : 3,
    ...(isCount(originIndex) ? { originIndex } : {}),
    ...(isCounts(offsets) ? { offsets } : {}),
    ...(dataBytes !== undefined && byteLength !== undefined ? { tail: { dataBytes, byteLength } } : {}),
    ...(part === true ? { part } : {}),
    ...(unversioned === true ? { unversioned } : {}),
    ...(emptyKey === true ? { emptyKey } : {}),
  };
}

/** The link that the first part of a set keeps; undefined if the parts state everything. */
export function linkFacts(facts: GgufFacts): OriginFacts | undefined {
  const { offsets, tail, part } = facts;
  if (offsets === undefined && tail === undefined && part === undefined) return undefined;
  return {
    ...(offsets === undefined ? {} : { offsets }),
    ...(tail === undefined ? {} : { tail: [tail.dataBytes, tail.byteLength] }),
    ...(part === undefined ? {} : { part }),
  };
}

function isCount(value: Json | undefined): value is number {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0;
}

function isCounts(value: Json | undefined): value is readonly number[] {
  return Array.isArray(value) && value.every(isCount);
}
