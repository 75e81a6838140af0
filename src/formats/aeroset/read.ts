import type { Bytes } from "../../base/bytes.ts";
import { FormatError, IntegrityError, isTareError, type Location, UsageError } from "../../base/errors.ts";
import { checkLimit, resolveLimits } from "../../base/limits.ts";
import { withoutDots } from "../../base/name-set.ts";
import { encodeHex, encodeUtf8, printable } from "../../base/text.ts";
import { inTurns, type Steps } from "../../base/turns.ts";
import { withHead } from "../../bytes/layers/opening-read.ts";
import type { Source } from "../../bytes/source.ts";
import type { Finding } from "../../model/finding.ts";
import type {
  FormatReader,
  Member,
  Members,
  MembersContext,
  OpenContext,
  PartRange,
  Section,
} from "../../model/format.ts";
import type { FieldPlace } from "../../struct/fields.ts";
import { decodeJsonText, type JsonNode, parseStrictJson } from "../../struct/strict-json.ts";
import { aeroFields, aeroSections, hasChunks } from "../aero/inspect.ts";
import type { AeroModel } from "../aero/model.ts";
import { openAero } from "../aero/read.ts";
import { AEROSET_LIMITS } from "./limits.ts";
import { FIRST_PART, type SetContent, SetModel, setModel } from "./model.ts";
import { describeAeroset, isUsualAeroset } from "./origin.ts";
import type { GlobalEntry } from "./part-tensors.ts";
import { labelOf, locateFile, openEntry, PartFile, type SetContext, type SetOrigin, withOpening } from "./parts.ts";
import { encodeSetFile, type ParsedSetFile, parseSetFile, type SetEntry } from "./set-file.ts";

/** The first request for a remote index fetches this much: usually all of it. */
const WHOLE_INDEX_BYTES = 8 << 20;

/** Opens the JSON and the global index. Opens no part before one of its tensors is read. */
export async function openAeroset(source: Source, context: OpenContext): Promise<SetModel> {
  const file = await readSetFile(source, context);
  const at = { source: source.label, offset: 0 };
  const { resolver } = context;
  if (resolver === undefined) {
    const message = "Cannot open a set on its own: its index and parts must be reachable beside it";
    throw new UsageError("usage/aeroset.no-siblings", message, at, {
      hint: "Open it by its path or URL, or open one part",
    });
  }
  const origin: SetOrigin = { from: isAddress(source.label) ? "address" : "folder", baseUrl: file.baseUrl };
  // Every name is checked before any file is opened.
  await inTurns(checkPaths(file, origin, source.label), context.signal);
  const setContext: SetContext = { ...context, resolver, origin, locate: file.locate };
  const { index, entries } = await openIndex(file, setContext);
  try {
    return new SetModel(contentOf({ source, file, index, entries }, setContext));
  } catch (error) {
    await index.close();
    throw error;
  }
}

function* checkPaths(file: ParsedSetFile, origin: SetOrigin, label: string): Steps<void> {
  for (const [i, { path }] of file.parts.entries()) {
    const key = `parts[${i}].path`;
    try {
      locateFile(path, origin, { source: label, path: key });
    } catch (error) {
      if (!isTareError(error)) throw error;
      // The check is cheap if it passes; only a failure computes the location.
      locateFile(path, origin, file.locate(path, key));
    }
    yield;
  }
}

/** Labels are shown, not parsed. This exception decides whether the JSON is in a folder or at an address. */
function isAddress(label: string): boolean {
  return /^[a-z][a-z0-9+.-]+:\/\//i.test(label);
}

async function readSetFile(source: Source, context: OpenContext): Promise<ParsedSetFile> {
  const limits = resolveLimits("aeroset", AEROSET_LIMITS, context.limits);
  const at = { source: source.label, offset: 0 };
  checkLimit(
    source.byteLength,
    limits.jsonBytes,
    "an AEROSET index of this many bytes",
    "limit/aeroset.json-bytes",
    at,
  );
  const bytes = await source.read(0, source.byteLength, { signal: context.signal });
  const place = { source: source.label, offset: 0, what: "AEROSET index" };
  return inTurns(parseSetFile(decodeJsonText(bytes, place), source.label, limits), context.signal);
}

interface OpenedIndex {
  readonly index: AeroModel;
  readonly entries: readonly GlobalEntry[];
}

async function openIndex(file: ParsedSetFile, context: SetContext): Promise<OpenedIndex> {
  const source = await openPinnedIndex(file, context);
  const fields: Pick<GlobalEntry, "shardId" | "dataOff" | "dataLen" | "hash">[] = [];
  try {
    const index = await openAero(await withOpening(source, WHOLE_INDEX_BYTES, context.signal), context, (entry) => {
      const { shardId, dataOff, dataLen, hash } = entry;
      fields.push({ shardId, dataOff, dataLen, hash });
    });
    if (index.content.indexChunk === undefined) throw noIndex(source.label);
    const entries = index.tensors.map(({ name, dtype, shape, byteLength }, i): GlobalEntry => {
      return { name, dtype, shape, byteLength, ...(fields[i] as (typeof fields)[number]) };
    });
    return { index, entries };
  } catch (error) {
    await source.close();
    throw error;
  }
}

