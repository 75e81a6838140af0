import { UsageError } from "../../base/errors.ts";
import { encodeHex, printable } from "../../base/text.ts";
import type { Source } from "../../bytes/source.ts";
import type { Container } from "../../model/archive.ts";
import type { Finding } from "../../model/finding.ts";
import type { Loss, OpenContext, PartRange } from "../../model/format.ts";
import { Metadata, type MetadataEntry, stringValue } from "../../model/metadata.ts";
import { type Model, type Part, TensorIndex, type Verification } from "../../model/model.ts";
import type { Tensor } from "../../model/tensor.ts";
import type { ChunkContext } from "./chunks/chunk.ts";
import type { Control } from "./chunks/control.ts";
import type { FurtherKeys } from "./chunks/further-keys.ts";
import type { JsonMetadata, Manifest } from "./chunks/metadata.ts";
import { type Chunk, chunkTitle } from "./chunks/toc.ts";
import { CHUNK_FLAGS, FOURCC, fileHeader, pageHashName, tocEntry, tocHeader } from "./layout.ts";
import type { AeroLimits } from "./limits.ts";
import { packedFacts } from "./origin.ts";
import { type ResolvedIndex, verificationBy } from "./tensors.ts";
import type { Shards } from "./weights/shards.ts";

/** What opening a file has read. */
interface AeroContent {
  readonly source: Source;
  readonly control: Control;
  readonly limits: AeroLimits;
  readonly shards: Shards;
  /** Absent where the file has no TIDX. */
  readonly indexChunk: Chunk | undefined;
  readonly index: ResolvedIndex;
  readonly json: JsonMetadata | undefined;
  readonly manifest: Manifest;
  readonly warnings: readonly Finding[];
  /** Metadata chunks that cannot be read. */
  readonly unread: readonly Chunk[];
  /** Keys that the specification does not name. */
  readonly further: FurtherKeys;
}

/** An opened AERO file. Owns the source. */
export class AeroModel implements Model {
  readonly kind = "model";
  readonly format = "aero";
  readonly version: string;
  readonly content: AeroContent;
  readonly parts: readonly Part[];
  readonly metadata: Metadata;
  readonly tensors: readonly Tensor[];
  readonly warnings: readonly Finding[];
  readonly facts: readonly (readonly [string, string])[];
  readonly #index: TensorIndex;
  #verifications: ReadonlyMap<Tensor, Verification> | undefined;
  #unread: readonly Loss[] | undefined;

  constructor(content: AeroContent) {
    const { source, control, index } = content;
    const { versionMajor, versionMinor } = control.header;
    this.content = content;
    this.version = `${versionMajor}.${versionMinor}`;
    this.parts = [{ label: source.label, byteLength: source.byteLength, source }];
    this.metadata = metadataOf(content);
    this.tensors = index.tensors;
    this.warnings = content.warnings;
    this.facts = factsOf(content);
    this.#index = new TensorIndex(index.tensors, source.label);
  }

  /** Found when it is asked for: only who writes a model wants to know. */
  get unread(): readonly Loss[] {
    this.#unread ??= aeroLosses(this.content);
    return this.#unread;
  }

  /** The reference's GGUF converter counts padding as data (formats/aero.md 5.3). */
  get slack(): readonly PartRange[] {
    return this.tensors
      .filter(({ byteLength, storedByteLength }) => storedByteLength > byteLength)
      .map(({ offset, byteLength, storedByteLength }) => {
        return { part: 0, offset: offset + byteLength, byteLength: storedByteLength - byteLength };
      });
  }

  tensor(name: string): Tensor {
    if (this.content.indexChunk !== undefined) return this.#index.get(name);
    const message = `Cannot find tensor "${printable(name)}": the file has no TIDX chunk`;
    throw new UsageError("usage/tensor-not-found", message, { source: this.content.source.label });
  }

  /** Whether reading this tensor checks what it hands out, and by which digest. */
  verificationOf(tensor: Tensor): Verification {
    this.#verifications ??= verificationsOf(this.content.index);
    return this.#verifications.get(this.#index.get(tensor.name)) ?? "unverified";
  }

  /** What reading chunks of this file takes. */
  chunkContext({ engine, signal }: Pick<OpenContext, "engine" | "signal">): ChunkContext {
    const { control, limits, source } = this.content;
    return { toc: control.toc, label: source.label, engine, limits, signal };
  }

  close(): Promise<void> {
    return this.content.source.close();
  }
}

/** The JSON's entries; the manifest fills in what the JSON does not say. */
function metadataOf({ json, manifest }: AeroContent): Metadata {
  const entries: MetadataEntry[] = [...(json?.entries ?? [])];
  const add = (key: string, text: string | undefined): void => {
    if (text === undefined || text === "" || entries.some((entry) => entry.key === key)) return;
    entries.push({ key, value: stringValue(text) });
  };
  add("model_name", manifest.name);
  add("architecture", manifest.architecture);
  return new Metadata(entries);
}

function factsOf({ control, shards, index }: AeroContent): (readonly [string, string])[] {
  const { header, toc } = control;
  const control256 = toc.first(FOURCC.control) === undefined ? "no" : "yes";
  return [
    ["uuid", encodeHex(header.uuid)],
    ["chunks", String(toc.chunks.length)],
    ["shards", String(shards.weights.size)],
    ["control hash", control256],
    ["verified reads", verifiedReads(index)],
  ];
}

