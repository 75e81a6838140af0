import type { Bytes } from "../../../base/bytes.ts";

/** Bytes that a file must still have. */
export interface ExpectedRun {
  readonly offset: number;
  readonly bytes: Bytes;
}

/**
 * A vault that is being changed. Until `commit` the vault is the one that was opened, whatever is written here and wherever
 * the process dies; a platform supplies these.
 */
export interface VaultDraft {
  /** Shown in errors: the path the user named. */
  readonly label: string;
  /** By which other threads of this process write to it; only where there is such a number. */
  readonly descriptor?: number | undefined;
  /** What whoever writes by the descriptor must find in the file before every write; else another writer is at work. */
  readonly expected?: readonly ExpectedRun[] | undefined;
  /**
   * Writes at an offset that the present generation does not use. Several may be under way; the caller leaves `bytes` alone
   * until the promise settles.
   */
  write(offset: number, bytes: Bytes): Promise<void>;
  /** What was written, or what was there before. */
  read(offset: number, byteLength: number): Promise<Bytes>;
  /** Makes everything durable, then the new header valid; the file ends at `byteLength`. */
  commit(header: Bytes, byteLength: number): Promise<void>;
  /** Drops everything; twice is allowed. `end` is the first byte behind all that other threads wrote. */
  abort(end?: number): Promise<void>;
}
