import { HttpConnection } from "./connection.ts";
import { isForwarded, type Route } from "./dial.ts";

/** How long a connection may wait for its next request; many servers close it after five seconds. */
const IDLE_MS = 4000;
/** The limit, even if a server says that it keeps connections for longer. */
const MOST_IDLE_MS = 60_000;
/** A server may close a connection while a request is on its way, so do not use the last second. */
const MARGIN_MS = 1000;
/**
 * How long a request waits for a turn when all connections are busy. Then it gets one more: some of them may belong to
 * readers that stopped to wait for the bytes of this very request.
 */
const TURN_MS = 2000;

/** Bytes that one connection reads at once, and the limit for all of them together. */
const BUFFER_BYTES = 512 << 10;
const ALL_BUFFERS_BYTES = 16 << 20;

export interface PoolOptions {
  /** Connections to one server at a time. */
  readonly connections: number;
  readonly timeoutMs: number;
}

/** A connection and the callback that returns it. */
export interface Lease {
  readonly connection: HttpConnection;
  /** "kept" if it has served before: the server may have closed it meanwhile. */
  readonly age: "new" | "kept";
  readonly release: (state: "idle" | "gone", keepAliveMs: number | undefined) => void;
}

interface Idle {
  readonly connection: HttpConnection;
  readonly timer: ReturnType<typeof setTimeout>;
}

/** The connections of one transport. Idle ones end by themselves; neither they nor their timers keep the process up. */
export class ConnectionPool {
  readonly #options: PoolOptions;
  readonly #bufferBytes: number;
  readonly #idle = new Map<string, Idle[]>();
  readonly #busy = new Map<string, number>();
  readonly #queues = new Map<string, (() => void)[]>();
  #isClosed = false;

  constructor(options: PoolOptions) {
    this.#options = options;
    const share = Math.floor(ALL_BUFFERS_BYTES / options.connections);
    this.#bufferBytes = Math.min(BUFFER_BYTES, Math.max(64 << 10, share));
  }

  /** A connection for exclusive use. "new" asks for one that has not served before. */
  async lease(route: Route, age: "any" | "new", signal: AbortSignal): Promise<Lease> {
    const key = keyOf(route);
    await this.#turn(key, signal);
    try {
      // The signal may have fired after the request was woken: then the turn goes to the next one.
      signal.throwIfAborted();
      const kept = age === "new" ? undefined : this.#takeIdle(key, route.addresses);
      const connection = kept ?? (await this.#dial(route, signal));
      return {
        connection,
        age: kept === undefined ? "new" : "kept",
        release: (state, keepAliveMs) => {
          if (state === "idle" && !this.#isClosed) this.#keep(key, connection, keepAliveMs);
          else connection.destroy();
          this.#leave(key);
        },
      };
    } catch (error) {
      this.#leave(key);
      throw error;
    }
  }

  /** Ends idle connections and keeps none from now on; requests under way continue. */
  close(): void {
    this.#isClosed = true;
    for (const { connection, timer } of [...this.#idle.values()].flat()) {
      clearTimeout(timer);
      connection.destroy();
    }
    this.#idle.clear();
  }

  async #dial(route: Route, signal: AbortSignal): Promise<HttpConnection> {
    const { timeoutMs } = this.#options;
    const connection = await HttpConnection.open(route, { bufferBytes: this.#bufferBytes, signal, timeoutMs });
    return connection;
  }

  #takeIdle(key: string, addresses: readonly string[] | undefined): HttpConnection | undefined {
    const idle = this.#idle.get(key) ?? [];
    for (let i = idle.length - 1; i >= 0; i--) {
      const { connection, timer } = idle[i] as Idle;
      // Connected to an address that was not checked: keep it for requests without that restriction.
      if (connection.isAlive && addresses !== undefined && !addresses.includes(connection.address ?? "")) continue;
      idle.splice(i, 1);
      clearTimeout(timer);
      if (connection.isAlive) return connection;
      connection.destroy();
    }
    return undefined;
  }

  #keep(key: string, connection: HttpConnection, keepAliveMs: number | undefined): void {
    const idle = (this.#idle.get(key) ?? []).filter((other) => other.connection.isAlive);
    const told = keepAliveMs === undefined ? IDLE_MS : Math.min(keepAliveMs - MARGIN_MS, MOST_IDLE_MS);
    if (idle.length >= this.#options.connections || told <= 0) {
      connection.destroy();
      return;
    }
    connection.rest();
    const timer = setTimeout(() => {
      this.#idle.set(
        key,
        (this.#idle.get(key) ?? []).filter((other) => other.connection !== connection),
      );
      connection.destroy();
    }, told);
    timer.unref();
    this.#idle.set(key, [...idle, { connection, timer }]);
  }

  /** Waits while the limit of busy connections is reached, then counts as one of them. */
  async #turn(key: string, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    const enter = (): void => void this.#busy.set(key, (this.#busy.get(key) ?? 0) + 1);
    if ((this.#busy.get(key) ?? 0) < this.#options.connections) return enter();
    const queue = this.#queues.get(key) ?? [];
    this.#queues.set(key, queue);
    await new Promise<void>((resolve, reject) => {
      const settle = (): void => {
        clearTimeout(timer);
        signal.removeEventListener("abort", abort);
        const at = queue.indexOf(go);
        if (at >= 0) queue.splice(at, 1);
      };
      // Count here, not when the promise settles: meanwhile another request could take the place.
      const go = (): void => {
        settle();
        enter();
        resolve();
      };
      const abort = (): void => {
        settle();
        reject(signal.reason);
      };
      const timer = setTimeout(go, TURN_MS);
      signal.addEventListener("abort", abort, { once: true });
      queue.push(go);
    });
  }

  #leave(key: string): void {
    this.#busy.set(key, (this.#busy.get(key) ?? 1) - 1);
    this.#queues.get(key)?.[0]?.();
  }
}

/** Connections with the same key can serve the same requests. */
function keyOf(route: Route): string {
  const { url, proxy } = route;
  if (proxy === undefined) return url.origin;
  return isForwarded(route) ? `via ${proxy.href}` : `${url.origin} through ${proxy.href}`;
}
