import type { OnReadOpts, Socket } from "node:net";
import type { Bytes } from "../../../base/bytes.ts";
import { slowError, timeoutError } from "../../../bytes/http/errors.ts";
import { TransferWatch } from "../../../bytes/http/exchange.ts";
import type { HttpResponse } from "../../../bytes/http/transport.ts";
import { BodyIntake } from "./body.ts";
import { type DialOptions, dial, type Route } from "./dial.ts";
import { transportError } from "./errors.ts";
import { bodyReaderFor, keepsConnection, MalformedReply, type ReplyHead, ReplyHeads } from "./reply.ts";

/** Bytes to send at once: few enough that progress shows on a slow line. */
const SENT_BYTES = 64 << 10;
/** The longest time to send one piece of a body: much of it waits in the system's own buffers. */
const SENDING_MS = 60_000;
/** Interim replies (RFC 9110 §15.2) before the final one. */
const MAX_INTERIM = 32;
/** How much of an unwanted body to receive, and for how long, so that its connection can be reused. */
const DRAIN_BYTES = 64 << 10;
const DRAIN_MS = 1000;

/** A request as it goes out. */
export interface WireRequest {
  readonly method: string;
  /** Everything up to and including the empty line. */
  readonly head: string;
  readonly body: Bytes | undefined;
  /** The address to report as the source of the reply. */
  readonly url: string;
  readonly label: string;
  readonly signal: AbortSignal;
  readonly timeoutMs: number;
  /** "caller" if the caller checks the least rate; if absent, the connection does. */
  readonly rateWatch: "caller" | undefined;
}

/** Tells the owner once for every request whether the connection can be reused. */
type Release = (state: "idle" | "gone", keepAliveMs: number | undefined) => void;

/** One connection, for one exchange after the other. Bodies go through its buffer, or directly to their reader. */
export class HttpConnection {
  readonly #intake: BodyIntake;
  #socket: Socket | undefined;
  readonly #heads = new ReplyHeads();
  /** Settles with the head of a reply; undefined once it has arrived. */
  #onHead: { readonly resolve: (head: ReplyHead) => void; readonly reject: (error: unknown) => void } | undefined;
  #method = "";
  #interim = 0;
  #isAlive = true;
  #isUntouched = true;
  /** Whether the whole request was written, or a part so far. */
  #sent: "part" | "whole" = "whole";

  private constructor(bufferBytes: number) {
    this.#intake = new BodyIntake(bufferBytes);
  }

