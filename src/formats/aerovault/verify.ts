import { isTareError, type TareError } from "../../base/errors.ts";
import { printable } from "../../base/text.ts";
import { type Finding, findingFromError } from "../../model/finding.ts";
import type { FormatVerifier, VerifyContext } from "../../model/format.ts";
import { type BlockBatch, planBlockBatches } from "./block-batches.ts";
import { blockExtent, decodeBlock } from "./block-check.ts";
import type { EntryList } from "./entry-list.ts";
import { planEntry } from "./entry-source.ts";
import type { ChunkRecord } from "./manifest.ts";
import { manifestPlace, type Vault } from "./vault.ts";
import { type VaultArchive, vaultArchive } from "./vault-archive.ts";
import { verifyParity } from "./verify-parity.ts";

/** Batches under way at a time: one is read while another is decoded. */
const BATCHES_AT_ONCE = 3;
/** Entries named with a damaged chunk; more would not help anybody. */
const NAMED_ENTRIES = 3;

/**
 * What opening did not check: that every entry has its bytes, and at the level "full" every stored block, used or not:
 * length prefix, cipher hash, tag, frame, length, chunk id; then parity. One finding for each fault, none hides the next.
 */
export async function* verifyAerovault(archive: VaultArchive, context: VerifyContext): AsyncGenerator<Finding> {
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

/** Which entries a chunk is part of: a damaged chunk means little to a person, the files that lose by it mean much. */
export class ChunkOwners {
  readonly #entries: EntryList;
  #paths: ReadonlyMap<string, readonly string[]> | undefined;

  constructor(entries: EntryList) {
    this.#entries = entries;
  }

  /** Files that lose where these chunks are lost, each once, in the order of the manifest. */
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

  /** Made when the first fault is found: whole vaults need none. */
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
