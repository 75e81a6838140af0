import { type Bytes, concatBytes } from "../../base/bytes.ts";
import { LimitError, UsageError } from "../../base/errors.ts";
import { encodeUtf8 } from "../../base/text.ts";
import { piecesUntilAborted } from "../../bytes/abort.ts";
import { AEROVAULT_LIMITS } from "../../formats/aerovault/limits.ts";
import { NO_EXTRA_KEYS } from "../../formats/aerovault/manifest/field-reader.ts";
import {
  type ChunkBounds,
  DEFAULT_BOUNDS,
  type Manifest,
  type ManifestEntry,
} from "../../formats/aerovault/manifest/records.ts";
import {
  ChunkCutter,
  coverSpans,
  isSmall,
  planPacks,
  planRegions,
  SMALL_FILE_BYTES,
} from "../../formats/aerovault/write/chunking.ts";
import type { VaultEdit } from "../../formats/aerovault/write/edit.ts";
import { checkManifestLength } from "../../formats/aerovault/write/seal/seal.ts";
import type { SealSetup } from "../../formats/aerovault/write/seal/worker.ts";
import { sniffFormat } from "../../formats/registry.ts";
import type { Engine } from "../../primitives/engine.ts";
import type { AddInput, FileInput, InputFacts, OpenedInput, StreamInput } from "./inputs.ts";
import { ChunkStream, type SealedWork, SealQueue, type SealRunner } from "./sealing.ts";

export interface AddOptions {
  readonly engine: Engine;
  readonly runner: SealRunner;
  readonly setup: SealSetup;
  readonly signal?: AbortSignal | undefined;
  /** Bytes of input that were sealed since the last call. */
  readonly onProgress?: ((byteLength: number) => void) | undefined;
  /** Told before the first byte is read if the vault may be too small. */
  readonly onWarning?: ((text: string) => void) | undefined;
}

/** What an add did, or would do. */
export interface AddReport {
  readonly files: number;
  readonly directories: number;
  /** Length of all files, before deduplication and compression. */
  readonly byteLength: number;
  /** Existing files that the add replaces. */
  readonly replaced: readonly string[];
}

/** Chunks are at least this long on average, apart from packs: this sets the size of the table of ids. */
const EXPECTED_CHUNK_BYTES = 256 << 10;

/**
 * Stores files and directories. Large files come first, in the given order; small ones are packed, in the order of their
 * paths. Two inputs with one path are refused: one of them would silently be lost.
 */
export async function addToVault(
  edit: VaultEdit,
  inputs: readonly AddInput[],
  options: AddOptions,
): Promise<AddReport> {
  // Refuse everything that can be refused before the first byte is written.
  const savepoint = edit.tree.savepoint();
  try {
    planAdd(edit, inputs);
  } finally {
    savepoint.restore();
  }
  const warning = capacityWarning(edit, inputs);
  if (warning !== undefined) options.onWarning?.(warning);
  const adding = new Adding(edit, inputs, options);
  try {
    return await adding.run();
  } finally {
    await adding.queue.drain();
  }
}

/**
 * What an add would do, as far as that is known without reading the files. Finds clashing names, and more entries than
 * a manifest can hold. The tree has the new entries afterwards.
 */
export function planAdd(
  { manifest, manifestBytes, now, tree }: Pick<VaultEdit, "manifest" | "manifestBytes" | "now" | "tree">,
  inputs: readonly AddInput[],
): AddReport {
  checkDistinct(inputs);
  const replaced: string[] = [];
  let files = 0;
  let byteLength = 0;
  let least = manifestBytes;
  let ids = 0;
  for (const input of inputs) {
    const { path } = input;
    const isDir = input.kind === "directory";
    const size = input.kind === "file" ? input.size : 0;
    if (tree.get(path) === undefined) least += LEAST_ENTRY_BYTES + encodeUtf8(path).byteLength;
    const before = tree.put({ path, size, modified: now, isDir, chunks: [], extra: NO_EXTRA_KEYS });
    if (before !== undefined) {
      replaced.push(path);
      ids -= before.chunks.length * (ID_BYTES + MOST_RECORD_BYTES);
    }
    if (!isDir) files++;
    byteLength += size;
    ids += Math.ceil(size / boundsOf(manifest).max) * ID_BYTES;
  }
  if (inputs.length > 0) checkManifestLength(least, tree.label);
  checkCapacity(least + ids, byteLength, tree.label);
  return { files, directories: inputs.length - files, byteLength, replaced };
}

/** Bytes of the id of a chunk in an entry: 32 digits, quotes. */
const ID_BYTES = 34;
/** What the record of a chunk takes in the manifest with its longest numbers, as a file that is replaced gives it back. */
const MOST_RECORD_BYTES = 450;
/** What a new chunk usually takes there, with its id in an entry. */
const USUAL_CHUNK_BYTES = 320;

