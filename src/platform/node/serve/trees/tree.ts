import type { FileContent } from "../file-body.ts";
import type { Version } from "../preconditions.ts";

/** What a server hands out: the files below a folder, or those of a vault. */
export interface ServedTree {
  /** What a browser gets at the root: the viewer with the files in it, or a list as in every other folder. */
  readonly front: "viewer" | "listing";
  /** "webdav" if file managers may list it too; folders then have `members`. */
  readonly protocols: "http" | "webdav";
  /** True for names that are never served or listed, wherever they are. */
  hides(name: string): boolean;
  /** What these names lead to. The caller releases a file or folder. Throws only what is unexpected. */
  find(names: readonly string[], now: number): Promise<Found>;
  /** Frees what is open; replies that are under way break. */
  close(): Promise<void>;
}

export type Found =
  | ServedFile
  | ServedFolder
  /** "forbidden" and "busy" are answers of the system; "away" is a vault that cannot be opened for now. */
  | { readonly kind: "missing" | "forbidden" | "busy" | "away" };

/** What is known of a file without reading it. */
export interface FileFacts {
  readonly kind: "file";
  /** Its own name, without those of its folders. */
  readonly name: string;
  readonly byteLength: number;
  readonly version: Version;
}

export interface FolderFacts {
  readonly kind: "folder";
  /** Empty for the root. */
  readonly name: string;
  /** Whole seconds since 1970. */
  readonly modified: number;
}

export type Facts = FileFacts | FolderFacts;

/** A file that a request has found. */
export interface ServedFile extends FileFacts {
  /** Its bytes, in this version alone. Throws if they cannot be read at all. */
  content(): FileContent;
  release(): Promise<void>;
}

/** A folder that a request has found. */
export interface ServedFolder extends FolderFacts {
  /** Its entries for a page, in any order: at most MAX_ENTRIES of them. */
  list(): Promise<EntryList>;
  /** Everything in it, however much that is. */
  members?(): Iterable<Facts>;
  release(): Promise<void>;
}

export interface EntryList {
  readonly entries: readonly ListedEntry[];
  /** How many were left out because there are too many. */
  readonly omitted: number;
}

/** Entries that a page shows. */
export const MAX_ENTRIES = 10_000;

/** An entry of a folder, as listings show it. */
export interface ListedEntry {
  readonly name: string;
  readonly type: "file" | "directory";
  /** Bytes; absent for folders. */
  readonly size?: number;
  /** ISO 8601, UTC. */
  readonly modified: string;
  /** The format that the extension suggests; opening the file decides by its content. */
  readonly format?: string;
}
