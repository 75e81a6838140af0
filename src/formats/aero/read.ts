import { type Bytes, EMPTY_BYTES } from "../../base/bytes.ts";
import { isTareError, type TareError } from "../../base/errors.ts";
import { resolveLimits } from "../../base/limits.ts";
import { inTurns } from "../../base/turns.ts";
import type { Source } from "../../bytes/source.ts";
import { type Finding, findingFromError } from "../../model/finding.ts";
import type { FormatReader, OpenContext } from "../../model/format.ts";
import { decodeJsonNumber } from "../../model/metadata-json.ts";
import { ORIGIN_KEY } from "../../model/origin.ts";
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
import { decodeMjsn, decodeMmsg, type JsonMetadata } from "./chunks/metadata.ts";
import { decodeTidx, type EntryVisitor } from "./chunks/tidx.ts";
import { type Chunk, chunkTitle, type Toc } from "./chunks/toc.ts";
import { aeroFields, aeroSections, hasChunks } from "./inspect.ts";
import { FOURCC } from "./layout.ts";
import { AERO_LIMITS } from "./limits.ts";
import { AeroModel, aeroModel } from "./model.ts";
import { describeAero } from "./origin.ts";
import { type Convention, IndexResolver, type ResolvedIndex } from "./tensors.ts";
import { aeroPageDigests } from "./weights/pages.ts";
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
  decodeValue: decodeJsonNumber,
};

/** Page hashes up to this come along with a read that is needed anyway. */
const WELCOME_BYTES = 1 << 20;

/**
 * Reads the control region, the index and the metadata, never the weights: one read of 256 KiB and, where something
 * lies beyond it, one more. The index must be sound; metadata that is not costs a warning, since the weights are
 * readable without it. `visit` sees every entry of the index as it stands in the file: a set needs more of them than a
 * lone file does.
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
  const manifest = await metadata.decode(sound.manifest, (content, place) => decodeMmsg(content, place, further));
  let index: ResolvedIndex | undefined;
  const tensors = (): readonly Tensor[] => index?.tensors ?? [];
  const shards = new Shards({ ...chunkContext, source, preloaded: pagesOf(stored), tensors, spool: context.spool });
  index = await readIndex(sound.index, stored, { reading, shards, convention: conventionOf(json), further, visit });
  for (const warning of index.warnings) warnings.push(warning);
  for (const warning of hiddenWarnings(toc, shards, source.label)) warnings.push(warning);
  const unread: Chunk[] = [];
  if (chunks.json !== undefined && json === undefined) unread.push(chunks.json);
  if (chunks.manifest !== undefined && manifest === undefined) unread.push(chunks.manifest);
  return new AeroModel({
    ...{ source, control, limits, shards, indexChunk: chunks.index, index, json, warnings, unread, further },
    manifest: manifest ?? {},
  });
}

type Found = Readonly<Record<"index" | "json" | "manifest", Chunk | undefined>>;

/** Declared sizes are judged before anything is read: an index beyond them is refused, other metadata left out. */
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

/** Copies, so that some page hashes do not hold on to a whole index that was read with them. */
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

  constructor(stored: ReadonlyMap<Chunk, Bytes>, context: ChunkContext, warnings: Finding[]) {
    this.#stored = stored;
    this.#context = context;
    this.#warnings = warnings;
  }

  /**
   * Undefined, with a warning, where the chunk cannot be decoded. A wrong digest alone is only a warning (the reference
   * writer leaves that of MJSN zero where it writes no IHSH), and the only one: what follows from it is no news.
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
    return compareHash(chunk, await this.#context.engine.digest("blake3", content), this.#context);
  }
}

/** GGUF's conventions hold in what the reference converted from GGUF; our own files say so and keep to row-major. */
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

/** Where two chunks claim one place the first counts, as in the reference. */
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