/**
 * The index decides the name and the place of every tensor. If the JSON pins it, all of it is compared with the pin
 * before any of it is used, and before a cache keeps it.
 */
async function openPinnedIndex({ globalIndex }: ParsedSetFile, context: SetContext): Promise<Source> {
  const { sha256, sizeBytes = 0 } = globalIndex;
  if (sha256 === undefined) return openEntry(globalIndex, "global_tidx", context);
  const limits = resolveLimits("aeroset", AEROSET_LIMITS, context.limits);
  const at = context.locate(sha256, "global_tidx.sha256");
  const checkSize = (byteLength: number): void => {
    checkLimit(byteLength, limits.indexBytes, "an index of this many bytes", "limit/aeroset.index-bytes", at);
  };
  checkSize(sizeBytes);
  let proven: Bytes | undefined;
  const prove = async (whole: Bytes): Promise<void> => {
    const found = encodeHex(await context.engine.digest("sha256", whole));
    if (found !== sha256) throw otherIndex(globalIndex, { byteLength: whole.byteLength, found }, at);
    proven = whole;
  };
  const source = await openEntry(globalIndex, "global_tidx", context, prove);
  if (proven !== undefined) return source;
  try {
    checkSize(source.byteLength);
    // `verify` reports a wrong length together with the digest, which then differs too.
    const whole = await source.read(0, source.byteLength, { signal: context.signal });
    await prove(whole);
    return withHead(source, whole);
  } catch (error) {
    await source.close();
    throw error;
  }
}

function otherIndex(
  { path, sha256 }: SetEntry,
  { byteLength, found }: { readonly byteLength: number; readonly found: string },
  at: Location,
): IntegrityError {
  const message = `"${printable(labelOf(path))}" is not the index of the set: SHA-256 of its ${byteLength} bytes must be ${sha256}, found ${found}`;
  return new IntegrityError("integrity/aeroset.sha256", message, at, { hint: "Download the file again" });
}

function noIndex(label: string): FormatError {
  const message = "Cannot read the index of the set: must have a TIDX chunk, found none";
  return new FormatError("format/aeroset.no-index", message, { source: label, offset: 0, path: "toc" });
}

type Read = Pick<SetContent, "source" | "index" | "entries"> & { readonly file: ParsedSetFile };

function contentOf({ source, file, index, entries }: Read, context: SetContext): SetContent {
  const lastPart = new Map<number, number>();
  const repeated = new Set<number>();
  for (const [i, { shards }] of file.parts.entries()) {
    for (const shard of shards) {
      if (lastPart.has(shard)) repeated.add(shard);
      lastPart.set(shard, i);
    }
  }
  const leastBytes = new Array<number>(file.parts.length).fill(0);
  const lost: GlobalEntry[] = [];
  for (const entry of entries) {
    const part = lastPart.get(entry.shardId);
    if (part === undefined) lost.push(entry);
    else leastBytes[part] = (leastBytes[part] ?? 0) + entry.dataLen;
  }
  const partFiles = file.parts.map((part, i) => new PartFile(part, i, leastBytes[i] ?? 0, context));
  const partOfShard = new Map([...lastPart].map(([shard, i]) => [shard, partFiles[i] as PartFile]));
  const warnings = [
    ...file.warnings,
    // The index of a set has no weights, and is complete without them.
    ...index.warnings.filter(({ code }) => code !== "format/aero.missing-shard"),
    ...repeatedShards(repeated, file),
    ...lostShards(lost, file),
  ];
  return { source, file, index, entries, partFiles, partOfShard, warnings };
}

function* repeatedShards(repeated: ReadonlySet<number>, file: ParsedSetFile): Generator<Finding> {
  const [first] = repeated;
  if (first === undefined) return;
  const claims = file.parts.filter(({ shards }) => shards.includes(first)).map(({ path }) => labelOf(path));
  const shown = [claims[0] ?? "", claims.at(-1) ?? ""].map((claim) => `"${printable(claim)}"`).join(" and ");
  const others = repeated.size === 1 ? "" : `, and ${repeated.size - 1} more shards like it`;
  const message = `Shard ${first} is claimed by ${shown}; the last part counts${others}`;
  const at = file.locate("parts", "parts");
  yield { severity: "warning", code: "format/aeroset.repeated-shard", message, at };
}

function* lostShards(lost: readonly GlobalEntry[], file: ParsedSetFile): Generator<Finding> {
  const [first] = lost;
  if (first === undefined) return;
  const others = lost.length === 1 ? "" : `, and ${lost.length - 1} more like it`;
  const message = `Tensor "${printable(first.name)}" cannot be read: its shard ${first.shardId} is in no part of the set${others}`;
  yield {
    severity: "warning",
    code: "format/aeroset.missing-shard",
    message,
    at: file.locate("parts", "parts"),
    name: first.name,
  };
}

