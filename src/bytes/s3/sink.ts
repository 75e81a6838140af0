import type { Bytes } from "../../base/bytes.ts";
import { isTareError, LimitError, UnsupportedError } from "../../base/errors.ts";
import { checkFill, checkReserve, doneError, type Sink } from "../sink.ts";
import type { S3Address } from "./address.ts";
import type { S3Client, S3Condition } from "./client.ts";
import {
  chooseCondition,
  commitObject,
  newWriteId,
  PART_BYTES,
  PARTS_AT_ONCE,
  type PartPlace,
  partAt,
  type S3Overwrite,
} from "./commit.ts";
import type { S3Part } from "./documents.ts";

export interface S3SinkOptions {
  readonly overwrite: S3Overwrite;
  /** At least 5 MiB, which is S3's own limit; 16 MiB if absent. */
  readonly partBytes?: number | undefined;
  /** Parts to send at a time; fewer if parts become long. */
  readonly concurrency?: number | undefined;
  /** Most bytes to hold for parts that are filled in later. */
  readonly maxHeldBytes?: number | undefined;
  readonly onNote?: ((text: string) => void) | undefined;
}

/** Parts being sent take at most this many bytes together, but one part is always allowed. */
const MAX_FLIGHT_BYTES = 128 << 20;
const MAX_HELD_BYTES = 256 << 20;
/** A shorter gap is alignment, which is never filled; its part need not wait. */
const LEAST_HELD_GAP = 4096;

/**
 * A Sink that becomes an object. Content that fits in one part is one request; more is a multipart upload, which is
 * invisible until it is completed. The first part, and parts with reserved room, are sent at the end, so that formats
 * can go back to them. Parts that were sent cannot be changed, and nothing can be read back before commit.
 */
export async function s3Sink(client: S3Client, address: S3Address, options: S3SinkOptions): Promise<Sink> {
  const condition = await chooseCondition(client, address, options);
  return new S3Sink(client, address, { ...options, condition });
}

/** A part that is being assembled. */
interface Draft extends PartPlace {
  readonly buffer: Bytes;
  isHeld: boolean;
  /** Bytes from the start that were written or reserved. */
  used: number;
}

class S3Sink implements Sink {
  readonly label: string;
  readonly #client: S3Client;
  readonly #address: S3Address;
  readonly #options: S3SinkOptions & { readonly condition: S3Condition };
  readonly #writeId = newWriteId();
  readonly #stop = new AbortController();
  /** Parts being sent, with their lengths; these promises never reject. */
  readonly #flying = new Map<Promise<void>, number>();
  readonly #parts: S3Part[] = [];
  /** All calls in order; each step begins when the one before has ended. */
  #steps: Promise<unknown> = Promise.resolve();
  #failure: unknown;
  #position = 0;
  #current: Draft | undefined;
  #held: Draft[] = [];
  #uploadId: Promise<string> | undefined;
  #state: "open" | "committing" | "done" = "open";
  #committing: Promise<void> | undefined;

  constructor(client: S3Client, address: S3Address, options: S3SinkOptions & { readonly condition: S3Condition }) {
    this.label = address.label;
    this.#client = client;
    this.#address = address;
    this.#options = options;
  }

  get position(): number {
    return this.#position;
  }

