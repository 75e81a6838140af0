import { connect as connectPlain, isIP, type OnReadOpts, type Socket } from "node:net";
import { type ConnectionOptions, connect as connectTls, TLSSocket } from "node:tls";
import type { Bytes } from "../../base/bytes.ts";
import { readMemory } from "../../base/read-memory.ts";
import type { HttpRequest, HttpResponse } from "../../bytes/http-transport.ts";
import { parseHttpUrl } from "../../bytes/http-url.ts";
import { ReplyHeads } from "./direct-head.ts";
import type { ReplyHead } from "./direct-reply.ts";
import { requestText } from "./direct-request.ts";
import { FillingTaker, type Taker, takerOfAll } from "./direct-taker.ts";
import { transportError } from "./http-errors.ts";

/** What is read at once while nobody has said where the body goes: it will have to be copied. */
const FIRST_BYTES = 64 << 10;
/** What is read at once right to where it is wanted: more would have left the cache before anybody looks at it. */
const MOST_BYTES = 2 << 20;

interface OpenOptions {
  readonly bufferBytes: number;
  readonly signal: AbortSignal;
}

/** One connection that downloads one body after the other, through one buffer or right to where it is wanted. */
export class DirectConnection {
  readonly #socket: Socket;
  readonly #buffer: Bytes;
  #spare: Bytes | undefined;
  /** What was filled last: where the next bytes go while it is not known yet who wants them. */
  #again: Bytes | undefined;
  readonly #heads = new ReplyHeads();
  /** Where the head of a reply goes; undefined once it is here. */
  #onHead: ((head: ReplyHead | "unusual" | "stale") => void) | undefined;
  /** Bytes of the body that have not been handed out, and those of them that have not arrived. */
  #left = 0;
  #toCome = 0;
  /** What was read and not yet handed out. */
  #chunk: Bytes | undefined;
  /** What came behind it all the same: TLS hands out whatever it has decrypted. */
  #late: Bytes[] = [];
  #onChunk: (() => void) | undefined;
  /** Takes pieces as the socket reads them, in place of `#chunk`. */
  #taker: Taker | undefined;
  #failure: unknown;
  #isAlive = true;

  private constructor(socket: Socket, buffer: Bytes) {
    this.#socket = socket;
    this.#buffer = buffer;
  }

  static open(url: URL, { bufferBytes, signal }: OpenOptions): Promise<DirectConnection> {
    return new Promise((resolve, reject) => {
      let connection: DirectConnection | undefined;
      const own = readMemory(bufferBytes);
      const onread: OnReadOpts = {
        buffer: () => connection?.nextBuffer() ?? own,
        callback: (byteLength, buffer) => connection?.receive(buffer.subarray(0, byteLength) as Bytes) ?? true,
      };
      const host = url.hostname.replace(/^\[|\]$/g, "");
      const isSecure = url.protocol === "https:";
      const port = url.port === "" ? (isSecure ? 443 : 80) : Number(url.port);
      const name = isIP(host) === 0 ? { servername: host } : {};
      // Node documents onread for TLS as well; its types have it for plain sockets only.
      const secure: ConnectionOptions & { readonly onread: OnReadOpts } = {
        host,
        port,
        ...name,
        ALPNProtocols: ["http/1.1"],
        onread,
      };
      const socket = isSecure ? connectTls(secure) : connectPlain({ host, port, onread, noDelay: true });
      const abort = (): void => {
        socket.destroy();
        reject(signal.reason);
      };
      signal.addEventListener("abort", abort, { once: true });
      socket.once("error", reject);
      socket.once(isSecure ? "secureConnect" : "connect", () => {
        signal.removeEventListener("abort", abort);
        socket.off("error", reject);
        connection = new DirectConnection(socket, own);
        socket.on("error", (error) => connection?.fail(error));
        socket.on("close", () => connection?.fail(undefined));
        socket.on("end", () => connection?.fail(undefined));
        resolve(connection);
      });
      if (signal.aborted) abort();
    });
  }

  get isAlive(): boolean {
    return this.#isAlive;
  }