/** The parts and the global index of a set whose JSON came from a server. */
export async function aerosetMembers(source: Source, context: MembersContext): Promise<Members> {
  const limits = resolveLimits("aeroset", AEROSET_LIMITS, context.limits);
  const at = { source: source.label, offset: 0 };
  checkLimit(source.byteLength, limits.jsonBytes, "AEROSET JSON bytes", "limit/aeroset.json-bytes", at);
  const bytes = (await source.read(0, source.byteLength, { signal: context.signal })).slice();
  const text = decodeJsonText(bytes, { ...at, what: "AEROSET JSON" });
  const set = await inTurns(parseSetFile(text, source.label, limits), context.signal);
  const files = [...set.parts, set.globalIndex].map((entry) => memberOf(entry, set.baseUrl, source.label));
  return { files, index: { bytes, renamed: (paths) => renamed(set, text, paths) } };
}

function memberOf(entry: SetEntry, baseUrl: string | undefined, label: string): Member {
  const place = locateFile(entry.path, { from: "address", baseUrl }, { source: label, path: entry.path });
  const path = place.kind === "sibling" ? place.name : withoutDots(entry.path);
  const url = place.kind === "url" ? place.url : undefined;
  return { path, url, byteLength: entry.sizeBytes, sha256: entry.sha256?.toLowerCase() };
}

/** The set with its files next to it, whatever addresses it had. */
function renamed(set: ParsedSetFile, text: string, paths: readonly string[]): Bytes {
  if (set.further.length > 0) return renamedText(text, paths);
  const parts = set.parts.map((part, i) => ({ ...part, path: paths[i] ?? part.path }));
  const { baseUrl: _, ...local } = set;
  return encodeSetFile({ ...local, parts, globalIndex: { ...set.globalIndex, path: paths.at(-1) ?? "" } });
}

/** Replaces only the paths and keeps every other character, so that unknown keys are not lost. */
function renamedText(text: string, paths: readonly string[]): Bytes {
  const root = parseStrictJson(text, { source: "AEROSET JSON", offset: 0, what: "AEROSET JSON" });
  const member = (node: JsonNode | undefined, key: string): JsonNode | undefined =>
    node?.type === "object" ? node.entries.find(([name]) => name === key)?.[1] : undefined;
  const list = member(root, "parts");
  const files = [...(list?.type === "array" ? list.items : []), member(root, "global_tidx")];
  const edits = files.map((file, i) => ({ node: member(file, "path"), value: paths[i] ?? "" }));
  // Readers treat an empty base_url as none.
  const all = [...edits, { node: member(root, "base_url"), value: "" }];
  let edited = text;
  for (const { node, value } of all.sort((a, b) => (b.node?.start ?? 0) - (a.node?.start ?? 0))) {
    if (node !== undefined) edited = edited.slice(0, node.start) + JSON.stringify(value) + edited.slice(node.end);
  }
  return encodeUtf8(edited);
}

/** AEROSET v0.1 and v0.2: many AERO files that form one model, by a JSON index. */
export const reader: FormatReader = {
  limits: AEROSET_LIMITS,
  open: openAeroset,
  members: aerosetMembers,
  sections: (container) => aerosetSections(setModel(container)),
  carriesDigests: (container) => hasChunks(setModel(container).content.index),
  fields: async (container, range) => aerosetFields(setModel(container), range),
  describe: (container) => describeAeroset(setModel(container)),
  isUsual: isUsualAeroset,
};

/** The JSON, the global index, and everything except the tensors of the parts; an unopened part is one section. */
function aerosetSections(model: SetModel): Section[] {
  const { source, index, partFiles } = model.content;
  const json: Section = { name: "set", kind: "index", part: 0, offset: 0, byteLength: source.byteLength };
  const inPart = (file: AeroModel, part: number): Section[] =>
    aeroSections(file).map((section) => ({ ...section, part }));
  const parts = partFiles.flatMap((part, i): Section[] => {
    const place = FIRST_PART + i;
    if (part.layout === undefined && part.model !== undefined) return inPart(part.model, place);
    return [{ name: "part", kind: "data", part: place, offset: 0, byteLength: part.byteLength }];
  });
  return [json, ...inPart(index, 1), ...parts];
}

/** The JSON as text; the fields of an AERO file for the index and open parts. */
function aerosetFields({ content }: SetModel, { part }: PartRange): readonly FieldPlace[] {
  const { source, index, partFiles } = content;
  if (part === 0) return [{ offset: 0, byteLength: source.byteLength, name: "set", type: "text" }];
  const file = part < FIRST_PART ? index : partFiles[part - FIRST_PART]?.model;
  return file === undefined ? [] : aeroFields(file);
}