function boundsOf({ wrappers }: Manifest): ChunkBounds {
  return wrappers.chunking.bounds ?? DEFAULT_BOUNDS;
}

/** Refuses sizes that cannot fit even if the vault had every chunk already: their ids alone are too many. */
function checkCapacity(least: number, byteLength: number, label: string): void {
  const limit = AEROVAULT_LIMITS.manifestBytes.default;
  if (least <= limit) return;
  const message = `Cannot add ${byteLength} bytes: with the list of their chunks the manifest would have at least ${least} bytes, and must be <= ${limit}`;
  const hint = "Divide them among several vaults; nothing was written";
  throw new LimitError("limit/aerovault.manifest-bytes", message, { source: label }, { hint });
}

/** A warning if the sizes fit only where the vault has much of the content already; undefined if they fit. */
export function capacityWarning(
  { manifest, manifestBytes }: Pick<VaultEdit, "manifest" | "manifestBytes">,
  inputs: readonly AddInput[],
): string | undefined {
  const limit = AEROVAULT_LIMITS.manifestBytes.default;
  const byteLength = inputs.reduce((sum, input) => sum + (input.kind === "file" ? input.size : 0), 0);
  const { min, avg } = boundsOf(manifest);
  // No chunk ends before its least length; from there on the next cut is as far as the average, on average.
  const chunks = byteLength / (min + avg);
  if (manifestBytes + chunks * USUAL_CHUNK_BYTES <= limit) return undefined;
  const room = Math.max(0, Math.floor((limit - manifestBytes) / USUAL_CHUNK_BYTES) * (min + avg));
  return `the vault has room for about ${terabytes(room)} of new content, and ${terabytes(byteLength)} are to be added: they fit only if it has much of them already`;
}

function terabytes(byteLength: number): string {
  return `${(byteLength / 1e12).toFixed(2)} TB`;
}

/** Bytes of an entry in a manifest besides its path: {"path":"","size":0,"modified":"…","is_dir":true,"chunks":[]}, */
const LEAST_ENTRY_BYTES = 80;

/** A file to pack: another thread reads it, or its bytes are here. */
interface SmallFile {
  readonly path: string;
  readonly size: number;
  readonly facts: InputFacts;
  readonly file?: FileInput;
  readonly bytes?: Bytes;
}

class Adding {
  readonly queue: SealQueue;
  readonly #edit: VaultEdit;
  readonly #inputs: readonly AddInput[];
  readonly #options: AddOptions;
  readonly #small: SmallFile[] = [];
  readonly #replaced: string[] = [];
  #files = 0;
  #directories = 0;
  #bytes = 0;

  constructor(edit: VaultEdit, inputs: readonly AddInput[], options: AddOptions) {
    this.#edit = edit;
    this.#inputs = inputs;
    this.#options = options;
    const known = inputs.reduce((sum, input) => sum + (input.kind === "file" ? input.size : 0), 0);
    this.queue = new SealQueue({
      edit,
      runner: options.runner,
      setup: options.setup,
      expectedChunks: edit.chunks.size + Math.ceil(known / EXPECTED_CHUNK_BYTES) + inputs.length,
      onProgress: options.onProgress ?? (() => undefined),
    });
  }

  async run(): Promise<AddReport> {
    for (const input of this.#inputs) {
      this.#options.signal?.throwIfAborted();
      if (input.kind === "directory") this.#addDirectory(input);
      else if (input.kind === "stream") await this.#addStream(input);
      else if (isSmall(input.size)) this.#small.push({ path: input.path, size: input.size, facts: input, file: input });
      else await this.#addLarge(input);
    }
    await this.#addPacks();
    await this.queue.finish();
    return {
      files: this.#files,
      directories: this.#directories,
      byteLength: this.#bytes,
      replaced: this.#replaced,
    };
  }

