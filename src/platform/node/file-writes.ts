import type { FileHandle } from "node:fs/promises";
import type { Bytes } from "../../base/bytes.ts";
import { allocateBytes } from "./file-reads.ts";

/** Appends below this are gathered, so that 100 000 small ones do not cost 100 000 system calls. */
const SMALL_BYTES = 256 << 10;
const STAGING_BYTES = 1 << 20;
/** Staging buffers that may wait for the disk before appends do. */
const MAX_STAGING = 4;

/**
 * Positional writes to one file with several in flight. The first failure is kept and reported by every later
 * call, so that an append whose promise settled early still fails the whole write.
 */
export class FileWrites {
  readonly #handle: FileHandle;
  readonly #pending = new Set<Promise<void>>();
  readonly #free: Bytes[] = [];
  #staging: Bytes | undefined;
  #stagingStart = 0;
  #stagingLength = 0;
  #stagingCount = 0;
  #fills: Promise<void> = Promise.resolve();
  #failure: { readonly error: unknown } | undefined;
  #room: Promise<void> | undefined;

  constructor(handle: FileHandle) {
    this.#handle = handle;
  }

  /** Writes at `position`, which is where the write before it ended. */
  append(bytes: Bytes, position: number): Promise<void> {
    if (this.#failure !== undefined) return Promise.reject(this.#failure.error);
    if (bytes.byteLength >= SMALL_BYTES) {
      this.flush();
      return this.#track(this.#writeAll(bytes, position));
    }
    return this.#stage(bytes, position);
  }

  /** Overwrites earlier bytes; waits for the writes before it, since the order of overlapping ones is open. */
  fill(bytes: Bytes, position: number): Promise<void> {
    if (this.#failure !== undefined) return Promise.reject(this.#failure.error);
    this.flush();
    const before = [...this.#pending];
    this.#fills = this.#fills.then(async () => {
      await Promise.allSettled(before);
      await this.#writeAll(bytes, position);
    });
    return this.#track(this.#fills);
  }

  /** Starts writing what is gathered. */
  flush(): void {
    const staging = this.#staging;
    if (staging === undefined) return;
    const { stagingView, start } = { stagingView: staging.subarray(0, this.#stagingLength), start: this.#stagingStart };
    this.#staging = undefined;
    void this.#track(
      this.#writeAll(stagingView, start).finally(() => {
        this.#free.push(staging);
      }),
    ).catch(() => undefined); // kept in #failure; the next call reports it
  }

  /** Resolves when everything is written, or rejects with the first failure. */
  async finish(): Promise<void> {
    this.flush();
    await this.settle();
    if (this.#failure !== undefined) throw this.#failure.error;
  }

  /** Resolves when no write is under way, failed or not. */
  async settle(): Promise<void> {
    while (this.#pending.size > 0) await Promise.allSettled(this.#pending);
  }

  #stage(bytes: Bytes, position: number): Promise<void> {
    let rest = bytes;
    let at = position;
    while (rest.byteLength > 0) {
      const staging = this.#openStaging(at);
      const piece = rest.subarray(0, STAGING_BYTES - this.#stagingLength);
      staging.set(piece, this.#stagingLength);
      this.#stagingLength += piece.byteLength;
      at += piece.byteLength;
      rest = rest.subarray(piece.byteLength);
      if (this.#stagingLength === STAGING_BYTES) this.flush();
    }
    const mustWait = this.#free.length === 0 && this.#stagingCount >= MAX_STAGING && this.#pending.size > 0;
    return mustWait ? this.#nextRoom() : Promise.resolve();
  }

  /** One promise for everybody who waits: a race for each of 100 000 small appends would pile up behind a few writes. */
  #nextRoom(): Promise<void> {
    this.#room ??= Promise.race(this.#pending).finally(() => {
      this.#room = undefined;
    });
    return this.#room;
  }

  /** The staging buffer, if what it holds ends at `position`; otherwise a new one that begins there. */
  #openStaging(position: number): Bytes {
    if (this.#staging !== undefined && this.#stagingStart + this.#stagingLength !== position) this.flush();
    if (this.#staging === undefined) {
      const reused = this.#free.pop();
      if (reused === undefined) this.#stagingCount++;
      this.#staging = reused ?? allocateBytes(STAGING_BYTES);
      this.#stagingStart = position;
      this.#stagingLength = 0;
    }
    return this.#staging;
  }

  #track(write: Promise<void>): Promise<void> {
    const tracked = write
      .catch((error: unknown) => {
        this.#failure ??= { error };
        throw error;
      })
      .finally(() => this.#pending.delete(tracked));
    this.#pending.add(tracked);
    // The caller may never look at this promise: the failure is reported by the next call in any case.
    tracked.catch(() => undefined);
    return tracked;
  }

  async #writeAll(bytes: Bytes, position: number): Promise<void> {
    let done = 0;
    while (done < bytes.byteLength) {
      const { bytesWritten } = await this.#handle.write(bytes, done, bytes.byteLength - done, position + done);
      done += bytesWritten;
    }
  }
}
