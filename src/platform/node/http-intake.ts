import type { Socket } from "node:net";
import { TLSSocket } from "node:tls";
import { type Bytes, readMemory } from "../../base/bytes.ts";
import type { TransferWatch } from "../../bytes/http/exchange.ts";
import type { BodyReader } from "./http-reply.ts";
import { FillingTaker, type Taker } from "./http-takers.ts";

/** What is read at once while nobody has said where the body goes: it will have to be copied. */
const FIRST_BYTES = 64 << 10;
/** What is read at once right to where it is wanted: more would have left the cache before anybody looks at it. */
const MOST_BYTES = 2 << 20;

/** The way of one body after the other from a socket to whoever reads it: through a buffer, or right to where it is wanted. */
export class BodyIntake {
  readonly #bufferBytes: number;
  #socket: Socket | undefined;
  #first: Bytes | undefined;
  #large: Bytes | undefined;
  #spare: Bytes | undefined;
  /** What was filled last: where the next bytes go while it is not known yet who wants them. */
  #again: Bytes | undefined;
  /** The body that is arriving; undefined before the head and when nothing is under way. */
  #body: BodyReader | undefined;
  /** What was read and not yet handed out. */
  #chunk: Bytes | undefined;
  /** What came behind it all the same: TLS hands out whatever it has decrypted. */
  #late: Bytes[] = [];
  #onChunk: (() => void) | undefined;
  /** Takes pieces as the socket reads them, in place of `#chunk`. */
  #taker: Taker | undefined;
  #failure: unknown;
  /** Looks after the transfer while somebody waits for bytes. */
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

  /** What comes from now on belongs to this body. */
  begin(body: BodyReader): void {
    this.#body = body;
  }

  /** The body is through: what comes from now on belongs to nobody. */
  end(): void {
    this.#body = undefined;
  }

  /** Drops what nobody has taken: the next reply must not find it. */
  clear(): void {
    this.#chunk = undefined;
    this.#late = [];
    this.#again = undefined;
  }

  /** The reader is done with the piece that it was handed last; the next one, where it is here, takes its place. */
  advance(): void {
    this.#chunk = this.#late.shift();
    if (!this.isOver) this.#socket?.resume();
  }

  /** The reader wants no more and has no use for the piece that it was handed last. */
  takeBack(): void {
    if (this.#late.length === 0) this.#chunk = undefined;
  }

  /** Nothing more will come; the first reason counts. Whoever waits hears of it. */
  fail(error: unknown): void {
    this.#failure ??= error;
    this.#onChunk?.();
    const taker = this.#taker;
    this.#taker = undefined;
    taker?.end(this.#failure);
  }

  /** Called by the socket after each read: where the next one goes. */
  nextBuffer(): Bytes {
    const toCome = this.#body?.toCome ?? 0;
    const room = this.#taker === undefined ? this.#again : this.#taker.room?.();
    if (room !== undefined && toCome > 0) return room.subarray(0, Math.min(toCome, MOST_BYTES));
    if (this.#taker !== undefined) return this.#largeBuffer();
    this.#first ??= readMemory(FIRST_BYTES);
    const next = this.#body === undefined || this.#body.isComplete ? this.#first : this.#largeBuffer();
    // What waits must not be written over; a plain socket that was stopped does not write.
    const isFree = !(this.#socket instanceof TLSSocket) || this.#chunk?.buffer !== next.buffer;
    if (isFree) return this.#chunk === undefined ? next.subarray(0, FIRST_BYTES) : next;
    this.#spare ??= new Uint8Array(FIRST_BYTES);
    return this.#spare;
  }

  #largeBuffer(): Bytes {
    this.#large ??= readMemory(this.#bufferBytes);
    return this.#large;
  }

  /** Takes what the socket read of the body; false stops the socket until the body is asked for more. */
  deliver(body: Bytes): boolean {
    this.watch?.heard(body.byteLength);
    if (this.#chunk !== undefined) {
      this.#late.push(body.slice());
      return false;
    }
    if (this.#taker !== undefined) {
      this.#hand(body, this.#taker);
      // A taker that has enough leaves the rest of the body where it is.
      return this.#taker !== undefined || this.isOver;
    }
    this.#chunk = body;
    this.#onChunk?.();
    return false;
  }

  /** True when the whole body has been handed out. */
  get isOver(): boolean {
    return this.#body?.isComplete === true && this.#chunk === undefined && this.#late.length === 0;
  }

  #hand(body: Bytes, taker: Taker): void {
    let taken: number;
    try {
      taken = taker.take(body);
    } catch (error) {
      this.#taker = undefined;
      taker.end(error);
      return;
    }
    if (taken < body.byteLength) this.#chunk = this.#own(body.subarray(taken));
    if (!this.isOver && !taker.isFull) return;
    this.#taker = undefined;
    // The socket has to know now where it writes when it is told to go on: most fill the same memory again.
    const isStopped = this.#chunk === undefined && !(this.#socket instanceof TLSSocket);
    this.#again = isStopped && taker instanceof FillingTaker ? taker.into : undefined;
    taker.end();
  }

  /** What waits must not lie in memory that was lent: its owner has it back when the next call is over. */
  #own(rest: Bytes): Bytes {
    return rest.buffer === this.#large?.buffer || rest.buffer === this.#first?.buffer ? rest : rest.slice();
  }

  /** Whoever waits for the body looks again. */
  wake(): void {
    this.#onChunk?.();
    if (this.#taker === undefined || !this.isOver) return;
    const taker = this.#taker;
    this.#taker = undefined;
    taker.end();
  }

  /** The whole body, without a promise for every piece of it. */
  async each(makeTaker: (end: Taker["end"]) => Taker): Promise<void> {
    this.watch?.start();
    try {
      await new Promise<void>((resolve, reject) => {
        if (this.isOver) return resolve();
        this.#taker = makeTaker((failure) => (failure === undefined ? resolve() : reject(failure)));
        for (let early = this.#chunk; early !== undefined && this.#taker !== undefined; early = this.#chunk) {
          this.#chunk = undefined;
          this.#hand(early, this.#taker);
          this.#chunk ??= this.#late.shift();
        }
        if (this.#taker === undefined) return;
        if (this.#failure !== undefined) this.fail(this.#failure);
        else this.#socket?.resume();
      });
    } finally {
      this.watch?.pause();
    }
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
