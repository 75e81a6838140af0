import { FormatError, isTareError, type Location, SourceError } from "../../base/errors.ts";
import { checkLimit } from "../../base/limits.ts";
import { printable } from "../../base/text.ts";
import type { Resolver } from "../../bytes/resolver.ts";
import type { Finding } from "../../model/finding.ts";
import type { OpenContext } from "../../model/format.ts";
import type { Metadata } from "../../model/metadata.ts";
import { readHeader } from "./header.ts";
import { ALIGNMENT_KEY, SPLIT_KEYS } from "./layout.ts";
import type { GgufLimits } from "./limits.ts";
import type { GgufFile } from "./model.ts";

/** Which part of a set a file is. */
export interface SplitFacts {
  /** Counted from 0. */
  readonly no: number;
  readonly count: number;
  /** Tensors of the whole set; undefined if the key is missing. */
  readonly tensorCount: number | undefined;
}

/** Headers read at once; each takes one round trip. */
const CONCURRENCY = 4;

/** "model-00001-of-00003.gguf": the names that llama.cpp gives parts and expects. */
const PART_NAME = /^(.*)-(\d{5})-of-(\d{5})(\.gguf)$/i;

/** Undefined if the file does not claim to be one of several parts. */
export function splitFacts(metadata: Metadata): SplitFacts | undefined {
  const no = metadata.number("split.no");
  const count = metadata.number("split.count");
  if (no === undefined || count === undefined || !isCount(no) || !isCount(count) || count < 2) return undefined;
  const tensorCount = metadata.number("split.tensors.count");
  return { no, count, tensorCount };
}

function isCount(value: number): boolean {
  return Number.isSafeInteger(value) && value >= 0;
}

/** The name of one part, counted from 0. */
export function partName(base: string, no: number, count: number, extension = ".gguf"): string {
  const pad = (value: number): string => String(value).padStart(5, "0");
  return `${base}-${pad(no + 1)}-of-${pad(count)}${extension}`;
}

/** The name without "-00001-of-00003.gguf" or ".gguf". */
export function baseName(name: string): string {
  return PART_NAME.exec(name)?.[1] ?? name.replace(/\.gguf$/i, "");
}

/** The names of all parts, given the name of the first; undefined if that name does not fit the pattern. */
export function siblingNames(firstName: string, count: number): string[] | undefined {
  const match = PART_NAME.exec(firstName);
  const [, base = "", no, total, extension] = match ?? [];
  if (match === null || Number(no) !== 1 || Number(total) !== count) return undefined;
  return Array.from({ length: count }, (_, i) => partName(base, i, count, extension));
}

export interface SiblingOptions {
  readonly names: readonly string[];
  readonly resolver: Resolver;
  readonly limits: GgufLimits;
  readonly signal: AbortSignal | undefined;
  readonly cutShort?: OpenContext["cutShort"];
}

/** Opens every part but the first, a few at a time. On failure it closes the opened parts. */
export async function readSiblings(first: GgufFile, options: SiblingOptions): Promise<GgufFile[]> {
  const { names, limits } = options;
  const at = { source: first.source.label, offset: keyOffset(first, "split.count"), path: "split.count" };
  checkLimit(names.length, limits.parts, "a set of this many parts", "limit/gguf.parts", at);
  const files = new Array<GgufFile>(names.length - 1);
  let next = 1;
  const run = async (): Promise<void> => {
    while (next < names.length) {
      const no = next++;
      try {
        files[no - 1] = await readSibling(no, first, options);
      } catch (error) {
        next = names.length; // stops the others, too
        throw error;
      }
    }
  };
  const outcomes = await Promise.allSettled(Array.from({ length: CONCURRENCY }, run));
  const failed = outcomes.find((outcome) => outcome.status === "rejected");
  if (failed === undefined) return files;
  await Promise.allSettled(files.map((file) => file?.source.close()));
  throw failed.reason;
}

async function readSibling(no: number, first: GgufFile, options: SiblingOptions): Promise<GgufFile> {
  const { names, resolver, limits, signal, cutShort } = options;
  const name = names[no] as string;
  const source = await resolver.resolve(name, { signal }).catch((error: unknown) => {
    throw isTareError(error) && error.code === "source/not-found" ? missingPart(name, no, names.length, first) : error;
  });
  try {
    return { source, header: await readHeader(source, limits, { signal, cutShort }) };
  } catch (error) {
    await source.close();
    throw error;
  }
}

function missingPart(name: string, no: number, count: number, first: GgufFile): SourceError {
  const message = `Cannot find part ${no + 1} of ${count}: "${printable(name)}" must lie beside the first part`;
  return new SourceError(
    "source/not-found",
    message,
    { source: first.source.label, offset: keyOffset(first, "split.count"), path: "split.count" },
    {
      hint: "Download the missing part into the same folder",
    },
  );
}

function keyOffset({ header }: GgufFile, wanted: string): number {
  return header.keyValues.find(({ key }) => key === wanted)?.offset ?? 0;
}

/** Refuses parts that do not belong together. */
export function checkSet(files: readonly GgufFile[], first: SplitFacts): void {
  let tensorCount = 0;
  const owners = new Map<string, string>();
  for (const [no, { source, header }] of files.entries()) {
    const at: Location = { source: source.label, offset: keyOffset({ source, header }, "split.no"), path: "split.no" };
    const facts = splitFacts(header.metadata);
    if (facts?.no !== no || facts.count !== first.count) {
      const found = facts === undefined ? "no split keys" : `part ${facts.no} of ${facts.count}`;
      const message = `Cannot open GGUF set: "${source.label}" must have split.no ${no} and split.count ${first.count}, found ${found}`;
      throw new FormatError("format/gguf.split", message, at);
    }
    for (const { name, infoOffset } of header.infos) {
      const owner = owners.get(name);
      if (owner !== undefined) throw sharedName(name, owner, { ...at, offset: infoOffset, path: "tensor_infos" });
      owners.set(name, source.label);
    }
    tensorCount += header.infos.length;
  }
  if (first.tensorCount !== undefined && first.tensorCount !== tensorCount) {
    const message = `Cannot open GGUF set: split.tensors.count must match the parts, which hold ${tensorCount}, found ${first.tensorCount}`;
    const [file] = files as readonly [GgufFile];
    const path = "split.tensors.count";
    throw new FormatError("format/gguf.split", message, {
      source: file.source.label,
      offset: keyOffset(file, path),
      path,
    });
  }
}

function sharedName(name: string, owner: string, at: Location): FormatError {
  const message = `Cannot open GGUF set: the tensor "${printable(name)}" is in "${owner}" and in "${at.source}"`;
  return new FormatError("format/gguf.duplicate-name", message, at);
}

/** Keys of later parts are not part of the model; llama.cpp ignores them, too. */
export function siblingWarnings(siblings: readonly GgufFile[]): Finding[] {
  const own = new Set<string>([...SPLIT_KEYS, ALIGNMENT_KEY]);
  return siblings.flatMap(({ source, header }) => {
    const extra = header.keyValues.find(({ key }) => !own.has(key));
    if (extra === undefined) return [];
    const message = `Only the first part's metadata counts; this part also has "${printable(extra.key)}"`;
    const at = { source: source.label, offset: extra.offset, path: "metadata_kv" };
    return [{ severity: "warning" as const, code: "format/gguf.part-metadata", message, at }];
  });
}

/** The metadata of the first part without the keys that only describe the files. */
export function withoutSplitKeys(metadata: Metadata): Metadata {
  let rest = metadata;
  for (const key of SPLIT_KEYS) rest = rest.without(key);
  return rest;
}
