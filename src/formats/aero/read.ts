import { type Bytes, EMPTY_BYTES } from "../../base/bytes.ts";
import { type IntegrityError, isTareError, type TareError } from "../../base/errors.ts";
import { resolveLimits } from "../../base/limits.ts";
import { inTurns } from "../../base/turns.ts";
import type { Source } from "../../bytes/source.ts";
import { type Finding, findingFromError } from "../../model/finding.ts";
import type { FormatReader, OpenContext, PageDigests, PagedRun } from "../../model/format.ts";
import { decodeJsonNumber } from "../../model/metadata-json.ts";
import { ORIGIN_KEY } from "../../model/origin/origin.ts";
import type { Tensor } from "../../model/tensor.ts";
import {
  type ChunkContext,
  checkChunkHash,
  checkChunkSize,
  compareHash,
  decodeChunk,
  decodeContent,
  readTogether,
} from "./chunks/chunk.ts";
import { readControl } from "./chunks/control.ts";
import { FurtherKeys } from "./chunks/further-keys.ts";
import { type StatedRows, tellMisstated } from "./chunks/manifest-rows.ts";
import { decodeMjsn, decodeMmsg, type JsonMetadata } from "./chunks/metadata.ts";
import { decodeTidx, type EntryVisitor } from "./chunks/tidx.ts";
import { type Chunk, chunkTitle, type Toc } from "./chunks/toc.ts";
import { aeroFields, aeroSections, hasChunks } from "./inspect.ts";
import { FOURCC } from "./layout.ts";
import { AERO_LIMITS } from "./limits.ts";
import { AeroModel, aeroModel } from "./model.ts";
import { describeAero, isUsualAero } from "./origin.ts";
import { type Convention, IndexResolver, type ResolvedIndex } from "./tensors.ts";
import { Shards } from "./weights/shards.ts";

/** AERO v0.1: chunks, a tensor index and shards of weights, each with a digest. */
export const reader: FormatReader = {
  limits: AERO_LIMITS,
  open: (source, context) => openAero(source, context),
  pageDigests: async (container, signal) => aeroPageDigests(aeroModel(container), signal),
  sections: (container) => aeroSections(aeroModel(container)),
  carriesDigests: (container) => hasChunks(aeroModel(container)),
  fields: async (container) => aeroFields(aeroModel(container)),
  describe: (container) => describeAero(aeroModel(container)),
  isUsual: isUsualAero,
  decodeValue: decodeJsonNumber,
};

/** Page hashes up to this length are fetched along with a read that is needed anyway. */
const WELCOME_BYTES = 1 << 20;

/**
 * Reads the control region, the index and the metadata, never the weights: one read of 256 KiB and, if something is
 * past its end, one more. The index must be sound; damaged metadata causes only a warning, because the weights are
 * readable without it. `visit` sees every entry of the index as the file has it: a set needs more of each entry than a
 * single file does.
 */