  /**
   * Sends a request and waits for the head of the reply. "stale" where the connection ended before anything came,
   * "unusual" where the reply is more than a body of known length; the connection is gone in both cases.
   */
  async send(request: HttpRequest, url: URL, release: () => void): Promise<HttpResponse | "stale" | "unusual"> {
    const { signal } = request;
    if (!this.#isAlive) return "stale";
    this.#socket.ref();
    const abort = (): void => {
      this.fail(signal.reason);
      this.destroy();
    };
    signal.addEventListener("abort", abort, { once: true });
    const head = await new Promise<ReplyHead | "unusual" | "stale">((resolve) => {
      this.#onHead = resolve;
      this.#socket.write(requestText(request, url));
      this.#socket.resume();
    });
    if (signal.aborted || head === "stale" || head === "unusual") {
      signal.removeEventListener("abort", abort);
      this.destroy();
      signal.throwIfAborted();
      return head as "stale" | "unusual";
    }
    const end = (state: "reusable" | "spent"): void => {
      signal.removeEventListener("abort", abort);
      if (state === "spent" || head.connection === "close" || !this.#isAlive) this.destroy();
      else {
        this.#socket.unref();
        this.#socket.resume(); // an idle connection must notice that the server closes it
        release();
      }
    };
    return this.#response(head, request.url, end);
  }

  destroy(): void {
    this.#isAlive = false;
    this.#socket.destroy();
  }

  /** Called by the socket after each read: where the next one goes. */
  nextBuffer(): Bytes {
    const room = this.#taker === undefined ? this.#again : this.#taker.room?.();
    if (room !== undefined && this.#left > 0) return room.subarray(0, Math.min(this.#left, MOST_BYTES));
    if (this.#taker !== undefined) return this.#buffer;
    if (this.#chunk === undefined) return this.#buffer.subarray(0, FIRST_BYTES);
    // What waits must not be written over; a plain socket that was stopped does not write.
    const isFree = !(this.#socket instanceof TLSSocket) || this.#chunk.buffer !== this.#buffer.buffer;
    if (isFree) return this.#buffer;
    this.#spare ??= new Uint8Array(FIRST_BYTES);
    return this.#spare;
  }

  /** Called by the socket with what it read; false stops it until the body is asked for more. */
  receive(bytes: Bytes): boolean {
    const body = this.#onHead === undefined ? bytes : this.#receiveHead(bytes);
    if (body === undefined || body.byteLength === 0) return true;
    this.#toCome -= body.byteLength;
    if (this.#toCome < 0) {
      // Bytes that nobody asked for: whatever follows cannot be told apart.
      this.fail(new Error("more bytes than announced"));
      this.#socket.destroy();
      return true;
    }
    if (this.#chunk !== undefined) {
      this.#late.push(body.slice());
      return false;
    }
    if (this.#taker !== undefined) {
      this.#hand(body, this.#taker);
      // A taker that has enough leaves the rest of the body where it is.
      return this.#taker !== undefined || this.#left === 0;
    }
    this.#chunk = body;
    this.#onChunk?.();
    return false;
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
    this.#left -= taken;
    if (taken < body.byteLength) this.#chunk = this.#own(body.subarray(taken));
    if (this.#left > 0 && !taker.isFull) return;
    this.#taker = undefined;
    // The socket has to know now where it writes when it is told to go on: most fill the same memory again.
    const isStopped = this.#chunk === undefined && !(this.#socket instanceof TLSSocket);
    this.#again = isStopped && taker instanceof FillingTaker ? taker.into : undefined;
    taker.end();
  }

  /** What waits must not lie in memory that was lent: its owner has it back when the next call is over. */
  #own(rest: Bytes): Bytes {
    return rest.buffer === this.#buffer.buffer ? rest : rest.slice();
  }

  /** The connection is over. */
  fail(error: unknown): void {
    this.#isAlive = false;
    this.#failure ??= error ?? Object.assign(new Error("connection closed"), { code: "ECONNRESET" });
    this.#onHead?.("stale");
    this.#onHead = undefined;
    this.#onChunk?.();
    this.#taker?.end(this.#failure);
    this.#taker = undefined;
  }

  /** The part of `bytes` behind the head; undefined while the head is incomplete. */
  #receiveHead(bytes: Bytes): Bytes | undefined {
    const found = this.#heads.add(bytes);
    if (found === undefined) return undefined;
    const { head, bodyStart } = found;
    const tell = this.#onHead;
    this.#onHead = undefined;
    if (head === undefined) {
      this.destroy();
      tell?.("unusual");
      return new Uint8Array(0);
    }
    this.#left = head.byteLength;
    this.#toCome = head.byteLength;
    tell?.(head);
    return bytes.subarray(bodyStart);
  }

  #response(head: ReplyHead, url: string, end: (state: "reusable" | "spent") => void): HttpResponse {
    let isOver = false;
    const finish = (state: "reusable" | "spent"): void => {
      if (isOver) return;
      isOver = true;
      // The next reply must not find what nobody has taken of this one.
      this.#chunk = undefined;
      this.#late = [];
      this.#again = undefined;
      end(state);
    };
    const read = async function* (this: DirectConnection): AsyncGenerator<Bytes> {
      try {
        while (this.#left > 0) {
          const chunk = await this.#nextChunk(url);
          this.#left -= chunk.byteLength;
          yield chunk;
          this.#chunk = this.#late.shift();
          if (this.#left > 0) this.#socket.resume();
        }
        finish("reusable");
      } finally {
        finish("spent");
      }
    };
    const whole = async (makeTaker: (end: Taker["end"]) => Taker): Promise<void> => {
      try {
        await this.#each(makeTaker);
        if (this.#left === 0) finish("reusable");
      } catch (error) {
        finish("spent");
        throw this.#failure === undefined ? error : transportError(error, parseHttpUrl(url).label);
      }
    };
    if (head.byteLength === 0) finish("reusable");
    return {
      status: head.status,
      headers: { get: (name) => head.headers.get(name.toLowerCase()) ?? null },
      url,
      body: read.call(this),
      each: (take) => whole(takerOfAll(take)),
      fill: (into, onBytes) => whole((done) => new FillingTaker(into, onBytes, done)),
      cancel: () => finish(this.#left === 0 ? "reusable" : "spent"),
    };
  }

  /** The whole body, without a promise for every piece of it. */
  #each(makeTaker: (end: Taker["end"]) => Taker): Promise<void> {
    return new Promise((resolve, reject) => {
      if (this.#left === 0) return resolve();
      if (this.#failure !== undefined && this.#chunk === undefined) return reject(this.#failure);
      this.#taker = makeTaker((failure) => (failure === undefined ? resolve() : reject(failure)));
      for (let early = this.#chunk; early !== undefined && this.#taker !== undefined; early = this.#chunk) {
        this.#chunk = undefined;
        this.#hand(early, this.#taker);
        this.#chunk ??= this.#late.shift();
      }
      if (this.#taker !== undefined) this.#socket.resume();
    });
  }

  async #nextChunk(url: string): Promise<Bytes> {
    if (this.#chunk === undefined && this.#failure === undefined) {
      await new Promise<void>((resolve) => {
        this.#onChunk = resolve;
      });
      this.#onChunk = undefined;
    }
    if (this.#chunk !== undefined) return this.#chunk;
    throw transportError(this.#failure, parseHttpUrl(url).label);
  }
}