function verificationsOf({ tensors, shards, hashes }: ResolvedIndex): ReadonlyMap<Tensor, Verification> {
  const all = new Map<Tensor, Verification>();
  for (const [i, tensor] of tensors.entries()) {
    const shard = shards[i];
    if (shard !== undefined) all.set(tensor, verificationBy(undefined, 0, shard));
  }
  for (const { tensor, hash, byteLength, shard } of hashes) all.set(tensor, verificationBy(hash, byteLength, shard));
  return all;
}

function verifiedReads({ tensors, shards, hashes }: ResolvedIndex): string {
  const byTensor = hashes.filter(({ hash, byteLength, shard }) => verificationBy(hash, byteLength, shard) === "tensor");
  const hashed = byTensor.length;
  const paged =
    shards.filter(({ pages }) => pages !== undefined).length -
    byTensor.filter(({ shard }) => shard.pages !== undefined).length;
  if (paged + hashed === 0) return "no (unverified)";
  const how = [paged > 0 ? "page hashes" : "", hashed > 0 ? "tensor hashes" : ""].filter((text) => text !== "");
  const share = paged + hashed === tensors.length ? "" : `, ${tensors.length - paged - hashed} tensors unverified`;
  return `yes, by ${how.join(" and ")}${share}`;
}

/** The container as a model of this format; another one is refused. */
export function aeroModel(container: Container): AeroModel {
  if (container instanceof AeroModel) return container;
  const message = `Cannot treat a ${container.format} container as AERO`;
  throw new UsageError("usage/aero.container", message, { source: container.parts[0]?.label ?? container.format });
}

/** More are told by their number: a file may have a million chunks. */
const MAX_LISTED = 100;

const KNOWN_FLAGS = Object.values(CHUNK_FLAGS).reduce((all, flag) => all | flag, 0);
const KNOWN_TYPES: readonly string[] = Object.values(FOURCC);

/**
 * What a file holds that one written anew from its tensors and metadata would not have. The specification lets readers
 * pass over all of it, so that opening is right to succeed; a conversion has to say it. Nothing is read for it: what lies
 * in gaps is looked at by `unclaimedBytes`.
 */
export function aeroLosses(
  content: AeroContent,
  keys: "keys are carried" | "keys are lost" = "keys are carried",
): Loss[] {
  const { control, further, index, unread } = content;
  const cannotBeRead = unread.map((chunk) => ({ name: chunk.name, reason: "its metadata cannot be read" }));
  return [
    ...cannotBeRead,
    ...listed(chunkLosses(content)),
    ...(keys === "keys are lost" ? further.allLosses() : further.losses()),
    ...packedFacts(index.packed).losses,
    ...(control.toc.warnings.length === 0 ? [] : [{ name: "reserved fields", reason: "they are not zero" }]),
    ...trailingLosses(content),
  ];
}

/** Chunks of types and names that nothing refers to, and flags that the specification does not name. */
function* chunkLosses({ control, shards, index }: AeroContent): Generator<Loss> {
  const used = new Set(index.shards.map(({ name }) => name));
  const uses: ChunkUses = {
    first: new Map(KNOWN_TYPES.map((fourcc) => [fourcc, control.toc.first(fourcc)])),
    shards: used,
    pages: new Set([...used].map(pageHashName)),
    hidden: new Set(shards.hidden),
  };
  for (const chunk of control.toc.chunks) {
    const reason = chunkSurplus(chunk, uses);
    if (reason !== undefined) yield { name: chunkTitle(chunk), reason };
  }
}

interface ChunkUses {
  /** The first chunk of each type. */
  readonly first: ReadonlyMap<string, Chunk | undefined>;
  /** Names of the shards that tensors lie in, and of their page hashes. */
  readonly shards: ReadonlySet<string>;
  readonly pages: ReadonlySet<string>;
  readonly hidden: ReadonlySet<Chunk>;
}

function chunkSurplus(chunk: Chunk, { first, shards, pages, hidden }: ChunkUses): string | undefined {
  const { fourcc, name, flags, byteLength } = chunk;
  if (!KNOWN_TYPES.includes(fourcc)) return "a chunk of a type that the specification does not name";
  const isShard = fourcc === FOURCC.weights;
  const isSingle = !isShard && fourcc !== FOURCC.pages;
  if (isSingle ? first.get(fourcc) !== chunk : hidden.has(chunk)) return "an earlier chunk of the same kind hides it";
  if (isShard && byteLength > 0 && !shards.has(name)) return "weights that no tensor refers to";
  if (fourcc === FOURCC.pages && !pages.has(name)) return "page hashes of weights that no tensor refers to";
  return (flags & ~KNOWN_FLAGS) === 0 ? undefined : "flags that the specification does not name";
}

function listed(losses: Iterable<Loss>): Loss[] {
  const first: Loss[] = [];
  let more = 0;
  for (const loss of losses) {
    if (first.length < MAX_LISTED) first.push(loss);
    else more++;
  }
  return more === 0 ? first : [...first, { name: `${more} more chunks`, reason: "as the ones before" }];
}

/** Writers put nothing after the last chunk, not even padding (formats/aero.md 1.1). */
function trailingLosses({ source, control }: AeroContent): Loss[] {
  const { header, toc } = control;
  const tables = [
    fileHeader.byteLength,
    header.tocOffset + tocHeader.byteLength + toc.chunks.length * tocEntry.byteLength,
    header.stringTableOffset + header.stringTableLength,
  ];
  const end = toc.chunks.reduce((last, chunk) => Math.max(last, chunk.offset + chunk.byteLength), Math.max(...tables));
  const byteLength = source.byteLength - end;
  if (byteLength <= 0) return [];
  const at = { source: source.label, offset: end, byteLength };
  return [{ name: `${byteLength} bytes from ${end}`, reason: "they lie after the last chunk", at }];
}