  #addDirectory(input: InputFacts): void {
    this.#directories++;
    const own = { mtime: input.mtime, mode: input.mode };
    this.#edit.tree.put({
      path: input.path,
      size: 0,
      modified: this.#edit.now,
      isDir: true,
      chunks: [],
      ...own,
      extra: this.#edit.tree.get(input.path)?.extra ?? NO_EXTRA_KEYS,
    });
  }

  async #addLarge(input: FileInput): Promise<void> {
    await this.#addOpened(input, await input.open());
  }

  async #addOpened(facts: InputFacts, opened: OpenedInput): Promise<void> {
    try {
      const { source, tensors } = opened;
      const regions = tensors.length === 0 ? [] : planRegions(source.byteLength, tensors);
      const stream = await this.#stream(facts, regions, source.descriptor);
      for await (const piece of source.stream(0, { signal: this.#options.signal })) await stream.push(piece);
      await stream.end();
      await opened.checkUnchanged();
    } finally {
      await opened.close();
    }
  }

  /** Whether the stream is small or large, and whether it is a model, shows only once enough bytes have arrived. */
  async #addStream(input: StreamInput): Promise<void> {
    const pieces = piecesUntilAborted(input.pieces(), this.#options.signal);
    try {
      const head = await readHead(pieces, SMALL_FILE_BYTES);
      if (head.byteLength < SMALL_FILE_BYTES) {
        this.#small.push({ path: input.path, size: head.byteLength, facts: input, bytes: head });
        return;
      }
      if (input.keep !== undefined && (await beginsModel(head, input.path))) {
        await this.#addOpened(input, await input.keep(joined(head, pieces)));
        return;
      }
      const stream = await this.#stream(input, [], undefined);
      for await (const piece of joined(head, pieces)) await stream.push(piece);
      await stream.end();
    } finally {
      await pieces.return(undefined);
    }
  }

  async #stream(
    facts: InputFacts,
    regions: ReturnType<typeof planRegions>,
    descriptor: FileInput["descriptor"],
  ): Promise<ChunkStream> {
    const { engine, setup, runner } = this.#options;
    return new ChunkStream({
      cutter: new ChunkCutter(await engine.gear(setup.gear), regions),
      descriptor: runner.width > 1 ? descriptor : undefined,
      queue: this.queue,
      onDone: (ids, size) => this.#putFile(facts, { size, chunks: ids }),
    });
  }

  async #addPacks(): Promise<void> {
    for (const { members, byteLength } of planPacks(this.#small)) {
      this.#options.signal?.throwIfAborted();
      const files = members.map(({ file }) => file?.descriptor);
      const work = files.every((file) => file !== undefined) ? { kind: "pack" as const, files, byteLength } : undefined;
      const then = (sealed: SealedWork): void => this.#putPack(members, sealed);
      await this.queue.push(work ?? (await this.#readPack(members)), then);
    }
  }

  async #readPack(members: readonly SmallFile[]): Promise<{ kind: "bytes"; bytes: Bytes; lengths: number[] }> {
    const pieces: Bytes[] = [];
    for (const { file, bytes } of members) pieces.push(bytes ?? (await readInput(file as FileInput)));
    const bytes = concatBytes(pieces);
    const cutter = new ChunkCutter(await this.#options.engine.gear(this.#options.setup.gear));
    return { kind: "bytes", bytes, lengths: [...cutter.push(bytes), ...cutter.end()] };
  }

  #putPack(members: readonly SmallFile[], { ids, lengths }: SealedWork): void {
    const covers = coverSpans(
      members.map(({ size }) => size),
      lengths,
    );
    for (const [i, { facts, size }] of members.entries()) {
      const { first, count, packOffset } = covers[i] as (typeof covers)[number];
      this.#putFile(facts, { size, chunks: ids.slice(first, first + count), packOffset });
    }
  }

  #putFile(facts: InputFacts, content: Pick<ManifestEntry, "size" | "chunks" | "packOffset">): void {
    const { path, mtime, mode } = facts;
    const before = this.#edit.tree.put({
      path,
      modified: this.#edit.now,
      isDir: false,
      mtime,
      mode,
      ...content,
      extra: NO_EXTRA_KEYS,
    });
    if (before !== undefined) this.#replaced.push(path);
    this.#files++;
    this.#bytes += content.size;
  }
}

/** The first bytes of a stream: at least `byteLength` of them, unless it ends before. */
async function readHead(pieces: AsyncGenerator<Bytes>, byteLength: number): Promise<Bytes> {
  const held: Bytes[] = [];
  for (let size = 0; size < byteLength; ) {
    const next = await pieces.next();
    if (next.done === true) break;
    size += next.value.byteLength;
    held.push(next.value.slice());
  }
  return concatBytes(held);
}

async function* joined(head: Bytes, rest: AsyncIterable<Bytes>): AsyncGenerator<Bytes> {
  yield head;
  yield* rest;
}

/** The length is not known yet, so no format may decide by it. */
async function beginsModel(bytes: Bytes, path: string): Promise<boolean> {
  const name = path.slice(path.lastIndexOf("/") + 1);
  const format = await sniffFormat({ bytes, byteLength: Number.MAX_SAFE_INTEGER, name });
  return format?.kind === "model";
}

async function readInput(file: FileInput): Promise<Bytes> {
  const opened = await file.open();
  try {
    const bytes = (await opened.source.read(0, file.size)).slice();
    await opened.checkUnchanged();
    return bytes;
  } finally {
    await opened.close();
  }
}

function checkDistinct(inputs: readonly AddInput[]): void {
  const seen = new Map<string, AddInput>();
  for (const input of inputs) {
    const other = seen.get(input.path);
    seen.set(input.path, input);
    if (other === undefined || (other.kind === "directory" && input.kind === "directory")) continue;
    const message = `Cannot add "${input.label}" and "${other.label}" together: both would be "${input.path}" in the vault`;
    throw new UsageError("usage/vault.merge", message, { source: input.label, path: input.path });
  }
}
