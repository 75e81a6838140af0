import { type IntegrityError, isTareError, type TareError, UsageError } from "../../base/errors.ts";
import { encodeHex, printable } from "../../base/text.ts";
import type { Source } from "../../bytes/source.ts";
import type { Container } from "../../model/archive.ts";
import type { Finding, Loss } from "../../model/finding.ts";
import type { OpenContext, PartRange } from "../../model/format.ts";
import { Metadata, type MetadataEntry, stringValue } from "../../model/metadata.ts";
import { type Model, type Part, TensorIndex, type Verification } from "../../model/model.ts";
import type { Tensor } from "../../model/tensor.ts";
import type { ChunkContext } from "./chunks/chunk.ts";
import type { Control } from "./chunks/control.ts";
import type { FurtherKeys } from "./chunks/further-keys.ts";
import type { JsonMetadata, Manifest } from "./chunks/metadata.ts";
import { type Chunk, chunkNames, chunkTitle } from "./chunks/toc.ts";
import { CarriedChunks, hasKnownFlags, isKnownType, listed, type Places, sortUnknownChunks } from "./chunks/unknown.ts";
import { type ChunkNames, FOURCC, fileHeader, pageHashName, tocEntry, tocHeader } from "./layout.ts";
import type { AeroLimits } from "./limits.ts";
import { packedFacts, type ResolvedIndex, verificationBy } from "./tensors.ts";
import type { Shards } from "./weights/shards.ts";

/** What opening a file reads. */
interface AeroContent {
  readonly source: Source;
  readonly control: Control;
  readonly limits: AeroLimits;
  readonly shards: Shards;
  /** Absent if the file has no TIDX. */
  readonly indexChunk: Chunk | undefined;
  readonly index: ResolvedIndex;
  readonly json: JsonMetadata | undefined;
  readonly manifest: Manifest;
  readonly warnings: readonly Finding[];
  /** Metadata chunks that cannot be read. */
  readonly unread: readonly Chunk[];
  /** Keys that the specification does not name. */
  readonly further: FurtherKeys;
  /** Metadata chunks that do not match their digests. */
  readonly damage: readonly IntegrityError[];
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
  #places: ReadonlyMap<string, number> | undefined;
  #unread: readonly Loss[] | undefined;
  #beside: { readonly carried: CarriedChunks | undefined } | undefined;

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

  /** Computed on first use: only a writer needs it. */
  get unread(): readonly Loss[] {
    this.#unread ??= aeroLosses(this.content);
    return this.#unread;
  }

  /** Chunks of types that the specification does not name: another AERO file can have them too. */
  get beside(): CarriedChunks | undefined {
    this.#beside ??= { carried: besideOf(this.content) };
    return this.#beside.carried;
  }

  /** The reference's GGUF converter counts padding as data (docs/formats/aero.md#tidx). */
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

  /** Whether reading this tensor checks the bytes, and by which digest. */
  verificationOf(tensor: Tensor): Verification {
    this.#verifications ??= verificationsOf(this.content.index);
    return this.#verifications.get(this.#index.get(tensor.name)) ?? "unverified";
  }

  /** Compares shards without page digests with the digests of their chunks, if tensors were read from them. */
  async prove({ signal }: { readonly signal?: AbortSignal | undefined } = {}): Promise<void> {
    await this.content.shards.proof.prove(signal);
  }

