import { UsageError } from "../../base/errors.ts";
import { encodeHex } from "../../base/hex.ts";
import { printable } from "../../base/text.ts";
import type { Source } from "../../bytes/source.ts";
import type { Container } from "../../model/container.ts";
import type { Finding } from "../../model/finding.ts";
import type { Loss, OpenContext, PartRange } from "../../model/format.ts";
import { Metadata, type MetadataEntry, stringValue } from "../../model/metadata.ts";
import { type Model, type Part, TensorIndex, type Verification } from "../../model/model.ts";
import type { Tensor } from "../../model/tensor.ts";
import type { ChunkContext } from "./chunk.ts";
import type { FurtherKeys } from "./chunks/further-keys.ts";
import type { JsonMetadata } from "./chunks/mjsn.ts";
import type { Manifest } from "./chunks/mmsg.ts";
import type { Control } from "./control.ts";
import { FOURCC } from "./layout.ts";
import type { AeroLimits } from "./limits.ts";
import type { Shards } from "./shards.ts";
import { aeroLosses } from "./surplus.ts";
import { type ResolvedIndex, verificationBy } from "./tensor-index.ts";
import type { Chunk } from "./toc.ts";

/** What opening a file has read. */
export interface AeroContent {
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
