import type { Comparison } from "./begin-file.ts";
import type { PullFile } from "./discover.ts";
import type { FileTransfer } from "./file-transfer.ts";
import type { Verified } from "./finish-file.ts";
import { TAKEN_OVER } from "./lease.ts";
import type { RemoteAddress } from "./remote.ts";
import type { PartialFile } from "./store.ts";

/** What became of one file. */
export interface PulledFile {
  readonly path: string;
  readonly byteLength: number;
  /** Bytes that this run has fetched. */
  readonly fetchedBytes: number;
  /** Bytes that an earlier run had fetched. */
  readonly resumedBytes: number;
  readonly verified: Verified;
  /** Where an index states it. */
  readonly sha256?: string | undefined;
}

/** What a file looks like once it was opened. */
export interface Begun {
  readonly partial: PartialFile;
  readonly transfer: FileTransfer;
  readonly comparison: Comparison;
  readonly byteLength: number;
  readonly resumedBytes: number;
  readonly etag: string | undefined;
}

/** One file on its way, from being listed to being in place. */
export class FileJob {
  readonly file: PullFile;
  /** The URL's own copy first, then the mirrors'. */
  readonly addresses: readonly RemoteAddress[];
  state: "waiting" | "opening" | "active" | "finishing" | "done" = "waiting";
  begun: Begun | undefined;
  result: PulledFile | undefined;
  fetchedBytes = 0;
  /** Ends what is under way for the file beside its leases. One for each file: a signal is slow with many listeners. */
  readonly #abort = new AbortController();
  /** Which address is opened. */
  home = 0;
  #restarts = 0;
  #restart: { readonly home: number } | undefined;

  constructor(file: PullFile, addresses: readonly RemoteAddress[]) {
    this.file = file;
    this.addresses = addresses;
  }

  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  /** Stops everything for good. */
  stop(reason: unknown): void {
    this.#abort.abort(reason);
    for (const lease of this.begun?.transfer.leases ?? []) lease.stop(reason);
  }

  get isRestarting(): boolean {
    return this.#restart !== undefined;
  }

  /**
   * Begins the file anew once its connections have let go: at the same server where the file there has changed, else at
   * the next one. "refused" where that was tried often enough.
   */
  restart(at: "same" | "next"): "accepted" | "refused" {
    if (this.#restart !== undefined) return "accepted";
    // Once for a file that changed, and once for every other copy.
    if (this.#restarts >= Math.max(1, this.addresses.length)) return "refused";
    this.#restarts++;
    this.#restart = { home: at === "same" ? this.home : (this.home + 1) % this.addresses.length };
    for (const lease of this.begun?.transfer.leases ?? []) lease.stop(TAKEN_OVER);
    return "accepted";
  }

  /** Takes the file back to the queue. */
  async requeue(): Promise<void> {
    const begun = this.begun;
    this.home = this.#restart?.home ?? this.home;
    this.#restart = undefined;
    this.begun = undefined;
    await begun?.partial.close();
    this.state = "waiting";
  }
}
