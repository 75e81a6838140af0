import { type Bytes, equalBytes } from "../../base/bytes.ts";
import { isTareError, type TareError } from "../../base/errors.ts";
import { resolveLimits } from "../../base/limits.ts";
import { printable } from "../../base/text.ts";
import { sliceSource } from "../../bytes/slice.ts";
import type { Source } from "../../bytes/source.ts";
import { type Finding, findingFromError } from "../../model/finding.ts";
import type { FormatVerifier, VerifyContext } from "../../model/format.ts";
import {
  AVEC_HEADER_BYTES,
  avecPayload,
  decodeAvecHeader,
  findPlans,
  type ReadableBytes,
} from "../../model/parity/avec.ts";
import { ParityReader } from "../../model/parity/reader.ts";
import { planEntry, type VaultArchive, vaultArchive } from "./archive.ts";
import { blockExtent, decodeBlock } from "./blocks/check.ts";
import { type BlockBatch, planBlockBatches } from "./blocks/store.ts";
import { BlockStream, type ReadFile } from "./blocks/stream.ts";
import { findDirectoryFault } from "./extensions/directory.ts";
import {
  DATA_PARITY,
  decodeDirectory,
  extensionPayload,
  gridOf,
  isParityRow,
  MANIFEST_PARITY,
} from "./extensions/rows.ts";
import { checkCurrent, explainFault, type OpenedState } from "./freshness.ts";
import { checkSections, readHeader, type StoredHeader } from "./header.ts";
import type { VaultHeader } from "./layout.ts";
import { AEROVAULT_LIMITS } from "./limits.ts";
import { compareWithParity, inMemory } from "./manifest/parity.ts";
import type { ChunkRecord, EntryList } from "./manifest/records.ts";
import { manifestPlace, type Vault } from "./vault.ts";

/** Batches under way at a time: one is read while another is decoded. */
const BATCHES_AT_ONCE = 3;
/** How many entries a finding about a damaged chunk names; more would not help the user. */
const NAMED_ENTRIES = 3;

/**
 * Checks what opening does not: that every entry has its bytes, and at the level "full" every stored block, used or
 * not: length prefix, cipher hash, tag, frame, length, chunk id; then parity. Each fault has its own finding and does
 * not hide the next.
 */
export async function* verifyAerovault(archive: VaultArchive, context: VerifyContext): AsyncGenerator<Finding> {
  yield* unlessChanged(archive.vault, findFaults(archive, context));
}

/** Before anything counts as damage, the vault must still be in the state that was opened: else `source/changed`. */
async function* unlessChanged(state: OpenedState, findings: AsyncIterable<Finding>): AsyncGenerator<Finding> {
  try {
    for await (const finding of findings) {
      if (finding.severity !== "note") await checkCurrent(state);
      yield finding;
    }
  } catch (error) {
    throw await explainFault(error, state);
  }
}

async function* findFaults(archive: VaultArchive, context: VerifyContext): AsyncGenerator<Finding> {
  const { vault } = archive;
  yield* verifyEntries(archive, context);
  const { unusedBytes } = archive.storage;
  if (unusedBytes > 0) {
    const message = `${unusedBytes} stored bytes belong to no entry`;
    const at = { source: vault.source.label };
    yield { severity: "note", code: "integrity/aerovault.unreferenced", message, at };
  }
  if (context.level !== "full") return;
  let blocks: "sound" | "damaged" = "sound";
  for await (const finding of verifyBlocks(vault, context)) {
    blocks = "damaged";
    yield finding;
  }
  yield* verifyParity(vault, blocks, context);
}

function* verifyEntries({ vault, entries }: VaultArchive, context: VerifyContext): Generator<Finding> {
  const { manifest, chunks: store, keys } = vault;
  const at = manifestPlace(vault);
  for (const { record } of entries) {
    context.count(record.isDir ? "directories" : "files");
    if (record.isDir) continue;
    try {
      planEntry(record, { chunks: manifest.chunks, store, lane: keys.lane }, at);
    } catch (error) {
      if (!isTareError(error)) throw error;
      yield { ...findingFromError(error), name: record.path };
    }
  }
}

async function* verifyBlocks(vault: Vault, context: VerifyContext): AsyncGenerator<Finding> {
  const sound: ChunkRecord[] = [];
  const owners = new ChunkOwners(vault.manifest.entries);
  for (const record of vault.manifest.chunks.values()) {
    const error = faultOf(() => vault.chunks.check(record));
    if (error === undefined) sound.push(record);
    else yield owners.describe(error, record);
  }
  const batches = planBlockBatches(sound.sort((a, b) => a.dataOffset - b.dataOffset));
  const running: Promise<Finding[]>[] = [];
  let next = 0;
  for (;;) {
    context.signal?.throwIfAborted();
    while (running.length < BATCHES_AT_ONCE && next < batches.length) {
      running.push(verifyBatch(batches[next++] as BlockBatch, { vault, owners }, context));
    }
    const findings = running.shift();
    if (findings === undefined) return;
    try {
      yield* await findings;
    } catch (error) {
      await Promise.allSettled(running);
      throw error;
    }
  }
}

