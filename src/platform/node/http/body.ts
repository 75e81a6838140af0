import type { Socket } from "node:net";
import { TLSSocket } from "node:tls";
import { type Bytes, readMemory } from "../../../base/bytes.ts";
import type { TransferWatch } from "../../../bytes/http/exchange.ts";
import type { BodyReader } from "./reply.ts";

/** Bytes to read at once before a taker is known: they will have to be copied. */
const FIRST_BYTES = 64 << 10;

/** The way of one body after the other from a socket to its reader, through a buffer. */
export class BodyIntake {
  readonly #bufferBytes: number;
  #socket: Socket | undefined;
  #first: Bytes | undefined;
  #large: Bytes | undefined;
  #spare: Bytes | undefined;
  /** The body that is arriving; undefined before the head and when nothing is under way. */
  #body: BodyReader | undefined;
  /** Bytes that were read and not yet handed out. */
  #chunk: Bytes | undefined;
  /** Bytes that arrived after `#chunk` although the socket was stopped: TLS hands out all that it has decrypted. */
  #late: Bytes[] = [];
  #onChunk: (() => void) | undefined;
  #failure: unknown;
  /** Watches the transfer while a reader waits for bytes. */
  watch: TransferWatch | undefined;

  constructor(bufferBytes: number) {
    this.#bufferBytes = bufferBytes;
  }

  attach(socket: Socket): void {
    this.#socket = socket;
  }

  get body(): BodyReader | undefined {
    return this.#body;
  }

  get failure(): unknown {
    return this.#failure;
  }

  /** All bytes from now on belong to this body. */
  begin(body: BodyReader): void {
    this.#body = body;
  }

  /** The body is complete: bytes from now on belong to no body. */
  end(): void {
    this.#body = undefined;
  }

  /** Drops bytes that were not taken: the next reply must not find them. */
  clear(): void {
    this.#chunk = undefined;
    this.#late = [];
  }

  /** The reader is done with its last piece; the next one takes its place if it has arrived. */
  advance(): void {
    this.#chunk = this.#late.shift();
    if (!this.isOver) this.#socket?.resume();
  }

  /** The reader wants no more bytes and does not need its last piece. */
  takeBack(): void {
    if (this.#late.length === 0) this.#chunk = undefined;
  }

  /** No more bytes will come; the first reason counts. Waiting readers get it. */
  fail(error: unknown): void {
    this.#failure ??= error;
    this.#onChunk?.();
  }

  /** The socket calls this after each read: returns the memory for the next one. */
  nextBuffer(): Bytes {
    this.#first ??= readMemory(FIRST_BYTES);
    const next = this.#body === undefined || this.#body.isComplete ? this.#first : this.#largeBuffer();
    // Waiting bytes must not be overwritten. A plain socket that was stopped does not write.
    const isFree = !(this.#socket instanceof TLSSocket) || this.#chunk?.buffer !== next.buffer;
    if (isFree) return this.#chunk === undefined ? next.subarray(0, FIRST_BYTES) : next;
    this.#spare ??= new Uint8Array(FIRST_BYTES);
    return this.#spare;
  }

  #largeBuffer(): Bytes {
    this.#large ??= readMemory(this.#bufferBytes);
    return this.#large;
  }

  /** Takes the bytes of the body that the socket read; false stops the socket until the reader wants more. */
  deliver(body: Bytes): boolean {
    this.watch?.heard(body.byteLength);
    if (this.#chunk !== undefined) {
      this.#late.push(body.slice());
      return false;
    }
    this.#chunk = body;
    this.#onChunk?.();
    return false;
  }

  /** True when the whole body has been handed out. */
  get isOver(): boolean {
    return this.#body?.isComplete === true && this.#chunk === undefined && this.#late.length === 0;
  }

  /** A reader that waits for the body looks again. */
  wake(): void {
    this.#onChunk?.();
  }

  /** Undefined at the end of the body. */
  async nextChunk(): Promise<Bytes | undefined> {
    if (this.#chunk === undefined && this.#failure === undefined && !this.isOver) {
      this.watch?.start();
      await new Promise<void>((resolve) => {
        this.#onChunk = resolve;
      });
      this.#onChunk = undefined;
      this.watch?.pause();
    }
    if (this.#chunk !== undefined) return this.#chunk;
    if (this.isOver) return undefined;
    throw this.#failure;
  }
}