export async function openAero(source: Source, context: OpenContext, visit?: EntryVisitor): Promise<AeroModel> {
  const limits = resolveLimits("aero", AERO_LIMITS, context.limits);
  const control = await readControl(source, limits, context.signal);
  const { toc, opening } = control;
  const chunkContext: ChunkContext = { toc, label: source.label, limits, engine: context.engine };
  const reading: ChunkContext = { ...chunkContext, signal: context.signal };
  const chunks = {
    index: toc.first(FOURCC.index),
    json: toc.first(FOURCC.json),
    manifest: toc.first(FOURCC.manifest),
  };
  const warnings: Finding[] = [...toc.warnings];
  const sound = soundChunks(chunks, reading, warnings);
  const stored = await readTogether(source, opening, {
    wanted: [sound.index, sound.json, sound.manifest].filter((chunk): chunk is Chunk => (chunk?.byteLength ?? 0) > 0),
    welcome: welcomeChunks(toc),
    signal: context.signal,
  });
  const metadata = new MetadataChunks(stored, reading, warnings);
  const json = await metadata.decode(sound.json, (content, place) => decodeMjsn(content, place));
  const further = new FurtherKeys();
  const stated: StatedRows = { chunks: [], shards: [] };
  const manifest = await metadata.decode(sound.manifest, (content, place) => {
    return decodeMmsg(content, place, { further, stated });
  });
  let index: ResolvedIndex | undefined;
  const tensors = (): readonly Tensor[] => index?.tensors ?? [];
  const shards = new Shards({ ...chunkContext, source, preloaded: pagesOf(stored), tensors, spool: context.spool });
  index = await readIndex(sound.index, stored, { reading, shards, convention: conventionOf(json), further, visit });
  for (const warning of index.warnings) warnings.push(warning);
  for (const warning of hiddenWarnings(toc, shards, source.label)) warnings.push(warning);
  tellMisstated(stated, { toc, shards: index.shards }, further);
  const unread: Chunk[] = [];
  if (chunks.json !== undefined && json === undefined) unread.push(chunks.json);
  if (chunks.manifest !== undefined && manifest === undefined) unread.push(chunks.manifest);
  return new AeroModel({
    ...{ source, control, limits, shards, indexChunk: chunks.index, index, json, warnings, unread, further },
    damage: metadata.damage,
    manifest: manifest ?? {},
  });
}

type Found = Readonly<Record<"index" | "json" | "manifest", Chunk | undefined>>;

/** Checks declared sizes before anything is read: refuses an index above the limits, leaves out other metadata. */
function soundChunks(chunks: Found, context: ChunkContext, warnings: Finding[]): Found {
  if (chunks.index !== undefined) checkChunkSize(chunks.index, context);
  const check = (chunk: Chunk | undefined): Chunk | undefined => {
    try {
      if (chunk !== undefined) checkChunkSize(chunk, context);
      return chunk;
    } catch (error) {
      if (!isTareError(error)) throw error;
      warnings.push(findingFromError(error, "warning"));
      return undefined;
    }
  };
  return { index: chunks.index, json: check(chunks.json), manifest: check(chunks.manifest) };
}

function welcomeChunks(toc: Toc): Chunk[] {
  const pages = toc.chunks.filter((chunk) => chunk.fourcc === FOURCC.pages);
  const total = pages.reduce((sum, chunk) => sum + chunk.byteLength, 0);
  return total <= WELCOME_BYTES ? pages : [];
}

/** Copies, so that a few page hashes do not keep a whole index in memory that was read with them. */
function pagesOf(stored: ReadonlyMap<Chunk, Bytes>): Map<Chunk, Bytes> {
  const pages = [...stored].filter(([chunk]) => chunk.fourcc === FOURCC.pages);
  return new Map(pages.map(([chunk, bytes]) => [chunk, bytes.slice()]));
}

interface Place {
  readonly label: string;
  readonly offset: number;
}

/** Metadata that may be damaged without making the file useless. */
class MetadataChunks {
  readonly #stored: ReadonlyMap<Chunk, Bytes>;
  readonly #context: ChunkContext;
  readonly #warnings: Finding[];
  /** Digests that differ. Digests of zeros do not count: an early writer left those. */
  readonly damage: IntegrityError[] = [];

  constructor(stored: ReadonlyMap<Chunk, Bytes>, context: ChunkContext, warnings: Finding[]) {
    this.#stored = stored;
    this.#context = context;
    this.#warnings = warnings;
  }

