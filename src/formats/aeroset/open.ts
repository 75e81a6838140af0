import type { Bytes } from "../../base/bytes.ts";
import { FormatError, IntegrityError, isTareError, type Location, UsageError } from "../../base/errors.ts";
import { encodeHex } from "../../base/hex.ts";
import { checkLimit, resolveLimits } from "../../base/limits.ts";
import { printable } from "../../base/text.ts";
import { withHead } from "../../bytes/layers/prefix.ts";
import type { Source } from "../../bytes/source.ts";
import type { Finding } from "../../model/finding.ts";
import type { OpenContext } from "../../model/format.ts";
import { decodeJsonText } from "../../struct/strict-json.ts";
import type { AeroModel } from "../aero/model.ts";
import { openAero } from "../aero/read.ts";
import { type ParsedSetFile, parseSetFile, type SetEntry } from "./index-file.ts";
import { AEROSET_LIMITS } from "./limits.ts";
import { labelOf, locateFile, type SetOrigin } from "./locate.ts";
import type { GlobalEntry } from "./part-tensors.ts";
import { openEntry, PartFile, type SetContext, withOpening } from "./parts.ts";
import { type SetContent, SetModel } from "./set-model.ts";

/** So much of a remote index is fetched in its first request: as a rule all of it. */
const WHOLE_INDEX_BYTES = 8 << 20;

/** Opens the JSON and the global index. No part is touched before one of its tensors is read. */
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
  // Every name is judged before any file is opened.
  checkPaths(file, origin, source.label);
  const setContext: SetContext = { ...context, resolver, origin, locate: file.locate };
  const { index, entries } = await openIndex(file, setContext);
  try {
    return new SetModel(contentOf({ source, file, index, entries }, setContext));
  } catch (error) {
    await index.close();
    throw error;
  }
}

function checkPaths(file: ParsedSetFile, origin: SetOrigin, label: string): void {
  for (const [i, { path }] of file.parts.entries()) {
    const key = `parts[${i}].path`;
    try {
      locateFile(path, origin, { source: label, path: key });
    } catch (error) {
      if (!isTareError(error)) throw error;
      // The check costs nothing where it passes; the location is counted only here.
      locateFile(path, origin, file.locate(path, key));
    }
  }
}

/** Labels are shown, not parsed; but only here is known whether the JSON has a folder or an address. */
function isAddress(label: string): boolean {
  return /^[a-z][a-z0-9+.-]+:\/\//i.test(label);
}

async function readSetFile(source: Source, context: OpenContext): Promise<ParsedSetFile> {
  const limits = resolveLimits("aeroset", AEROSET_LIMITS, context.limits);
  const at = { source: source.label, offset: 0 };
  checkLimit(source.byteLength, limits.jsonBytes, "an AEROSET index of so many bytes", "limit/aeroset.json-bytes", at);
  const bytes = await source.read(0, source.byteLength, { signal: context.signal });
  const place = { source: source.label, offset: 0, what: "AEROSET index" };
  return parseSetFile(decodeJsonText(bytes, place), source.label, limits);
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
 * The index decides what every tensor is called and where it lies. Where the JSON pins it, all of it is compared with
 * the pin before any of it is used, and before a cache keeps it.
 */
async function openPinnedIndex({ globalIndex }: ParsedSetFile, context: SetContext): Promise<Source> {
  const { sha256, sizeBytes = 0 } = globalIndex;
  if (sha256 === undefined) return openEntry(globalIndex, "global_tidx", context);
  const limits = resolveLimits("aeroset", AEROSET_LIMITS, context.limits);
  const at = context.locate(sha256, "global_tidx.sha256");
  const checkSize = (byteLength: number): void => {
    checkLimit(byteLength, limits.indexBytes, "an index of so many bytes", "limit/aeroset.index-bytes", at);
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
    // A length that is not the stated one is told by verify, with the digest, which then differs, too.
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
    // The index of a set has no weights, and is whole without them.
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
