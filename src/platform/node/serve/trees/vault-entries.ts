import { createHash } from "node:crypto";
import { Turns } from "../../../../base/turns.ts";
import type { Source } from "../../../../bytes/source.ts";
import { VaultEntry } from "../../../../formats/aerovault/archive.ts";
import { isReserved } from "../../../../formats/aerovault/paths.ts";
import type { Archive, Entry } from "../../../../model/archive.ts";

/** A folder of a vault, whether the vault has an entry for it or only files below it. */
export class VaultFolder {
  /** Its own name. */
  readonly name: string;
  readonly children: (Entry | VaultFolder)[] = [];
  /** Undefined where there is no entry. */
  entry: Entry | undefined;

  constructor(name: string) {
    this.name = name;
  }
}

/** The files and folders of one state of a vault by their paths: found in one pass, so that a request costs what it asks for. */
export class VaultIndex {
  readonly #nodes = new Map<string, Entry | VaultFolder>([["", new VaultFolder("")]]);

  private constructor() {}

  static async of({ entries }: Archive): Promise<VaultIndex> {
    const index = new VaultIndex();
    const turns = new Turns(undefined);
    for (const entry of entries) {
      const turn = turns.step();
      if (turn !== undefined) await turn;
      // Older vaults may have backslashes in names, which some systems take for separators.
      if (!isReserved(entry.path) && !entry.path.includes("\\")) index.#add(entry);
    }
    return index;
  }

  get(path: string): Entry | VaultFolder | undefined {
    return this.#nodes.get(path);
  }

  #add(entry: Entry): void {
    const { path } = entry;
    if (entry.type === "directory") {
      this.#folder(path).entry = entry;
      return;
    }
    this.#nodes.set(path, entry);
    this.#folder(parentPath(path)).children.push(entry);
  }

  /** Makes it, and those above it, unless they are there. */
  #folder(path: string): VaultFolder {
    const made: VaultFolder[] = [];
    for (let at = path; ; at = parentPath(at)) {
      const known = this.#nodes.get(at);
      const folder = known instanceof VaultFolder ? known : new VaultFolder(nameOf(at));
      const below = made.at(-1);
      if (below !== undefined) folder.children.push(below);
      if (known === folder) return made[0] ?? folder;
      this.#nodes.set(at, folder);
      made.push(folder);
    }
  }
}

function parentPath(path: string): string {
  return path.slice(0, Math.max(path.lastIndexOf("/"), 0));
}

/** The last name of a path. */
export function nameOf(path: string): string {
  return path.slice(path.lastIndexOf("/") + 1);
}

interface Known {
  readonly tag: string;
  readonly source: Source;
  readonly weight: number;
}

/** Chunks that kept files may have together: finding those of a file of terabytes takes a second, and 30 MB. */
const KEPT_CHUNKS = 1_000_000;
/** What a file without chunks counts for. */
const FILE_WEIGHT = 64;

/** How the files of one state are read. Those that were read last are kept: a client may ask for one by thousands of ranges. */
export class VaultContents {
  /** Tags of files of other formats: the state of the vault, which every change of it changes. */
  readonly #state: string;
  /** In order of use. */
  readonly #kept = new Map<Entry, Known>();
  #weight = 0;

  constructor(state: string) {
    this.#state = state;
  }

  /** Identifies the content of a file in this vault, whatever its name. */
  tagOf(entry: Entry): string {
    return this.#kept.get(entry)?.tag ?? this.#makeTag(entry).tag;
  }

  /** The bytes of a file; many requests may share it. Throws if the vault lacks some of them. */
  open(entry: Entry): Source {
    const known = this.#kept.get(entry);
    this.#kept.delete(entry);
    const found = known ?? { ...this.#makeTag(entry), source: entry.source() };
    this.#kept.set(entry, found);
    if (known === undefined) this.#weight += found.weight;
    for (const [oldest, { weight }] of this.#kept) {
      if (this.#weight <= KEPT_CHUNKS || oldest === entry) break;
      this.#kept.delete(oldest);
      this.#weight -= weight;
    }
    return found.source;
  }

  #makeTag(entry: Entry): Omit<Known, "source"> {
    const hash = createHash("sha256");
    if (!(entry instanceof VaultEntry)) {
      const tag = hash.update(`${this.#state}\n${entry.path}`).digest("hex");
      return { tag, weight: FILE_WEIGHT };
    }
    // Ids of chunks name their contents, and the vault's own key makes them: the tag tells nothing to others.
    const { size, packOffset = 0, chunks } = entry.record;
    hash.update(`${size} ${packOffset}\n${chunks.join("\n")}`);
    return { tag: hash.digest("hex"), weight: FILE_WEIGHT + chunks.length };
  }
}