async function verifyBatch(
  batch: BlockBatch,
  { vault: { source, cipher }, owners }: { readonly vault: Vault; readonly owners: ChunkOwners },
  context: VerifyContext,
): Promise<Finding[]> {
  const stored = await source.read(batch.offset, batch.byteLength, { signal: context.signal });
  const findings: Finding[] = [];
  for (const record of batch.records) {
    const { offset, byteLength } = blockExtent(record);
    const bytes = stored.subarray(offset - batch.offset, offset - batch.offset + byteLength);
    try {
      await decodeBlock(bytes, record, { engine: context.engine, cipher }, { source: source.label, offset });
    } catch (error) {
      if (!isTareError(error)) throw error;
      findings.push(owners.describe(error, record));
    }
    context.count("blocks");
    context.count("bytes", byteLength);
    context.onProgress?.(byteLength);
  }
  return findings;
}

function faultOf(check: () => void): TareError | undefined {
  try {
    check();
    return undefined;
  } catch (error) {
    if (isTareError(error)) return error;
    throw error;
  }
}

/** The entries that a chunk is part of: users care about the files that damage affects, not about chunks. */
export class ChunkOwners {
  readonly #entries: EntryList;
  #paths: ReadonlyMap<string, readonly string[]> | undefined;

  constructor(entries: EntryList) {
    this.#entries = entries;
  }

  /** Files that need any of these chunks, each once, in the order of the manifest. */
  pathsOf(ids: ReadonlySet<string>): readonly string[] {
    return this.#entries
      .records()
      .filter(({ isDir, chunks }) => !isDir && chunks.some((id) => ids.has(id)))
      .map(({ path }) => path);
  }

  describe(error: TareError, { id }: ChunkRecord): Finding {
    this.#paths ??= this.#collect();
    const finding = findingFromError(error);
    const paths = this.#paths.get(id) ?? [];
    const [name] = paths;
    if (name === undefined) return { ...finding, hint: "No entry uses this chunk" };
    const shown = paths.slice(0, NAMED_ENTRIES).map((path) => `"${printable(path)}"`);
    const more = paths.length - shown.length;
    return { ...finding, name, hint: `Part of ${shown.join(", ")}${more === 0 ? "" : ` and ${more} more`}` };
  }

  /** Built when the first fault is found: an undamaged vault does not need it. */
  #collect(): Map<string, string[]> {
    const paths = new Map<string, string[]>();
    for (const { path, isDir, chunks } of this.#entries.records()) {
      if (isDir) continue;
      for (const id of new Set(chunks)) {
        const known = paths.get(id);
        if (known === undefined) paths.set(id, [path]);
        else known.push(path);
      }
    }
    return paths;
  }
}

export const verifier: FormatVerifier = {
  verify: (container, context) => verifyAerovault(vaultArchive(container), context),
};

/**
 * Reports damage that reading does not find: parts that opening healed, the extension directory, and parity itself.
 * Damaged parity is a warning: every file is complete, but less can be healed.
 */
async function* verifyParity(
  vault: Vault,
  blocks: "sound" | "damaged",
  context: VerifyContext,
): AsyncGenerator<Finding> {
  const { source, warnings, header, extensions } = vault;
  for (const warning of warnings) {
    if (warning.code === "integrity/aerovault.healed") yield { ...warning, severity: "error" };
  }
  const read: ReadFile = (offset, byteLength) => source.read(offset, byteLength);
  yield* verifyDirectory(vault);
  if (!extensions.some(isParityRow)) return;
  const payloadOf = (id: string): ReturnType<typeof extensionPayload> =>
    extensionPayload(id, { rows: extensions, header: header.values, read });
  const fault = (what: string): Finding => ({
    severity: "warning",
    code: "integrity/aerovault.parity",
    message: `The parity of the ${what} is damaged, or is not of this vault`,
    at: { source: source.label, offset: header.values.extensionPayloadOffset },
    hint: "Nothing is lost: tare vault repair renews it",
  });
  if (!(await isDataParitySound(vault, payloadOf(DATA_PARITY), { read, blocks }, context))) yield fault("blocks");
  if (!(await isManifestParitySound(vault, payloadOf(MANIFEST_PARITY), read, context))) yield fault("manifest");
}

async function* verifyDirectory(vault: Vault): AsyncGenerator<Finding> {
  const fault = await findDirectoryFault(vault);
  if (fault === undefined) return;
  const message = `The list of extensions is damaged: it ${fault}`;
  const at = { source: vault.source.label, offset: vault.header.values.extensionDirectoryOffset };
  const hint = "Run tare vault repair, which writes it again";
  yield { severity: "error", code: "integrity/aerovault.directory", message, at, hint };
}

type Payload = ReturnType<typeof extensionPayload>;

