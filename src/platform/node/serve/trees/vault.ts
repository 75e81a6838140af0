import type { Bytes } from "../../../../base/bytes.ts";
import { isTareError } from "../../../../base/errors.ts";
import { nearestIsoTime } from "../../../../base/figures.ts";
import type { Source } from "../../../../bytes/source.ts";
import { formatForName } from "../../../../formats/registry.ts";
import type { Entry } from "../../../../model/archive.ts";
import type { FileContent, FilePart, Piece, PieceBuffers } from "../file-body.ts";
import { PIECE_BYTES, readPieces } from "../file-body.ts";
import type { Version } from "../preconditions.ts";
import { ServedVault, type StateLease, type VaultOpening, type VaultState } from "./served-vault.ts";
import type { ListedEntry } from "./tree.ts";
import {
  type EntryList,
  type Facts,
  type FileFacts,
  type FolderFacts,
  type Found,
  MAX_ENTRIES,
  type ServedFile,
  type ServedFolder,
  type ServedTree,
} from "./tree.ts";
import { nameOf, VaultFolder } from "./vault-entries.ts";

/** The files of a vault, each request in the state in which it finds the vault. */
export class VaultTree implements ServedTree {
  readonly front = "listing";
  readonly protocols = "webdav";
  readonly vault: ServedVault;
  readonly #streams = new VaultStreams();

  private constructor(vault: ServedVault) {
    this.vault = vault;
  }

  static async open(how: VaultOpening): Promise<VaultTree> {
    return new VaultTree(await ServedVault.open(how));
  }

  /** What was put into a vault is there on purpose, whatever its name. */
  hides(): boolean {
    return false;
  }

  async find(names: readonly string[]): Promise<Found> {
    const lease = await this.vault.lease().catch((error: unknown) => {
      if (isTareError(error)) return undefined; // it was told when it happened
      throw error;
    });
    if (lease === undefined) return { kind: "away" };
    try {
      const index = await lease.state.index;
      const node = index.get(names.join("/"));
      if (node instanceof VaultFolder) return folderOf(node, lease, node.name === "" ? this.vault.name : node.name);
      if (node !== undefined) return new FileInVault(node, lease, this.#streams);
    } catch (error) {
      lease.release();
      throw error;
    }
    lease.release();
    return { kind: "missing" };
  }

  close(): Promise<void> {
    return this.vault.close();
  }
}

class EntryFacts implements FileFacts {
  readonly kind = "file";
  readonly #entry: Entry;
  readonly #state: VaultState;

  constructor(entry: Entry, state: VaultState) {
    this.#entry = entry;
    this.#state = state;
  }