  /**
   * Undefined, with a warning, if the chunk cannot be decoded. A wrong digest alone is only a warning (the reference
   * writer leaves the digest of MJSN zero if it writes no IHSH). It is then the only warning, because decoding errors
   * follow from it.
   */
  async decode<T>(chunk: Chunk | undefined, decode: (content: Bytes, place: Place) => T): Promise<T | undefined> {
    if (chunk === undefined) return undefined;
    const { label } = this.#context;
    let damage: TareError | undefined;
    try {
      const content = await decodeChunk(chunk, this.#stored.get(chunk) ?? EMPTY_BYTES, this.#context);
      damage = await this.#hashError(chunk, content);
      return await decodeContent(chunk, label, () => decode(content, { label, offset: chunk.offset }));
    } catch (error) {
      if (!isTareError(error)) throw error;
      damage ??= error;
      return undefined;
    } finally {
      if (damage !== undefined) this.#warnings.push(findingFromError(damage, "warning"));
    }
  }

  async #hashError(chunk: Chunk, content: Bytes): Promise<TareError | undefined> {
    const problem = compareHash(chunk, await this.#context.engine.digest("blake3", content), this.#context);
    const isStated = this.#context.toc.hashOf(chunk).some((byte) => byte !== 0);
    if (problem !== undefined && isStated) this.damage.push(problem);
    return problem;
  }
}

/** GGUF's conventions apply to what the reference converted from GGUF. Our own files say so and stay row-major. */
function conventionOf(json: JsonMetadata | undefined): Convention {
  const find = (key: string) => json?.entries.find((entry) => entry.key === key)?.value;
  const format = find("source_format");
  const isGguf = format?.type === "string" && format.value === "gguf" && find(ORIGIN_KEY) === undefined;
  return isGguf ? "gguf" : "row-major";
}

interface IndexContext {
  readonly reading: ChunkContext;
  readonly shards: Shards;
  readonly convention: Convention;
  readonly further: FurtherKeys;
  readonly visit: EntryVisitor | undefined;
}

async function readIndex(
  chunk: Chunk | undefined,
  stored: ReadonlyMap<Chunk, Bytes>,
  { reading, shards, convention, further, visit }: IndexContext,
): Promise<ResolvedIndex> {
  if (chunk === undefined) {
    return { tensors: [], shards: [], hashes: [], packed: [], warnings: [] };
  }
  const { label, limits } = reading;
  const content = await decodeChunk(chunk, stored.get(chunk) ?? EMPTY_BYTES, reading);
  await checkChunkHash(chunk, content, reading);
  const place = { label, offset: chunk.offset };
  const resolver = new IndexResolver({ chunk, shards, convention, further });
  await decodeContent(chunk, label, () => {
    const steps = decodeTidx(content, { place, limits, further }, (entry, i) => {
      resolver.add(entry, i);
      visit?.(entry, i);
    });
    return inTurns(steps, reading.signal);
  });
  return resolver.finish();
}

/** If two chunks claim one place, the first counts, as in the reference. */
function hiddenWarnings(toc: Toc, shards: Shards, label: string): Finding[] {
  const single: readonly string[] = [FOURCC.index, FOURCC.json, FOURCC.manifest, FOURCC.control];
  const seen = new Set<string>();
  const repeated = toc.chunks.filter(({ fourcc }) => {
    if (!single.includes(fourcc)) return false;
    if (seen.has(fourcc)) return true;
    seen.add(fourcc);
    return false;
  });
  return [...repeated, ...shards.hidden].map((chunk) => ({
    severity: "warning",
    code: "format/aero.hidden-chunk",
    message: `${chunkTitle(chunk)} is hidden by an earlier chunk of the same kind`,
    at: { source: label, offset: chunk.offset, path: `toc[${chunk.index}]` },
  }));
}

/** The page digests (PHSH chunks) of every shard that has them. */
async function aeroPageDigests(model: AeroModel, signal?: AbortSignal): Promise<PageDigests> {
  const { shards } = model.content;
  const runs: PagedRun[] = [];
  let bare = shards.hidden.length;
  for (const { name, offset, byteLength } of shards.weights.values()) {
    const pages = await shards.named(name).readPages(signal);
    if (pages === undefined) bare++;
    else runs.push({ offset, byteLength, pageBytes: pages.pageBytes, digests: pages.digests });
  }
  return { runs, coverage: bare === 0 ? "all" : "some" };
}
