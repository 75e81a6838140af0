import { type Bytes, concatBytes } from "../../base/bytes.ts";
import { UsageError } from "../../base/errors.ts";
import { encodeUtf8 } from "../../base/text.ts";
import { NO_EXTRA_KEYS } from "../../formats/aerovault/field-reader.ts";
import type { ManifestEntry } from "../../formats/aerovault/manifest.ts";
import { ChunkCutter } from "../../formats/aerovault/write/chunk-cutter.ts";
import type { EntryTree } from "../../formats/aerovault/write/entry-tree.ts";
import { coverSpans, isSmall, planPacks, SMALL_FILE_BYTES } from "../../formats/aerovault/write/packing.ts";
import { planRegions } from "../../formats/aerovault/write/regions.ts";
import { checkManifestLength } from "../../formats/aerovault/write/seal.ts";
import type { SealSetup } from "../../formats/aerovault/write/seal-job.ts";
import type { VaultEdit } from "../../formats/aerovault/write/vault-edit.ts";
import type { Engine } from "../../primitives/engine.ts";
import { ChunkStream } from "./chunk-stream.ts";
import type { AddInput, FileInput, InputFacts, StreamInput } from "./inputs.ts";
import { type SealedWork, SealQueue, type SealRunner } from "./seal-work.ts";

export interface AddOptions {
  readonly engine: Engine;
  readonly runner: SealRunner;
  readonly setup: SealSetup;
  readonly signal?: AbortSignal | undefined;
  /** Bytes of input that were sealed since the last call. */
  readonly onProgress?: ((byteLength: number) => void) | undefined;
}

/** What an add did, or would do. */
export interface AddReport {
  readonly files: number;
  readonly directories: number;
  /** Of all files, before deduplication and compression. */
  readonly byteLength: number;
  /** Files that were there and are other ones now. */
  readonly replaced: readonly string[];
}

/** Chunks are at least this long on average, packs aside: how large the table of ids is made. */
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
  // Everything that can be refused is, before the first byte is written.
  planAdd(edit.manifestBytes, edit.tree.copyOf(), inputs, edit.now);
  const adding = new Adding(edit, inputs, options);
  try {
    return await adding.run();
  } finally {
    await adding.queue.drain();
  }
}

/**
 * What an add would do, as far as that shows without reading the files: names that clash are found here, and more entries
 * than a manifest can hold. `tree` has the new entries afterwards.
 */
export function planAdd(manifestBytes: number, tree: EntryTree, inputs: readonly AddInput[], now: string): AddReport {
  checkDistinct(inputs);
  const replaced: string[] = [];
  let files = 0;
  let byteLength = 0;
  let least = manifestBytes;
  for (const input of inputs) {
    const { path } = input;
    const isDir = input.kind === "directory";
    const size = input.kind === "file" ? input.size : 0;
    if (tree.get(path) === undefined) least += LEAST_ENTRY_BYTES + encodeUtf8(path).byteLength;
    const before = tree.put({ path, size, modified: now, isDir, chunks: [], extra: NO_EXTRA_KEYS });
    if (before !== undefined) replaced.push(path);
    if (!isDir) files++;
    byteLength += size;
  }
  if (inputs.length > 0) checkManifestLength(least, tree.label);
  return { files, directories: inputs.length - files, byteLength, replaced };
}

/** What an entry takes in a manifest besides its path: {"path":"","size":0,"modified":"…","is_dir":true,"chunks":[]}, */
const LEAST_ENTRY_BYTES = 80;

/** A file that is packed, by what another thread can read or by bytes that are here. */
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
      expectedChunks: [...edit.ids()].length + Math.ceil(known / EXPECTED_CHUNK_BYTES) + inputs.length,
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
    const opened = await input.open();
    try {
      const { source, tensors } = opened;
      const regions = tensors.length === 0 ? [] : planRegions(source.byteLength, tensors);
      const stream = await this.#stream(input, regions, source.descriptor);
      for await (const piece of source.stream(0, { signal: this.#options.signal })) await stream.push(piece);
      await stream.end();
      await opened.checkUnchanged();
    } finally {
      await opened.close();
    }
  }

  /** Small or large is known only once enough bytes have come. */
  async #addStream(input: StreamInput): Promise<void> {
    const held: Bytes[] = [];
    let size = 0;
    let stream: ChunkStream | undefined;
    for await (const piece of input.pieces()) {
      this.#options.signal?.throwIfAborted();
      size += piece.byteLength;
      if (stream !== undefined) {
        await stream.push(piece);
        continue;
      }
      held.push(piece.slice());
      if (size < SMALL_FILE_BYTES) continue;
      stream = await this.#stream(input, [], undefined);
      for (const earlier of held.splice(0)) await stream.push(earlier);
    }
    if (stream === undefined) this.#small.push({ path: input.path, size, facts: input, bytes: concatBytes(held) });
    else await stream.end();
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
