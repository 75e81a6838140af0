import type { Extent } from "../../bytes/extents.ts";
import type { Piece } from "./pieces.ts";
import type { Remote } from "./remote.ts";
import { encodeRecord, type PartialFile } from "./store.ts";

const TODO = 0;
const LEASED = 1;
const DONE = 2;

/** Requests for a page from each copy before the file counts as damaged. */
const PAGE_TRIES = 2;
/** A connection takes over the last piece of another one only if it is this many times faster. */
const WORTHWHILE = 2;
/** … and saves at least this many seconds. */
const LEAST_GAIN = 0.5;

interface FileTransferOptions {
  readonly pieces: readonly Piece[];
  readonly remotes: readonly Remote[];
  readonly partial: PartialFile;
  /** Pieces that an earlier run fetched, already checked. */
  readonly resumed: ReadonlySet<number>;
}

/** Which pieces of one file are here, and which are in progress from which copy. Pure bookkeeping: no requests. */
export class FileTransfer {
  readonly pieces: readonly Piece[];
  readonly remotes: readonly Remote[];
  readonly partial: PartialFile;
  readonly #states: Uint8Array;
  readonly #leases = new Set<Lease>();
  /** Pieces that arrived damaged, with the copies that sent them. */
  readonly #damaged = new Map<number, Remote[]>();
  #todo: number;
  #left: number;
  #cursor = 0;

  constructor({ pieces, remotes, partial, resumed }: FileTransferOptions) {
    this.pieces = pieces;
    this.remotes = remotes;
    this.partial = partial;
    this.#states = new Uint8Array(pieces.length);
    for (const index of resumed) this.#states[index] = DONE;
    this.#todo = pieces.length - resumed.size;
    this.#left = this.#todo;
  }

  get isComplete(): boolean {
    return this.#left === 0;
  }