  isProven({ name }: Tensor): boolean {
    const { index, shards } = this.content;
    this.#places ??= new Map(index.tensors.map((tensor, i) => [tensor.name, i]));
    const chunk = index.shards[this.#places.get(name) ?? -1]?.chunk;
    return chunk !== undefined && shards.proof.isProven(chunk);
  }

  async findDamage({ signal }: { readonly signal?: AbortSignal | undefined } = {}): Promise<readonly TareError[]> {
    const { control, damage, shards } = this.content;
    if (control.toc.first(FOURCC.control) === undefined) return damage;
    const { controlDamage } = await import("./verify.ts");
    try {
      const problem = await controlDamage(this, { engine: shards.context.engine, signal });
      return problem === undefined ? damage : [problem, ...damage];
    } catch (error) {
      if (!isTareError(error) || error.code.startsWith("source/")) throw error;
      return [...damage, error];
    }
  }

  async findSurplus({ signal }: { readonly signal?: AbortSignal | undefined } = {}): Promise<readonly Loss[]> {
    const { findSurplus, surplusPlace } = await import("./verify.ts");
    return findSurplus(surplusPlace(this, { engine: this.content.shards.context.engine, signal }));
  }

  /** What reading chunks of this file needs. */
  chunkContext({ engine, signal }: Pick<OpenContext, "engine" | "signal">): ChunkContext {
    const { control, limits, source } = this.content;
    return { toc: control.toc, label: source.label, engine, limits, signal };
  }

  close(): Promise<void> {
    return this.content.source.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

/** The JSON's entries; the manifest adds what the JSON does not say. */
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

/** The container as a model of this format; refuses any other. */
export function aeroModel(container: Container): AeroModel {
  if (container instanceof AeroModel) return container;
  const message = `Cannot treat a ${container.format} container as AERO`;
  throw new UsageError("usage/aero.container", message, { source: container.parts[0]?.label ?? container.format });
}

const KNOWN_TYPES: readonly string[] = Object.values(FOURCC);

function besideOf({ source, control, limits, manifest, index }: AeroContent): CarriedChunks | undefined {
  const { toc } = control;
  const { carried } = sortUnknownChunks(toc, manifest.rows ?? [], limits);
  const places = (): Places => placesOf(index);
  return carried.length === 0 ? undefined : new CarriedChunks(carried, { source, toc, limits, places });
}

function placesOf({ tensors, shards }: ResolvedIndex): Places {
  return {
    tensors: tensors.map(({ name, offset, storedByteLength }, i) => {
      const { id = -1, chunk } = shards[i] ?? {};
      return { name, shardId: id, dataOff: offset - (chunk?.offset ?? 0), dataLen: storedByteLength };
    }),
    shards: new Map(shards.map(({ id, byteLength }) => [id, byteLength])),
  };
}

/**
 * What a file holds that a file written from its tensors and metadata would not have. The specification lets readers
 * skip all of it, so opening succeeds; a conversion has to report it. Computing it reads nothing: `unclaimedBytes`
 * looks into the gaps. A single file also has `beside`, and `describeAero` carries its further keys and the names of
 * its chunks; for files of a set neither is carried.
 */
export function aeroLosses(content: AeroContent, kept: "alone" | "in a set" = "alone"): Loss[] {
  const { control, further, index, unread, manifest, limits } = content;
  const unknown = sortUnknownChunks(control.toc, manifest.rows ?? [], limits);
  const names = chunkNames(control.toc);
  const cannotBeRead = unread.map((chunk) => ({ name: chunk.name, reason: "its metadata cannot be read" }));
  return [
    ...cannotBeRead,
    ...listed([...chunkLosses(content), ...unknown.losses]),
    ...(kept === "alone" ? further.losses() : further.allLosses()),
    ...(kept === "alone" ? [] : (besideOf(content)?.losses ?? [])),
    ...(kept === "alone" ? [] : nameLosses(names.names)),
    ...names.losses,
    ...packedFacts(index.packed).losses,
    ...(control.toc.warnings.length === 0 ? [] : [{ name: "reserved fields", reason: "they are not zero" }]),
    ...trailingLosses(content),
  ];
}

function nameLosses(names: ChunkNames): Loss[] {
  return Object.entries(names).map(([role, name]) => {
    return { name: printable(name), reason: `the name of the ${role} chunk, which is not the usual one` };
  });
}

/** Chunks of known types that nothing refers to, and flags that the specification does not name. */
function* chunkLosses({ control, shards, index }: AeroContent): Generator<Loss> {
  const used = new Set(index.shards.map(({ name }) => name));
  const uses: ChunkUses = {
    first: new Map(KNOWN_TYPES.map((fourcc) => [fourcc, control.toc.first(fourcc)])),
    shards: used,
    pages: new Set([...used].map(pageHashName)),
    hidden: new Set(shards.hidden),
  };
  for (const chunk of control.toc.chunks) {
    const reason = isKnownType(chunk) ? chunkSurplus(chunk, uses) : undefined;
    if (reason !== undefined) yield { name: chunkTitle(chunk), reason };
  }
}

interface ChunkUses {
  /** The first chunk of each type. */
  readonly first: ReadonlyMap<string, Chunk | undefined>;
  /** Names of the shards that hold tensors, and of their page hashes. */
  readonly shards: ReadonlySet<string>;
  readonly pages: ReadonlySet<string>;
  readonly hidden: ReadonlySet<Chunk>;
}

function chunkSurplus(chunk: Chunk, { first, shards, pages, hidden }: ChunkUses): string | undefined {
  const { fourcc, name } = chunk;
  const isShard = fourcc === FOURCC.weights;
  const isSingle = !isShard && fourcc !== FOURCC.pages;
  if (isSingle ? first.get(fourcc) !== chunk : hidden.has(chunk)) return "an earlier chunk of the same kind hides it";
  if (isShard && !shards.has(name)) return "weights that no tensor refers to";
  if (fourcc === FOURCC.pages && !pages.has(name)) return "page hashes of weights that no tensor refers to";
  return hasKnownFlags(chunk) ? undefined : "flags that the specification does not name";
}

/** Writers put nothing after the last chunk, not even padding (docs/formats/aero.md#writing). */
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