async function isDataParitySound(
  { manifest, chunks }: Vault,
  payload: Payload,
  { read, blocks }: { readonly read: ReadFile; readonly blocks: "sound" | "damaged" },
  { engine, signal }: VerifyContext,
): Promise<boolean> {
  if (payload === undefined) return false;
  for (const record of manifest.chunks.values()) {
    // A block outside of the data has its own finding, and without it there is no stream to check.
    try {
      chunks.check(record);
    } catch {
      return true;
    }
  }
  const data = new BlockStream(manifest.chunks.values(), read);
  if (data.byteLength === 0) return payload.byteLength === 0;
  const [found] = await findPlans(payload, data.byteLength, gridOf(manifest));
  if (found === undefined || found.head === "damaged") return false;
  const reader = new ParityReader({ engine, plan: found.plan, data, payload });
  await reader.examine({ signal });
  const { damagedParityShards, damagedDataShards } = reader.health;
  return damagedParityShards === 0 && (blocks === "damaged" || damagedDataShards === 0);
}

async function isManifestParitySound(
  { manifest, header, healed }: Vault,
  payload: Payload,
  read: ReadFile,
  { engine }: VerifyContext,
): Promise<boolean> {
  if (payload === undefined) return false;
  const { manifestOffset, manifestLength } = header.values;
  const [found] = await findPlans(payload, manifestLength, gridOf(manifest));
  if (found === undefined || found.head === "damaged") return false;
  const own = healed.find(({ name }) => name === "manifest")?.bytes;
  const data = inMemory(own ?? (await read(manifestOffset, manifestLength)));
  const wanted: Bytes = await avecPayload({ engine, plan: found.plan, data });
  return equalBytes(wanted, await payload.read(0, payload.byteLength));
}

/**
 * What can be checked of an encrypted vault without its password: whether header and directory are valid and, if it has
 * parity, whether manifest and blocks match the checksums in the parity. "manifests" and "shards" count these checks.
 * Throws if the vault could not be opened with the password either.
 */
export async function* verifySealed(source: Source, context: VerifyContext): AsyncGenerator<Finding> {
  const header = await readHeader(source);
  yield* unlessChanged({ source, header }, findSealedFaults(source, header, context));
}

async function* findSealedFaults(
  source: Source,
  { values: header }: StoredHeader,
  context: VerifyContext,
): AsyncGenerator<Finding> {
  const at = { source: source.label, offset: 0 };
  const limits = resolveLimits("aerovault", AEROVAULT_LIMITS, context.limits);
  checkSections(header, source.byteLength, limits, at);
  const read = (offset: number, byteLength: number): Promise<Bytes> => source.read(offset, byteLength);
  const { extensionDirectoryOffset, extensionDirectoryLength, extensionPayloadLength } = header;
  const directory = await read(extensionDirectoryOffset, extensionDirectoryLength);
  const place = { ...at, offset: extensionDirectoryOffset };
  const rows = decodeDirectory(directory, place, { payloadLength: extensionPayloadLength, maxRows: limits.extensions });
  const payloadOf = (id: string): ReadableBytes | undefined => extensionPayload(id, { rows, header, read });
  yield* verifyManifest(source, header, payloadOf(MANIFEST_PARITY), context);
  yield* verifyData(source, header, payloadOf(DATA_PARITY), context);
}

async function* verifyManifest(
  source: Source,
  { manifestOffset: offset, manifestLength }: VaultHeader,
  payload: ReadableBytes | undefined,
  context: VerifyContext,
): AsyncGenerator<Finding> {
  if (payload === undefined) return;
  const verdict = await compareWithParity(context.engine, await source.read(offset, manifestLength), payload);
  if (verdict !== "unknown") context.count("manifests");
  if (typeof verdict !== "number") return;
  const message = "The manifest does not have the checksums that its parity keeps of it";
  const at = { source: source.label, offset: offset + verdict };
  yield { severity: "error", code: "integrity/aerovault.manifest", message, at, hint: "Run tare vault repair" };
}

/** Checks only data without gaps: with gaps, only the manifest knows where the blocks are. */
async function* verifyData(
  source: Source,
  { dataOffset, dataLength }: VaultHeader,
  payload: ReadableBytes | undefined,
  { engine, signal, count, onProgress }: VerifyContext,
): AsyncGenerator<Finding> {
  if (payload === undefined || payload.byteLength < AVEC_HEADER_BYTES) return;
  const plan = decodeAvecHeader(await payload.read(0, AVEC_HEADER_BYTES));
  if (plan?.byteLength !== dataLength || plan.payloadBytes !== payload.byteLength) return;
  const reader = new ParityReader({ engine, plan, data: sliceSource(source, dataOffset, dataLength), payload });
  await reader.examine({ signal, onProgress });
  count("shards", plan.shardCount);
  count("bytes", dataLength);
  for (const { group, data } of reader.damage) {
    for (const index of data) {
      const offset = dataOffset + (group * plan.grid.dataShards + index) * plan.shardBytes;
      const message = `Blocks within ${plan.shardBytes} bytes do not have the checksum that parity keeps of them`;
      const at = { source: source.label, offset };
      yield { severity: "error", code: "integrity/aerovault.shard", message, at, hint: "Run tare vault repair" };
    }
  }
}
