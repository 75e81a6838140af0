import type { Bytes } from "../../base/bytes.ts";
import type { Source } from "../../bytes/source.ts";

/** A file that is in place. */
export interface LocalFile {
  readonly byteLength: number;
  /** Changes whenever the file does: size and time of the last write. */
  readonly stamp: string;
}

/** The folder that a pull fills. Paths are relative, with forward slashes, and were checked. */
export interface PullStore {
  /** Shown in errors. */
  readonly label: string;
  /** Undefined where there is no such file. */
  look(path: string): Promise<LocalFile | undefined>;
  /** Opens a file that is in place. */
  open(path: string): Promise<Source>;
  /** The file under construction; what an earlier run left is kept. */
  openPartial(path: string): Promise<PartialFile>;
  /** Bytes that the folder has room for; undefined where nothing tells. */
  freeBytes(): Promise<number | undefined>;
  /** Puts a small file in place, all or nothing. */
  replace(path: string, bytes: Bytes): Promise<void>;
  /** What `keepReceipt` was given last; undefined where there is none. */
  readReceipt(): Promise<Bytes | undefined>;
  keepReceipt(bytes: Bytes): Promise<void>;
  /**
   * A seal over a file that is in place, as it is now, and facts about it. Only this user on this machine can make it;
   * undefined where nobody can, or there is no such file.
   */
  seal(path: string, facts: readonly string[]): Promise<string | undefined>;
  close(): Promise<void>;
}

/** A file under construction with the journal beside it: both outlive the process, whatever ends it. */
export interface PartialFile {
  /** Tells this very file, made here, from one that came with a folder; undefined where nothing can. */
  readonly seal: string | undefined;
  /** Everything that was recorded; empty where nothing was. */
  readJournal(): Promise<Bytes>;
  /** Forgets what was written and recorded, and begins a journal with `header`. */
  reset(header: Bytes): Promise<void>;
  /** Cuts a torn end off the journal. */
  trimJournal(byteLength: number): Promise<void>;
  /** Writes anywhere, several at a time. The caller leaves `bytes` untouched until it settles. */
  write(offset: number, bytes: Bytes): Promise<void>;
  /** Appends to the journal; calls land in order. */
  record(bytes: Bytes): Promise<void>;
  /** What was written so far, `byteLength` long. */
  reopen(byteLength: number): Promise<Source>;
  /** Makes the file durable, then visible under its name in place of what was there, and removes the journal. */
  publish(byteLength: number): Promise<void>;
  /** Removes what was written and recorded. */
  discard(): Promise<void>;
  close(): Promise<void>;
}
