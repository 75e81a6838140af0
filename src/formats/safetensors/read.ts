import type { Bytes } from "../../base/bytes.ts";
import { FormatError, LimitError, type Location, SourceError, UsageError } from "../../base/errors.ts";
import { checkLimit, type LimitOverrides } from "../../base/limits.ts";
import { FEW_STEPS, inTurns, type Steps } from "../../base/turns.ts";
import { OPENING_BYTES, withHead } from "../../bytes/layers/opening-read.ts";
import { PARALLEL_FILES, type Resolver } from "../../bytes/resolver.ts";
import type { Source } from "../../bytes/source.ts";
import { presentBytes } from "../../model/cut-short.ts";
import type { Finding, Loss } from "../../model/finding.ts";
import type { FormatReader, Members, MembersContext, OpenContext } from "../../model/format.ts";
import { Metadata, type MetadataEntry } from "../../model/metadata.ts";
import { ORIGIN_KEY } from "../../model/origin/origin.ts";
import type { Tensor } from "../../model/tensor.ts";
import { decodeJsonText } from "../../struct/strict-json.ts";
import { type Header, parseHeader } from "./header.ts";
import { isIndexText, LENGTH_BYTES } from "./index.ts";
import { safetensorsFields, safetensorsSections } from "./inspect.ts";
import { SAFETENSORS_LIMITS, type SafetensorsLimits, safetensorsLimits } from "./limits.ts";
import { checkLayout, type SafetensorsFile, SafetensorsModel, singleFileModel } from "./model.ts";
import { describeSafetensors } from "./origin.ts";
import { checkShardNames, locateName, parseShardIndex, type ShardIndex } from "./shards.ts";

/** Opens a SafeTensors file, or a set by its `*.safetensors.index.json`. Reads no tensor data. */
export async function openSafetensors(source: Source, context: OpenContext): Promise<SafetensorsModel> {
  const opening = await readOpening(source, context.signal);
  if (isIndexText(opening)) return openShards(source, opening, context);
  return singleFileModel({ source, part: 0, ...(await readHeader(source, opening, context)) });
}

/** Options for reading a header. */
interface ReadHeaderOptions {
  readonly limits: LimitOverrides;
  readonly signal?: AbortSignal | undefined;
  readonly cutShort?: OpenContext["cutShort"];
  /** For `tensor.file`, in sets. */
  readonly file?: string | undefined;
}

/** The first bytes of a file; they cover nearly every header. */
function readOpening(source: Source, signal: AbortSignal | undefined): Promise<Bytes> {
  return source.read(0, Math.min(source.byteLength, OPENING_BYTES), { signal });
}

/** Reads and checks everything but the tensor data. A header that ends beyond `opening` costs one more read. */
async function readHeader(
  source: Source,
  opening: Bytes,
  options: ReadHeaderOptions,
): Promise<Pick<SafetensorsFile, "header" | "fault">> {
  const limits = safetensorsLimits(options.limits);
  const headerLength = decodeLength(opening, source, limits);
  const dataStart = LENGTH_BYTES + headerLength;
  const bytes =
    dataStart <= opening.byteLength
      ? opening.subarray(LENGTH_BYTES, dataStart)
      : await withHead(source, opening).read(LENGTH_BYTES, headerLength, { signal: options.signal });
  let fault: FormatError | undefined;
  const steps = parseHeader(bytes, {
    source: source.label,
    limits,
    file: options.file,
    reader: { source: (tensor) => presentBytes(source, tensor, fault) },
  });
  const header = await inTurns(steps, options.signal);
  try {
    checkLayout(header, source.byteLength);
  } catch (error) {
    const isCut = error instanceof FormatError && error.neededBytes !== undefined;
    if (!isCut || options.cutShort !== "shown") throw error;
    fault = error;
  }
  return { header, fault };
}