  get name(): string {
    return nameOf(this.#entry.path);
  }

  get byteLength(): number {
    return this.#entry.size;
  }

  /** The time is that of the file that was added: another content may come with the same. */
  get version(): Version {
    const modified = secondsOf(this.#entry, this.#state);
    return { etag: `"${this.#state.contents.tagOf(this.#entry)}"`, modified, dates: "weak" };
  }
}

class FileInVault extends EntryFacts implements ServedFile {
  readonly #found: Entry;
  readonly #lease: StateLease;
  readonly #streams: VaultStreams;

  constructor(entry: Entry, lease: StateLease, streams: VaultStreams) {
    super(entry, lease.state);
    this.#found = entry;
    this.#lease = lease;
    this.#streams = streams;
  }

  content(): FileContent {
    return new EntryContent(this.#lease.state.contents.open(this.#found), this.#streams);
  }

  async release(): Promise<void> {
    this.#lease.release();
  }
}

/** Every block is proven when it is read, and belongs to one state: there is nothing to check at the end. */
class EntryContent implements FileContent {
  readonly #source: Source;
  readonly #streams: VaultStreams;

  constructor(source: Source, streams: VaultStreams) {
    this.#source = source;
    this.#streams = streams;
  }

  pieces(parts: readonly FilePart[], buffers: PieceBuffers): AsyncGenerator<Piece> {
    return this.#streams.pieces(this.#source, parts, buffers);
  }

  async check(): Promise<void> {}
}

function folderOf(folder: VaultFolder, { state, release }: StateLease, name: string): ServedFolder {
  return {
    ...folderFacts(folder, state, name),
    list: async () => listOf(folder, state),
    members: () => membersOf(folder, state),
    release: async () => release(),
  };
}

function folderFacts(folder: VaultFolder, state: VaultState, name: string): FolderFacts {
  return { kind: "folder", name, modified: secondsOf(folder.entry, state) };
}

function* membersOf({ children }: VaultFolder, state: VaultState): Generator<Facts> {
  for (const child of children) {
    yield child instanceof VaultFolder ? folderFacts(child, state, child.name) : new EntryFacts(child, state);
  }
}

function listOf({ children }: VaultFolder, state: VaultState): EntryList {
  const shown = children.slice(0, MAX_ENTRIES);
  return { entries: shown.map((child) => listed(child, state)), omitted: children.length - shown.length };
}

function listed(child: Entry | VaultFolder, state: VaultState): ListedEntry {
  if (child instanceof VaultFolder) {
    return { name: child.name, type: "directory", modified: nearestIsoTime(child.entry?.modified ?? state.modified) };
  }
  const name = nameOf(child.path);
  const format = formatForName(name)?.name;
  const known = format === undefined ? {} : { format };
  return { name, type: "file", size: child.size, modified: nearestIsoTime(child.modified ?? state.modified), ...known };
}

function secondsOf(entry: Entry | undefined, state: VaultState): number {
  return Math.floor((entry?.modified ?? state.modified) / 1000);
}

/**
 * Files that are streamed at the same time. A stream decodes some chunks ahead of its client, up to 48 MiB, and needs the
 * stored blocks meanwhile.
 */
const MAX_STREAMS = 4;
/** Reads at the same time of the files beyond them: each may hold a chunk, stored and decoded, of up to 64 MiB. */
const MAX_READS = 4;

const NO_BYTES: Bytes = new Uint8Array(0);

/**
 * How many replies read a vault, and how. The first ones get whole chunks as they were decoded, without a copy. All
 * others get pieces of the shared buffers, so that slow clients hold no chunks, however many they are.
 */
export class VaultStreams {
  #streams = 0;
  #reads = 0;
  readonly #waiting: (() => void)[] = [];

  /** The parts of a file in pieces. */
  async *pieces(source: Source, parts: readonly FilePart[], buffers: PieceBuffers): AsyncGenerator<Piece> {
    const byteLength = parts.reduce((sum, part) => sum + part.byteLength, 0);
    if (byteLength <= PIECE_BYTES || this.#streams >= MAX_STREAMS) {
      yield* readPieces(parts, (into, offset) => this.#read(source, into, offset), buffers);
      return;
    }
    this.#streams++;
    try {
      yield* streamParts(source, parts);
    } finally {
      this.#streams--;
    }
  }

  async #read(source: Source, into: Bytes, offset: number): Promise<void> {
    if (this.#reads >= MAX_READS) await new Promise<void>((resolve) => this.#waiting.push(resolve));
    else this.#reads++;
    try {
      await source.read(offset, into.byteLength, { into });
    } finally {
      // The next one takes the place over.
      const next = this.#waiting.shift();
      if (next === undefined) this.#reads--;
      else next();
    }
  }
}

/** The bytes of the parts as the source hands them out. */
async function* streamParts(source: Source, parts: readonly FilePart[]): AsyncGenerator<Piece> {
  for (const [i, { prefix, offset, byteLength }] of parts.entries()) {
    let left = byteLength;
    for await (const bytes of source.stream(offset, { byteLength })) {
      const isFirst = left === byteLength;
      left -= bytes.byteLength;
      yield { prefix: isFirst ? prefix : NO_BYTES, bytes, isLast: left === 0 && i === parts.length - 1 };
    }
  }
}