  static async open(
    route: Route,
    { bufferBytes, ...options }: Omit<DialOptions, "onread"> & { readonly bufferBytes: number },
  ): Promise<HttpConnection> {
    const connection = new HttpConnection(bufferBytes);
    const onread: OnReadOpts = {
      buffer: () => connection.#intake.nextBuffer(),
      callback: (byteLength, buffer) => connection.#receive(buffer.subarray(0, byteLength) as Bytes),
    };
    const { socket, reading } = await dial(route, { ...options, onread });
    connection.#socket = socket;
    connection.#intake.attach(socket);
    socket.on("error", (error) => connection.#fail(error));
    socket.on("close", () => connection.#fail(undefined));
    socket.on("end", () => connection.#end());
    if (reading === "events") {
      socket.on("data", (piece: Buffer<ArrayBuffer>) => {
        if (!connection.#receive(piece)) socket.pause();
      });
    }
    return connection;
  }

  get isAlive(): boolean {
    return this.#isAlive;
  }

  /** True if no byte has arrived since the last request. */
  get isUntouched(): boolean {
    return this.#isUntouched;
  }

  /** The address at the other end. */
  get address(): string | undefined {
    return this.#socket?.remoteAddress;
  }

  /** Sends a request and waits for the head of the reply. No other exchange may be under way. */
  async send(request: WireRequest, release: Release): Promise<HttpResponse> {
    const { signal, timeoutMs } = request;
    const abort = (): void => this.#giveUp(signal.reason);
    let isReleased = false;
    const end = (state: "idle" | "gone", keepAliveMs?: number): void => {
      if (isReleased) return;
      isReleased = true;
      signal.removeEventListener("abort", abort);
      this.#intake.watch?.end();
      this.#intake.watch = undefined;
      if (state === "gone") this.destroy();
      else this.#intake.end();
      release(state, keepAliveMs);
    };
    try {
      // A signal that is already aborted fires no event.
      signal.throwIfAborted();
      signal.addEventListener("abort", abort, { once: true });
      this.#socket?.ref();
      this.#isUntouched = true;
      this.#interim = 0;
      this.#method = request.method;
      const arrived = new Promise<ReplyHead>((resolve, reject) => {
        this.#onHead = { resolve, reject };
        if (!this.#isAlive) this.#fail(undefined);
      });
      void this.#write(request);
      const head = await arrived;
      this.#intake.watch?.end();
      this.#intake.watch = this.#watchFor(request, timeoutMs);
      const isReusable = this.#sent === "whole" && keepsConnection(head);
      return this.#response(head, request, (state) =>
        end(state === "read" && isReusable && this.#isAlive ? "idle" : "gone", keepAliveOf(head)),
      );
    } catch (error) {
      end("gone");
      signal.throwIfAborted();
      throw error;
    }
  }

  /** Lets the connection wait for its next request without keeping the process alive. */
  rest(): void {
    this.#socket?.unref();
    this.#socket?.resume(); // an idle connection must notice that the server closes it
  }

  destroy(): void {
    this.#isAlive = false;
    this.#socket?.destroy();
  }

  #watchFor({ label, rateWatch }: WireRequest, silenceMs: number): TransferWatch {
    const onFailure = (kind: "silent" | "slow"): void =>
      this.#giveUp(kind === "silent" ? timeoutError(label, silenceMs) : slowError(label));
    return new TransferWatch({ silenceMs, onFailure, rate: rateWatch === "caller" ? "elsewhere" : "here" });
  }

  /** Sends everything, unless the reply comes first: then the server wants no more. The socket reports failures. */
  async #write(request: WireRequest): Promise<void> {
    const { head, body, timeoutMs } = request;
    const socket = this.#socket;
    this.#sent = "part";
    socket?.write(head, "latin1");
    socket?.resume();
    if (body !== undefined && body.byteLength > 0) {
      const watch = this.#watchFor(request, Math.max(timeoutMs, SENDING_MS));
      this.#intake.watch = watch;
      watch.start();
      for (let at = 0; at < body.byteLength; at += SENT_BYTES) {
        const piece = body.subarray(at, at + SENT_BYTES);
        await new Promise<void>((resolve) => socket?.write(piece, () => resolve()));
        if (this.#onHead === undefined && at + SENT_BYTES < body.byteLength) return;
        watch.heard(piece.byteLength);
      }
      watch.end();
    }
    this.#sent = "whole";
    if (this.#onHead === undefined) return;
    this.#intake.watch = this.#watchFor(request, timeoutMs);
    this.#intake.watch.start();
  }

  /** The socket calls this with the bytes that it read; false stops it until the reader wants more. */
  #receive(bytes: Bytes): boolean {
    this.#isUntouched = false;
    try {
      const rest = this.#onHead === undefined ? bytes : this.#receiveHeads(bytes);
      if (rest === undefined || rest.byteLength === 0) return true;
      // Bytes without a request: the bytes that follow could not be assigned to a reply.
      const reader = this.#intake.body;
      if (reader === undefined) throw new MalformedReply("bytes came that were not asked for");
      const body = reader.take(rest);
      if (body.byteLength > 0) return this.#intake.deliver(body);
      if (reader.isComplete) this.#intake.wake();
    } catch (error) {
      this.#giveUp(error);
    }
    return true;
  }

  /** The server has closed its side: that completes some bodies and breaks all others. */
  #end(): void {
    if (this.#intake.body?.close() === true) {
      this.#isAlive = false;
      this.#intake.wake();
    } else this.#fail(undefined);
  }

  #giveUp(error: unknown): void {
    this.#fail(error);
    this.destroy();
  }

  /** The connection has ended. */
  #fail(error: unknown): void {
    this.#isAlive = false;
    this.#intake.fail(error ?? Object.assign(new Error("connection closed"), { code: "ECONNRESET" }));
    this.#onHead?.reject(this.#intake.failure);
    this.#onHead = undefined;
  }

  /** The part of `bytes` after the head; undefined while the head is incomplete. */
  #receiveHeads(bytes: Bytes): Bytes | undefined {
    for (let rest = bytes; ; ) {
      const found = this.#heads.add(rest);
      if (found === undefined) return undefined;
      rest = rest.subarray(found.end);
      const { status } = found.head;
      if (status >= 200) {
        this.#intake.begin(bodyReaderFor(found.head, this.#method));
        this.#onHead?.resolve(found.head);
        this.#onHead = undefined;
        return rest;
      }
      if (status === 101) throw new MalformedReply("it changes to another protocol");
      if (++this.#interim > MAX_INTERIM) throw new MalformedReply("it is announced again and again");
      if (rest.byteLength === 0) return undefined;
    }
  }

  #response(head: ReplyHead, { url, label, signal }: WireRequest, end: (state: "read" | "left") => void): HttpResponse {
    let state: "open" | "read" | "left" = "open";
    let isBeingRead = false;
    /** True while the reader holds the last piece. */
    let isLent = false;
    const finish = (outcome: "read" | "left"): void => {
      if (state !== "open") return;
      state = outcome;
      this.#intake.clear();
      end(outcome);
    };
    const leave = (): void => {
      if (isLent) this.#intake.takeBack();
      finish(this.#intake.isOver ? "read" : "left");
    };
    const explained = (error: unknown): unknown => {
      if (signal.aborted) return signal.reason;
      return this.#intake.failure === undefined ? error : transportError(this.#intake.failure, label);
    };
    /** False if there is nothing to read. A body that was given up must not look like one that ended. */
    const isOpen = (): boolean => {
      if (state === "left") throw new Error("the body was given up");
      return state === "open";
    };
    const read = async function* (this: HttpConnection): AsyncGenerator<Bytes> {
      isBeingRead = true;
      try {
        while (isOpen()) {
          const chunk = await this.#intake.nextChunk();
          if (!isOpen()) return;
          if (chunk === undefined) return finish("read");
          isLent = true;
          yield chunk;
          isLent = false;
          if (!isOpen()) return;
          this.#intake.advance();
        }
      } catch (error) {
        throw explained(error);
      } finally {
        leave();
      }
    };
    const dropRest = async (): Promise<void> => {
      for (let dropped = 0; state === "open" && dropped <= DRAIN_BYTES; ) {
        const chunk = await this.#intake.nextChunk();
        if (chunk === undefined) return;
        dropped += chunk.byteLength;
        this.#intake.advance();
      }
    };
    const drain = (): void => {
      const { toCome = 0 } = this.#intake.body ?? {};
      if (!this.#isAlive || !keepsConnection(head) || toCome > DRAIN_BYTES) {
        finish("left");
        return;
      }
      this.#socket?.unref(); // no caller waits for this
      const timer = setTimeout(() => finish("left"), DRAIN_MS);
      timer.unref();
      const done = (): void => {
        clearTimeout(timer);
        finish(this.#intake.isOver ? "read" : "left");
      };
      dropRest().then(done, done);
    };
    if (this.#intake.isOver) finish("read");
    return {
      status: head.status,
      headers: { get: (name) => head.headers.get(name.toLowerCase()) ?? null },
      url,
      body: read.call(this),
      cancel: () => {
        if (state !== "open") return;
        if (isBeingRead || this.#intake.isOver) return leave();
        isBeingRead = true;
        drain();
      },
    };
  }
}

/** How long the server says that it keeps the connection; undefined if it does not say. */
function keepAliveOf({ headers }: ReplyHead): number | undefined {
  const seconds = /(?:^|[\s,])timeout=(\d{1,6})/i.exec(headers.get("keep-alive") ?? "")?.[1];
  return seconds === undefined ? undefined : Number(seconds) * 1000;
}