/** Decodes the length field, and refuses it before anything of that length is read. */
function decodeLength(opening: Bytes, source: Source, limits: SafetensorsLimits): number {
  const at: Location = { source: source.label, offset: 0, path: "header_length" };
  if (opening.byteLength < LENGTH_BYTES) {
    const message = `Cannot read SafeTensors file: must have at least ${LENGTH_BYTES} bytes, found ${opening.byteLength}`;
    throw new FormatError(
      "format/safetensors.too-short",
      message,
      { ...at, offset: opening.byteLength },
      {
        hint: "The file was cut short: download or copy it again",
      },
    );
  }
  const view = new DataView(opening.buffer, opening.byteOffset, LENGTH_BYTES);
  const high = view.getUint32(4, true);
  const length = high * 0x1_0000_0000 + view.getUint32(0, true);
  if (high > 0x1fffff) {
    const message = `Cannot accept SafeTensors header: its length must be <= ${limits.headerBytes}, found ${view.getBigUint64(0, true)}`;
    throw new LimitError("limit/safetensors.header-bytes", message, at);
  }
  checkLimit(length, limits.headerBytes, "SafeTensors header bytes", "limit/safetensors.header-bytes", at);
  if (length <= source.byteLength - LENGTH_BYTES) return length;
  const message = `Cannot read SafeTensors header: its ${length} bytes must end inside the file, found ${source.byteLength - LENGTH_BYTES} bytes after the length`;
  throw new FormatError("format/safetensors.header-length", message, at, {
    hint: "The file was cut short, or is no SafeTensors file",
  });
}

/** Index entries that follow from the tensors. They are facts of the set, not metadata of the model. */
const DERIVED_KEYS: ReadonlySet<string> = new Set(["total_size", "total_parameters"]);

/** Opens every shard that the index names and checks the map against them. */
async function openShards(source: Source, opening: Bytes, context: OpenContext): Promise<SafetensorsModel> {
  const index = await readShardIndex(source, opening, context);
  const { resolver } = context;
  if (resolver === undefined) {
    const message = "Cannot open a SafeTensors index on its own: its shards must be reachable beside it";
    throw new UsageError(
      "usage/safetensors.no-siblings",
      message,
      { source: source.label, offset: 0 },
      {
        hint: "Open the folder or URL that holds the shards, or one shard",
      },
    );
  }
  checkShardNames(index, resolver.name);
  const shards = await openAll(index, resolver, context);
  try {
    const warnings: Finding[] = [];
    const tensors = await inTurns(collectTensors(index, shards, warnings), context.signal);
    return buildModel(source, { index, shards, tensors, warnings });
  } catch (error) {
    await Promise.allSettled(shards.map((shard) => shard.source.close()));
    throw error;
  }
}

async function readShardIndex(source: Source, opening: Bytes, context: OpenContext): Promise<ShardIndex> {
  const limits = safetensorsLimits(context.limits);
  const at = { source: source.label, offset: 0 };
  checkLimit(source.byteLength, limits.indexBytes, "SafeTensors index bytes", "limit/safetensors.index-bytes", at);
  const bytes = await withHead(source, opening).read(0, source.byteLength, { signal: context.signal });
  const place = { source: source.label, offset: 0, what: "SafeTensors index" };
  return inTurns(parseShardIndex(decodeJsonText(bytes, place), source.label, limits), context.signal);
}

/** Opens the shards a few at a time. If one fails, it closes the open ones. */
async function openAll(index: ShardIndex, resolver: Resolver, context: OpenContext): Promise<SafetensorsFile[]> {
  const opened: SafetensorsFile[] = [];
  let next = 0;
  let failure: { readonly error: unknown } | undefined;
  const work = async (): Promise<void> => {
    while (next < index.shards.length && failure === undefined) {
      const number = next++;
      try {
        opened[number] = await openShard(index, number, resolver, context);
      } catch (error) {
        failure ??= { error };
      }
    }
  };
  await Promise.all(Array.from({ length: Math.min(PARALLEL_FILES, index.shards.length) }, work));
  if (failure === undefined) return opened;
  await Promise.allSettled(opened.map((shard) => shard.source.close()));
  throw failure.error;
}

async function openShard(
  index: ShardIndex,
  number: number,
  resolver: Resolver,
  context: OpenContext,
): Promise<SafetensorsFile> {
  const { signal, limits } = context;
  const name = index.shards[number] as string;
  const source = await resolveShard(index, name, resolver, signal);
  try {
    const opening = await readOpening(source, signal);
    const { cutShort } = context;
    return {
      source,
      part: number + 1,
      ...(await readHeader(source, opening, { limits, signal, cutShort, file: name })),
    };
  } catch (error) {
    await source.close();
    throw error;
  }
}

