import type { Bytes } from "../../../base/bytes.ts";
import { FormatError, SourceError, UsageError } from "../../../base/errors.ts";
import { checkLimit } from "../../../base/limits.ts";
import { printable } from "../../../base/text.ts";
import { withHead } from "../../../bytes/layers/opening-read.ts";
import { PARALLEL_FILES, type Resolver } from "../../../bytes/resolver.ts";
import type { Source } from "../../../bytes/source.ts";
import type { Loss } from "../../../model/finding.ts";
import { type Finding, findingFromError } from "../../../model/finding.ts";
import type { OpenContext } from "../../../model/format.ts";
import { Metadata } from "../../../model/metadata.ts";
import { fingerprint } from "../../../model/metadata-json.ts";
import { Tensor, type TensorFacts } from "../../../model/tensor.ts";
import type { Engine } from "../../../primitives/engine.ts";
import { decodeJsonText } from "../../../struct/strict-json.ts";
import { aprKind, OPENING_BYTES } from "../index.ts";
import { aprLimits } from "../limits.ts";
import { AprModel, specDetails } from "../model.ts";
import { type Manifest, parseManifest, SHARD_KEY, type ShardEntry } from "./manifest.ts";
import { shardLosses } from "./origin.ts";
import { ShardProof, strangeShard } from "./shard-proof.ts";

/** The `details` of a set's model. */
export interface ManifestDetails {
  readonly source: Source;
  readonly manifest: Manifest;
  /** In the order of `manifest.shards`. */
  readonly shards: readonly AprModel[];
}

/** Opens one shard: a manifest may list any layout except another manifest. */
export type OpenShard = (source: Source, context: OpenContext) => Promise<AprModel>;

/** Opens a set: the manifest, then the front matter of each shard, a few at a time. Reads no tensor data. */
export async function openManifest(
  source: Source,
  opening: Bytes,
  context: OpenContext,
  openShard: OpenShard,
): Promise<AprModel> {
  const limits = aprLimits(context.limits);
  const at = { source: source.label, offset: 0 };
  checkLimit(source.byteLength, limits.manifestBytes, "APR manifest bytes", "limit/apr.manifest-bytes", at);
  const bytes = await withHead(source, opening).read(0, source.byteLength, { signal: context.signal });
  const text = decodeJsonText(bytes, { ...at, what: "APR manifest" });
  const manifest = parseManifest(text, source.label, limits);
  const { resolver } = context;
  if (resolver === undefined) throw noSiblings(source);
  const shards = await openAll(manifest, source, { ...context, resolver }, openShard);
  try {
    return buildModel({ source, manifest, shards }, context.engine);
  } catch (error) {
    await Promise.allSettled(shards.map((shard) => shard.close()));
    throw error;
  }
}

type ShardContext = OpenContext & { readonly resolver: Resolver };

/** If one fails, closes those that are open. */
async function openAll(
  manifest: Manifest,
  source: Source,
  context: ShardContext,
  openShard: OpenShard,
): Promise<AprModel[]> {
  const opened: AprModel[] = [];
  let next = 0;
  let failure: { readonly error: unknown } | undefined;
  const work = async (): Promise<void> => {
    while (next < manifest.shards.length && failure === undefined) {
      const number = next++;
      try {
        opened[number] = await openOne(manifest.shards[number] as ShardEntry, { number, source, context, openShard });
      } catch (error) {
        failure ??= { error };
      }
    }
  };
  await Promise.all(Array.from({ length: Math.min(PARALLEL_FILES, manifest.shards.length) }, work));
  if (failure === undefined) return opened;
  await Promise.allSettled(opened.map((shard) => shard.close()));
  throw failure.error;
}

interface ShardJob {
  readonly number: number;
  /** The manifest. */
  readonly source: Source;
  readonly context: ShardContext;
  readonly openShard: OpenShard;
}

async function openOne(entry: ShardEntry, { number, source, context, openShard }: ShardJob): Promise<AprModel> {
  const path = `shards[${number}]`;
  const shard = await resolveShard(entry, { number, source, context, openShard });
  try {
    if (shard.byteLength !== entry.size) {
      const message = `Cannot open the shard "${printable(entry.file)}": size must be ${entry.size}, found ${shard.byteLength}`;
      throw new FormatError("format/apr.shard-size", message, {
        source: source.label,
        offset: 0,
        path: `${path}.size`,
      });
    }
    const head = await shard.read(0, Math.min(OPENING_BYTES, shard.byteLength), { signal: context.signal });
    if (aprKind(head) !== "manifest") return await openShard(withHead(shard, head), context);
    // Checked before it is opened: a manifest that names itself would never end.
    const message = `Cannot open the shard "${printable(entry.file)}": it is a manifest itself`;
    throw new FormatError("format/apr.manifest", message, { source: source.label, offset: 0, path: `${path}.file` });
  } catch (error) {
    await shard.close();
    throw error;
  }
}

async function resolveShard({ file }: ShardEntry, { number, source, context }: ShardJob): Promise<Source> {
  try {
    return await context.resolver.resolve(file, { signal: context.signal });
  } catch (error) {
    if (!(error instanceof SourceError) || error.code !== "source/not-found") throw error;
    const message = `Cannot open the shard "${printable(file)}": the manifest names it, but it is not there`;
    const at = { source: source.label, offset: 0, path: `shards[${number}].file` };
    throw new SourceError("source/not-found", message, at, {
      hint: "Put every shard beside the manifest; an interrupted download is the usual reason",
      cause: error,
    });
  }
}