  /** Bytes of pieces that no connection is fetching; exact enough to distribute them. */
  get openBytes(): number {
    const last = this.pieces.at(-1);
    return last === undefined ? 0 : ((last.offset + last.byteLength) * this.#todo) / this.pieces.length;
  }

  get leases(): ReadonlySet<Lease> {
    return this.#leases;
  }

  /** The next run of missing pieces for an idle connection; undefined if all are taken or no copy can be used. */
  take(maxBytes: number, now: number): Lease | undefined {
    if (this.#todo === 0) return undefined;
    if (this.#isSequential() && this.#leases.size > 0) return undefined;
    const first = this.#states.indexOf(TODO, this.#cursor);
    if (first < 0) return undefined;
    const remote = this.#choose(first, now);
    if (remote === undefined) return undefined;
    this.#cursor = first;
    let end = first;
    let bytes = 0;
    const most = remote.access === "sequential" ? Number.MAX_SAFE_INTEGER : maxBytes;
    while (end < this.pieces.length && this.#states[end] === TODO) {
      const { byteLength } = this.pieces[end] as Piece;
      if (end > first && (bytes + byteLength > most || this.#damaged.has(end))) break;
      bytes += byteLength;
      this.#states[end++] = LEASED;
    }
    this.#todo -= end - first;
    return this.#add(new Lease(this, remote, { next: first, end, now }));
  }

  /**
   * Half of what a busy connection still has to fetch, or its last piece if it lags; undefined if there is nothing to
   * gain.
   */
  takeOver(victim: Lease, now: number): Lease | undefined {
    if (this.#isSequential() || victim.next >= victim.end) return undefined;
    const spare = victim.end - victim.next - 1;
    if (spare > 0) {
      const from = victim.end - Math.ceil(spare / 2);
      const remote = this.#choose(from, now);
      if (remote === undefined) return undefined;
      const lease = new Lease(this, remote, { next: from, end: victim.end, now });
      victim.end = from;
      return this.#add(lease);
    }
    if (!this.#lags(victim, now)) return undefined;
    // Two connections must never write to one place: the slow one stops, and its piece is free again.
    victim.stop(TAKEN_OVER);
    return undefined;
  }

  /** The current piece has arrived, and is checked and written. */
  async complete(lease: Lease, index: number, check: Uint8Array<ArrayBuffer>): Promise<void> {
    this.#states[index] = DONE;
    lease.remote.succeeded();
    await this.partial.record(encodeRecord(index, check));
    this.#left--;
  }

  /** Gives back what a lease has not fetched. */
  release(lease: Lease): void {
    this.#leases.delete(lease);
    lease.remote.active--;
    for (let index = lease.next; index < lease.end; index++) {
      if (this.#states[index] !== LEASED) continue;
      this.#states[index] = TODO;
      this.#todo++;
    }
    this.#cursor = Math.min(this.#cursor, lease.next);
  }

  /** Remembers which copy sent a damaged piece; "hopeless" if every copy has used up its tries. */
  noteDamage(index: number, remote: Remote): "retry" | "hopeless" {
    const senders = [...(this.#damaged.get(index) ?? []), remote];
    this.#damaged.set(index, senders);
    const living = this.remotes.filter(({ dead }) => dead === undefined);
    return living.every((one) => senders.filter((other) => other === one).length >= PAGE_TRIES) ? "hopeless" : "retry";
  }

  /** True if no copy is left to use. */
  get isForsaken(): boolean {
    return this.remotes.every(({ dead }) => dead !== undefined);
  }

  /** When a copy that is backing off may be used again. */
  get retryAt(): number {
    return Math.min(...this.remotes.filter(({ dead }) => dead === undefined).map(({ retryAt }) => retryAt));
  }

  get hasWork(): boolean {
    return this.#todo > 0;
  }

  #add(lease: Lease): Lease {
    lease.remote.active++;
    this.#leases.add(lease);
    return lease;
  }

  /** The most promising copy for one more connection; copies that sent this piece damaged come last. */
  #choose(index: number, now: number): Remote | undefined {
    const usable = this.remotes.filter(({ dead, retryAt }) => dead === undefined && retryAt <= now);
    const senders = this.#damaged.get(index) ?? [];
    const fewest = Math.min(...usable.map((remote) => senders.filter((sender) => sender === remote).length));
    const candidates = usable.filter((remote) => senders.filter((sender) => sender === remote).length === fewest);
    const rates = candidates.map((remote) => this.#rateOf(remote, now));
    // A copy that was never tried is assumed to be as fast as the best.
    const assumed = Math.max(1, ...rates.map((rate) => rate ?? 0));
    let best: Remote | undefined;
    let bestCost = Number.POSITIVE_INFINITY;
    for (const [i, remote] of candidates.entries()) {
      const cost = (remote.active + 1) / Math.max(rates[i] ?? assumed, 1);
      if (cost < bestCost) [best, bestCost] = [remote, cost];
    }
    return best;
  }

  /** The rate from leases that have ended; before the first one has, from active ones. */
  #rateOf(remote: Remote, now: number): number | undefined {
    if (remote.rate !== undefined) return remote.rate;
    const live = [...this.#leases].flatMap((lease) => (lease.remote === remote ? (lease.rate(now) ?? []) : []));
    return live.length === 0 ? undefined : live.reduce((sum, rate) => sum + rate, 0) / live.length;
  }

  /** True if fetching the whole last piece again elsewhere ends much sooner. */
  #lags(victim: Lease, now: number): boolean {
    const others = this.remotes.filter((remote) => remote !== victim.remote && remote.dead === undefined);
    const best = Math.max(0, ...others.map((remote) => this.#rateOf(remote, now) ?? 0));
    if (best === 0 || victim.signal.aborted) return false;
    const elsewhere = victim.piece.byteLength / best;
    const here = victim.timeLeft(now);
    return here > WORTHWHILE * elsewhere && here - elsewhere > LEAST_GAIN;
  }

  #isSequential(): boolean {
    return this.remotes.every(({ access, dead }) => access === "sequential" || dead !== undefined);
  }
}

/** Time in which the rate of an active lease is not yet reliable, in milliseconds. */
const WARM_UP_MS = 200;
/** The rate of a lease with fewer bytes is not reliable. */
const LEAST_BYTES = 64 << 10;

/** Pieces `next` … `end` of a file, assigned to one connection. */
export class Lease {
  readonly file: FileTransfer;
  readonly remote: Remote;
  readonly #abort = new AbortController();
  readonly #startedAt: number;
  /** The piece that is arriving. */
  next: number;
  end: number;
  /** Bytes of the piece that have arrived. */
  arrived = 0;
  #received = 0;

  constructor(
    file: FileTransfer,
    remote: Remote,
    pieces: { readonly next: number; readonly end: number; readonly now: number },
  ) {
    this.file = file;
    this.remote = remote;
    this.next = pieces.next;
    this.end = pieces.end;
    this.#startedAt = pieces.now;
  }

  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  get piece(): Piece {
    return this.file.pieces[this.next] as Piece;
  }

  /** The bytes to request from the server. */
  get extent(): Extent {
    const first = this.piece;
    const last = this.file.pieces[this.end - 1] as Piece;
    return { offset: first.offset, byteLength: last.offset + last.byteLength - first.offset };
  }

  get leftBytes(): number {
    if (this.next >= this.end) return 0;
    const { offset, byteLength } = this.extent;
    return offset + byteLength - this.piece.offset - this.arrived;
  }

  receive(byteLength: number): void {
    this.arrived += byteLength;
    this.#received += byteLength;
  }

  /** Bytes per second so far; undefined while it is too early to tell. */
  rate(now: number): number | undefined {
    const elapsed = now - this.#startedAt;
    return elapsed < WARM_UP_MS ? undefined : (this.#received * 1000) / elapsed;
  }

  /** Bytes per second in total, at its end; undefined if it fetched too little to tell. */
  finalRate(now: number): number | undefined {
    const elapsed = Math.max(1, now - this.#startedAt);
    const isTelling = this.#received >= LEAST_BYTES || elapsed >= WARM_UP_MS;
    return isTelling ? (this.#received * 1000) / elapsed : undefined;
  }

  /** Seconds until it ends, at its current rate; very long if nothing arrives. */
  timeLeft(now: number): number {
    const rate = this.rate(now);
    return rate === undefined ? 0 : this.leftBytes / Math.max(rate, 1);
  }

  stop(reason: unknown): void {
    this.#abort.abort(reason);
  }
}

/** Why a lease ended early without a fault: another connection does its work. */
export const TAKEN_OVER = Symbol("taken over");