async function resolveShard(
  index: ShardIndex,
  name: string,
  resolver: Resolver,
  signal: AbortSignal | undefined,
): Promise<Source> {
  try {
    return await resolver.resolve(name, { signal });
  } catch (error) {
    if (!(error instanceof SourceError) || error.code !== "source/not-found") throw error;
    const message = `Cannot open the shard "${name}": the index names it, but it is not there`;
    throw new SourceError("source/not-found", message, locateName(index, name, "weight_map"), {
      hint: "Put every shard beside the index; an interrupted download is the usual reason",
      cause: error,
    });
  }
}

/** A set that was opened, and what was noticed on the way. */
interface OpenedSet {
  readonly index: ShardIndex;
  readonly shards: readonly SafetensorsFile[];
  readonly tensors: readonly Tensor[];
  readonly warnings: Finding[];
}

function buildModel(source: Source, { index, shards, tensors, warnings }: OpenedSet): SafetensorsModel {
  checkTotalSize(index, tensors, warnings);
  const shardParts = shards.map((shard, i) => ({
    label: index.shards[i] as string,
    byteLength: shard.source.byteLength,
    source: shard.source,
  }));
  return new SafetensorsModel({
    parts: [{ label: source.label, byteLength: source.byteLength, source }, ...shardParts],
    files: shards,
    tensors,
    metadata: mergeMetadata(index, shards, warnings),
    facts: [["shards", String(shards.length)], ...derivedFacts(index)],
    warnings,
    unread: setLosses(index, shards, warnings),
  });
}

/** What the set holds and one file made from it cannot hold; a conversion reports it. */
function setLosses(index: ShardIndex, shards: readonly SafetensorsFile[], warnings: readonly Finding[]): Loss[] {
  const firstHeld = new Map<string, MetadataEntry>();
  for (const { header } of shards) {
    for (const entry of header.metadata) if (!firstHeld.has(entry.key)) firstHeld.set(entry.key, entry);
  }
  const differing = index.metadata.filter(({ key, value }) => {
    if (DERIVED_KEYS.has(key) || key === ORIGIN_KEY) return false;
    const held = firstHeld.get(key);
    return held !== undefined && textOf(held) !== textOf({ key, value });
  });
  return [
    ...index.further.map((name) => ({ name, reason: "a key of the index that the format does not name" })),
    ...differing.map(({ key }) => ({ name: key, reason: "the index has another value for it than the shards" })),
    ...shards.flatMap(({ header, source }) => {
      if (header.further === undefined) return [];
      return [{ name: header.further.name, reason: `fields that the format does not name (${source.label})` }];
    }),
    ...warnings
      .filter(({ code }) => code === UNLISTED || code === DIFFERS)
      .map(({ name, message }) => ({ name: name ?? "__metadata__", reason: message })),
  ];
}

const UNLISTED = "format/safetensors.unlisted-tensor";
const DIFFERS = "format/safetensors.metadata-differs";

/** Shard by shard, in the order of their headers. The map must agree with the shards. */
function* collectTensors(
  index: ShardIndex,
  shards: readonly SafetensorsFile[],
  warnings: Finding[],
): Steps<readonly Tensor[]> {
  const tensors: Tensor[] = [];
  for (const [number, shard] of shards.entries()) {
    for (const [i, tensor] of shard.header.tensors.entries()) {
      if (index.weightMap.get(tensor.name) === number) tensors.push(tensor);
      else warnings.push(unlisted(index, tensor.name, shard));
      if (i % FEW_STEPS === 0) yield FEW_STEPS;
    }
  }
  if (tensors.length === index.weightMap.size) return tensors;
  const found = new Set(tensors.map((tensor) => tensor.name));
  for (const [name, number] of index.weightMap) {
    if (found.has(name)) continue;
    const message = `Cannot open SafeTensors set: tensor ${JSON.stringify(name)} must be in "${index.shards[number]}", found none there`;
    const at = locateName(index, name, `weight_map.${JSON.stringify(name)}`);
    throw new FormatError("format/safetensors.missing-tensor", message, at);
  }
  return tensors;
}

