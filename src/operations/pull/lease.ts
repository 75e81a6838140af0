import type { Extent } from "../../bytes/extents.ts";
import type { FileTransfer } from "./file-transfer.ts";
import type { Piece } from "./pieces.ts";
import type { Remote } from "./remote.ts";

/** Time in which the rate of a lease at work is not yet worth comparing, in milliseconds. */
const WARM_UP_MS = 200;
/** A lease that brought less says nothing about its server. */
const LEAST_BYTES = 64 << 10;

/** Pieces `next` … `end` of a file, in the hands of one connection. */
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

  /** The bytes to ask the server for. */
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

  /** Bytes a second so far; undefined while it is too early to tell. */
  rate(now: number): number | undefined {
    const elapsed = now - this.#startedAt;
    return elapsed < WARM_UP_MS ? undefined : (this.#received * 1000) / elapsed;
  }

  /** Bytes a second in all, at its end; undefined where it brought too little to tell. */
  finalRate(now: number): number | undefined {
    const elapsed = Math.max(1, now - this.#startedAt);
    const isTelling = this.#received >= LEAST_BYTES || elapsed >= WARM_UP_MS;
    return isTelling ? (this.#received * 1000) / elapsed : undefined;
  }

  /** Seconds until it will be through, going by its own rate; endless where nothing arrives. */
  timeLeft(now: number): number {
    const rate = this.rate(now);
    return rate === undefined ? 0 : this.leftBytes / Math.max(rate, 1);
  }

  stop(reason: unknown): void {
    this.#abort.abort(reason);
  }
}

/** Why a lease ended early although nothing is wrong with it: another connection does its work. */
export const TAKEN_OVER = Symbol("taken over");