function buildModel(details: ManifestDetails, engine: Engine): AprModel {
  const { source, manifest, shards } = details;
  const warnings: Finding[] = shards.flatMap((shard) => shard.warnings);
  // If the footers were read, they show a shard of another set.
  for (const [i, shard] of shards.entries()) {
    const { checksums } = shard.layout === "spec" ? specDetails(shard) : {};
    const entry = manifest.shards[i] as ShardEntry;
    const strange = checksums === undefined ? undefined : strangeShard(entry, i, checksums, source.label);
    if (strange !== undefined) warnings.push({ ...findingFromError(strange, "warning"), name: entry.file });
  }
  const proof = new ShardProof({ source: source.label, manifest, shards, engine });
  const tensors = collectTensors(details, warnings, (number) => proof.noteRead(number));
  return new AprModel({
    layout: "manifest",
    version: shards[0]?.version,
    parts: [
      { label: source.label, byteLength: source.byteLength, source },
      ...shards.map((shard, i) => ({
        label: manifest.shards[i]?.file ?? "",
        byteLength: shard.parts[0]?.byteLength ?? 0,
        source: shard.parts[0]?.source ?? source,
      })),
    ],
    metadata: setMetadata(shards[0]),
    tensors,
    warnings,
    unread: setLosses(manifest, shards, warnings),
    facts: [["shards", String(shards.length)]],
    details,
    proof,
  });
}

/** The first shard speaks for the set. The number of a shard is not part of the model. */
function setMetadata(first: AprModel | undefined): Metadata {
  if (first === undefined) return new Metadata();
  return first.metadata.get(SHARD_KEY)?.type === "map" ? first.metadata.without(SHARD_KEY) : first.metadata;
}

/** What the set holds and one file made of it does not; a conversion reports it. */
function setLosses(manifest: Manifest, shards: readonly AprModel[], warnings: readonly Finding[]): Loss[] {
  const [first, ...others] = shards;
  const own = others
    .flatMap((shard) => shard.metadata.entries)
    .filter(({ key, value }) => {
      const held = first?.metadata.get(key);
      return key !== SHARD_KEY && (held === undefined || fingerprint(held) !== fingerprint(value));
    });
  return [
    ...shardLosses(shards),
    ...shards.filter(({ layout }) => layout !== "spec").flatMap(({ unread = [] }) => unread),
    ...manifest.further.map((name) => ({ name, reason: "a key of the manifest that the format does not name" })),
    ...[...new Set(own.map(({ key }) => key))].map((name) => {
      return { name, reason: "metadata of a shard that the first one does not have" };
    }),
    ...warnings
      .filter(({ code }) => code === "format/apr.unlisted-tensor")
      .map(({ name = "", message }) => ({ name, reason: message })),
  ];
}

/** Shard by shard, in the order of their indexes; the map must agree with what the shards hold. */
function collectTensors(
  { source, manifest, shards }: ManifestDetails,
  warnings: Finding[],
  onRead: (number: number) => void,
): Tensor[] {
  const { shards: entries, map } = manifest;
  const tensors: Tensor[] = [];
  shards.forEach((shard, number) => {
    const file = entries[number]?.file;
    const read = (tensor: Tensor): Source => {
      onRead(number);
      return tensor.source();
    };
    for (const tensor of shard.tensors) {
      const mapped = map.get(tensor.name);
      if (mapped === number) tensors.push(new Tensor({ ...factsOf(tensor), file }, { source: () => read(tensor) }));
      else warnings.push(unlisted(tensor.name, mapped === undefined ? undefined : entries[mapped]?.file, file ?? ""));
    }
  });
  if (tensors.length === map.size) return tensors;
  const found = new Set(tensors.map((tensor) => tensor.name));
  for (const [name, number] of map) {
    if (found.has(name)) continue;
    const message = `Cannot open the set: tensor "${printable(name)}" must be in "${printable(entries[number]?.file ?? "")}", found none there`;
    const at = { source: source.label, offset: 0, path: `tensor_shard_map.${JSON.stringify(name)}` };
    throw new FormatError("format/apr.missing-tensor", message, at);
  }
  return tensors;
}

function factsOf({ name, dtype, shape, byteLength, offset, storedByteLength }: Tensor): TensorFacts {
  return { name, dtype, shape, byteLength, offset, storedByteLength };
}

function unlisted(name: string, mapped: string | undefined, file: string): Finding {
  const claim = mapped === undefined ? "not at all" : `in "${printable(mapped)}"`;
  return {
    severity: "warning",
    code: "format/apr.unlisted-tensor",
    message: `Tensor "${printable(name)}" is in this shard, but the manifest lists it ${claim}`,
    at: { source: file, offset: 0, path: name },
    name,
  };
}

function noSiblings(source: Source): UsageError {
  const message = "Cannot open an APR manifest on its own: its shards must be reachable beside it";
  return new UsageError(
    "usage/apr.no-siblings",
    message,
    { source: source.label, offset: 0 },
    { hint: "Open the folder or URL that holds the shards, or one shard" },
  );
}