function unlisted(index: ShardIndex, name: string, shard: SafetensorsFile): Finding {
  const mapped = index.weightMap.get(name);
  const claim = mapped === undefined ? "not at all" : `in "${index.shards[mapped]}"`;
  return {
    severity: "warning",
    code: "format/safetensors.unlisted-tensor",
    message: `Tensor ${JSON.stringify(name)} is in this shard, but the index lists it ${claim}`,
    at: { source: shard.source.label },
    name,
  };
}

function checkTotalSize(index: ShardIndex, tensors: readonly Tensor[], warnings: Finding[]): void {
  const stated = index.metadata.find((entry) => entry.key === "total_size")?.value;
  if (stated === undefined || !("value" in stated) || typeof stated.value !== "number") return;
  let total = 0;
  for (const tensor of tensors) total += tensor.byteLength;
  if (stated.value === total) return;
  warnings.push({
    severity: "warning",
    code: "format/safetensors.total-size",
    message: `The index states a total_size of ${stated.value}, its tensors have ${total} bytes`,
    at: { source: index.scanner.place.source, path: "metadata.total_size" },
  });
}

/** The shards' `__metadata__` comes first, which sets repeat in each shard; then entries that only the index has. */
function mergeMetadata(index: ShardIndex, shards: readonly SafetensorsFile[], warnings: Finding[]): Metadata {
  const entries = new Map<string, MetadataEntry>();
  for (const shard of shards) {
    for (const entry of shard.header.metadata) {
      const known = entries.get(entry.key);
      if (known === undefined) entries.set(entry.key, entry);
      else if (textOf(known) !== textOf(entry)) warnings.push(differing(entry.key, shard));
    }
  }
  for (const entry of index.metadata) {
    if (DERIVED_KEYS.has(entry.key)) continue;
    // Carried facts of a conversion concern the whole set, so the index decides about them.
    if (!entries.has(entry.key) || entry.key === ORIGIN_KEY) entries.set(entry.key, entry);
  }
  return new Metadata([...entries.values()]);
}

function textOf(entry: MetadataEntry): string | undefined {
  return entry.value.type === "string" ? entry.value.value : undefined;
}

function differing(key: string, shard: SafetensorsFile): Finding {
  const header: Header = shard.header;
  return {
    severity: "warning",
    code: "format/safetensors.metadata-differs",
    message: `The shards disagree on metadata ${JSON.stringify(key)}; the first one counts`,
    at: { source: header.scanner.place.source, path: "__metadata__" },
  };
}

function derivedFacts(index: ShardIndex): (readonly [string, string])[] {
  return index.metadata.flatMap(({ key, value }): (readonly [string, string])[] => {
    if (!DERIVED_KEYS.has(key) || !("value" in value)) return [];
    return [[key, String(value.value)]];
  });
}

/** Enough bytes to distinguish an index from a file of tensors, which begins with its header's length. */
const HEAD_BYTES = 64;

/** The shards that an index names; undefined for a file of tensors. */
async function safetensorsMembers(source: Source, context: MembersContext): Promise<Members | undefined> {
  const { signal } = context;
  if (!isIndexText(await source.read(0, Math.min(HEAD_BYTES, source.byteLength), { signal }))) return undefined;
  const limits = safetensorsLimits(context.limits);
  const at = { source: source.label, offset: 0 };
  checkLimit(source.byteLength, limits.indexBytes, "SafeTensors index bytes", "limit/safetensors.index-bytes", at);
  const bytes = (await source.read(0, source.byteLength, { signal })).slice();
  const text = decodeJsonText(bytes, { ...at, what: "SafeTensors index" });
  const index = await inTurns(parseShardIndex(text, source.label, limits), signal);
  checkShardNames(index, context.name);
  return { files: index.shards.map((path) => ({ path })), index: { bytes } };
}

/** SafeTensors: single files, and sets by their index. */
export const reader: FormatReader = {
  limits: SAFETENSORS_LIMITS,
  open: openSafetensors,
  members: safetensorsMembers,
  sections: safetensorsSections,
  carriesDigests: () => false,
  fields: async (container, range) => safetensorsFields(container, range),
  describe: describeSafetensors,
};