  append(bytes: Bytes): Promise<void> {
    if (this.#state !== "open") return Promise.reject(doneError(this.label));
    const at = this.#position;
    this.#position += bytes.byteLength;
    return this.#enqueue(() => this.#write(at, bytes));
  }

  reserve(byteLength: number): number {
    if (this.#state !== "open") throw doneError(this.label);
    checkReserve(byteLength, this.label);
    const at = this.#position;
    this.#position += byteLength;
    // The failure is kept, and the next call reports it.
    this.#enqueue(() => this.#skip(at, byteLength)).catch(() => undefined);
    return at;
  }

  fill(offset: number, bytes: Bytes): Promise<void> {
    if (this.#state !== "open") return Promise.reject(doneError(this.label));
    try {
      checkFill(offset, bytes.byteLength, this);
    } catch (error) {
      return Promise.reject(error);
    }
    return this.#enqueue(async () => this.#overwrite(offset, bytes));
  }

  commit(): Promise<void> {
    if (this.#state !== "open") return Promise.reject(doneError(this.label));
    this.#state = "committing";
    this.#committing = this.#publish().finally(() => {
      this.#state = "done";
      this.#release();
    });
    return this.#committing;
  }

  async abort(): Promise<void> {
    if (this.#state === "committing") {
      // A running completion cannot be cancelled; its object is whole in any case.
      this.#stop.abort(doneError(this.label));
      await this.#committing?.catch(() => undefined);
      return;
    }
    if (this.#state === "done") return;
    this.#state = "done";
    await this.#drop();
  }

  async #publish(): Promise<void> {
    try {
      await this.#steps;
      if (this.#failure !== undefined) throw this.#failure;
      const last = this.#current;
      const isSmall = this.#uploadId === undefined && this.#held.length === 0;
      const { condition, onNote } = this.#options;
      const shared = { condition, writeId: this.#writeId, onNote };
      if (isSmall) return await this.#putWhole(last, shared);
      if (last !== undefined) this.#held.push(last);
      // The first part goes last.
      for (const draft of this.#held.splice(0).reverse()) await this.#dispatch(draft);
      await Promise.all(this.#flying.keys());
      if (this.#failure !== undefined) throw this.#failure;
      this.#stop.signal.throwIfAborted();
      const id = await this.#upload();
      const parts = this.#parts.sort((a, b) => a.number - b.number);
      const send = (now: S3Condition) =>
        this.#client.completeUpload(this.#address, { id, parts }, { ...shared, condition: now });
      await commitObject(this.#client, this.#address, { ...shared, send });
    } catch (error) {
      await this.#drop();
      throw error;
    }
  }

  async #putWhole(
    draft: Draft | undefined,
    shared: { readonly condition: S3Condition; readonly writeId: string },
  ): Promise<void> {
    const body = draft?.buffer.subarray(0, draft.used) ?? new Uint8Array(0);
    this.#stop.signal.throwIfAborted();
    const send = (now: S3Condition) => this.#client.put(this.#address, body, { ...shared, condition: now });
    await commitObject(this.#client, this.#address, { ...shared, onNote: this.#options.onNote, send });
  }

  #enqueue(step: () => Promise<void>): Promise<void> {
    const result = this.#steps.then(async () => {
      if (this.#failure !== undefined) throw this.#failure;
      await step();
    });
    this.#steps = result.catch((error: unknown) => {
      // Refusing a fill leaves the sink usable; any other error ends it.
      if (!isTareError(error) || error.code !== "unsupported/s3.fill") this.#failure ??= error;
    });
    return result;
  }

  async #write(offset: number, bytes: Bytes): Promise<void> {
    for (let done = 0; done < bytes.byteLength; ) {
      const draft = await this.#draftFor(offset + done);
      const within = offset + done - draft.offset;
      const piece = bytes.subarray(done, done + draft.byteLength - within);
      draft.buffer.set(piece, within);
      draft.used = within + piece.byteLength;
      done += piece.byteLength;
    }
  }

  async #skip(offset: number, byteLength: number): Promise<void> {
    for (let done = 0; done < byteLength; ) {
      const draft = await this.#draftFor(offset + done);
      const within = offset + done - draft.offset;
      const count = Math.min(byteLength - done, draft.byteLength - within);
      draft.used = within + count;
      if (byteLength >= LEAST_HELD_GAP) draft.isHeld = true;
      done += count;
    }
  }

  #overwrite(offset: number, bytes: Bytes): void {
    const drafts = [...this.#held, ...(this.#current === undefined ? [] : [this.#current])];
    const pieces: { readonly draft: Draft; readonly piece: Bytes; readonly within: number }[] = [];
    for (let done = 0; done < bytes.byteLength; ) {
      const at = offset + done;
      const draft = drafts.find((it) => at >= it.offset && at < it.offset + it.used);
      if (draft === undefined) throw fillError(this.label, at);
      const piece = bytes.subarray(done, done + draft.offset + draft.used - at);
      pieces.push({ draft, piece, within: at - draft.offset });
      done += piece.byteLength;
    }
    for (const { draft, piece, within } of pieces) draft.buffer.set(piece, within);
  }

  /** The part for the byte at `offset`; the part before it is sent or held. */
  async #draftFor(offset: number): Promise<Draft> {
    const current = this.#current;
    if (current !== undefined && offset < current.offset + current.byteLength) return current;
    if (current !== undefined) {
      this.#current = undefined;
      if (current.isHeld) this.#hold(current);
      else await this.#dispatch(current);
    }
    const place = partAt(offset, this.#options.partBytes ?? PART_BYTES, this.label);
    // Zeroed, because reserved room must be zeros.
    const buffer = new Uint8Array(place.byteLength);
    this.#current = { ...place, buffer, used: 0, isHeld: place.number === 1 };
    return this.#current;
  }

  #hold(draft: Draft): void {
    this.#held.push(draft);
    const held = this.#held.reduce((sum, { byteLength }) => sum + byteLength, 0);
    const most = this.#options.maxHeldBytes ?? MAX_HELD_BYTES;
    // The first part is always held and may be longer than the limit on its own.
    if (this.#held.length === 1 || held <= most) return;
    const message = `Cannot write "${this.label}": at most ${most} bytes may wait to be filled in, found ${held}`;
    throw new LimitError("limit/s3.held", message, { source: this.label }, { hint: "Write to a disk, then push" });
  }

  /** Resolves when the part is being sent; this slows down a writer that is faster than the network. */
  async #dispatch(draft: Draft): Promise<void> {
    while (this.#isFull(draft.byteLength)) await Promise.race(this.#flying.keys());
    if (this.#failure !== undefined) throw this.#failure;
    const sending: Promise<void> = this.#send(draft).finally(() => this.#flying.delete(sending));
    this.#flying.set(sending, draft.byteLength);
  }

  /** One part may always be sent, even if it is too long. */
  #isFull(byteLength: number): boolean {
    if (this.#flying.size === 0) return false;
    if (this.#flying.size >= (this.#options.concurrency ?? PARTS_AT_ONCE)) return true;
    const flying = [...this.#flying.values()].reduce((sum, bytes) => sum + bytes, 0);
    return flying + byteLength > MAX_FLIGHT_BYTES;
  }

  async #send(draft: Draft): Promise<void> {
    try {
      if (this.#failure !== undefined) return;
      const id = await this.#upload();
      const body = draft.buffer.subarray(0, draft.used);
      const { number } = draft;
      this.#parts.push(
        await this.#client.uploadPart(this.#address, { id, number }, { body, signal: this.#stop.signal }),
      );
    } catch (error) {
      this.#failure ??= error;
    }
  }

  #upload(): Promise<string> {
    // Abort does not stop this: an upload whose id never arrived could not be dropped.
    this.#uploadId ??= this.#client.createUpload(this.#address, { writeId: this.#writeId });
    return this.#uploadId;
  }

  /** Ends all requests, and the upload with them. */
  async #drop(): Promise<void> {
    this.#stop.abort(doneError(this.label));
    this.#failure ??= doneError(this.label);
    await this.#steps;
    await Promise.all(this.#flying.keys());
    this.#release();
    const id = await this.#uploadId?.catch(() => undefined);
    // Unfinished uploads cost money, so drop it; but the earlier failure is the one to report.
    if (id !== undefined) await this.#client.abortUpload(this.#address, id).catch(() => undefined);
  }

  #release(): void {
    this.#current = undefined;
    this.#held = [];
  }
}

function fillError(label: string, offset: number): UnsupportedError {
  const message = `Cannot change byte ${offset} of "${label}": its part was sent already`;
  return new UnsupportedError("unsupported/s3.fill", message, { source: label, offset });
}
