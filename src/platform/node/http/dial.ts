import { connect as connectPlain, isIP, type LookupFunction, type OnReadOpts, type Socket } from "node:net";
import { type ConnectionOptions, connect as connectTls } from "node:tls";
import { encodeUtf8 } from "../../../base/text.ts";
import { ProxyRefusal } from "./errors.ts";
import { ipv6Groups } from "./private-address.ts";
import { credentialsOf } from "./proxy-environment.ts";
import { MalformedReply, ReplyHeads } from "./reply.ts";

/** Where a connection goes. */
export interface Route {
  /** The server: only its scheme, host and port count. */
  readonly url: URL;
  readonly proxy?: URL | undefined;
  /** Connect to one of these addresses, which were checked, even if the name resolves to others by now. */
  readonly addresses?: readonly string[] | undefined;
}

export interface DialOptions {
  /** The memory that the socket reads into, and its callback. */
  readonly onread: OnReadOpts;
  readonly signal: AbortSignal;
  /** Longest wait for all steps before the first request can be sent. */
  readonly timeoutMs: number;
}

/** "events" if the socket could not get memory to read into: its bytes then come as "data" events. */
export interface Dialled {
  readonly socket: Socket;
  readonly reading: "onread" | "events";
}

/** True if requests go to the proxy itself, which forwards them. Many proxies allow tunnels only to port 443. */
export function isForwarded({ url, proxy }: Route): boolean {
  return proxy !== undefined && proxy.protocol !== "socks5:" && url.protocol === "http:";
}

/** Connects to a server, through a proxy and with TLS as the route requires. */
export async function dial(route: Route, { onread, signal, timeoutMs }: DialOptions): Promise<Dialled> {
  signal.throwIfAborted();
  const stop = new AbortController();
  const abort = (): void => stop.abort(signal.reason);
  signal.addEventListener("abort", abort, { once: true });
  const late = (): void => stop.abort(Object.assign(new Error("no connection in time"), { code: "ETIMEDOUT" }));
  const timer = setTimeout(late, timeoutMs);
  try {
    return await connect(route, onread, stop.signal);
  } finally {
    clearTimeout(timer);
    signal.removeEventListener("abort", abort);
  }
}

async function connect(route: Route, onread: OnReadOpts, signal: AbortSignal): Promise<Dialled> {
  const { url, proxy, addresses } = route;
  if (proxy === undefined) return { socket: await open(url, { signal, onread, addresses }), reading: "onread" };
  if (isForwarded(route)) return { socket: await open(proxy, { signal, onread }), reading: "onread" };
  const tunnel = await open(proxy, { signal });
  try {
    if (proxy.protocol === "socks5:") await askSocks(tunnel, route, signal);
    else await askTunnel(tunnel, route, signal);
    if (url.protocol !== "https:") return { socket: tunnel, reading: "events" };
    return {
      socket: await ready(connectTls({ ...tlsOptions(url), socket: tunnel }), "secureConnect", signal),
      reading: "events",
    };
  } catch (error) {
    tunnel.destroy();
    throw error;
  }
}

interface OpenOptions {
  readonly signal: AbortSignal;
  readonly onread?: OnReadOpts;
  readonly addresses?: readonly string[] | undefined;
}

/** A direct connection to the host of a URL, with TLS for https. */
function open(url: URL, { signal, onread, addresses }: OpenOptions): Promise<Socket> {
  const place = {
    host: bareHost(url),
    port: portOf(url),
    ...(onread === undefined ? {} : { onread }),
    ...(addresses === undefined ? {} : { lookup: answerWith(addresses) }),
  };
  if (url.protocol !== "https:") return ready(connectPlain({ ...place, noDelay: true }), "connect", signal);
  // Node documents onread for TLS as well; its types have it only for plain sockets.
  const secure: ConnectionOptions & { readonly onread?: OnReadOpts } = { ...tlsOptions(url), ...place };
  return ready(connectTls(secure), "secureConnect", signal);
}

function tlsOptions(url: URL): ConnectionOptions {
  const host = bareHost(url);
  // A certificate for an address is checked against the address, which must not be sent as a server name (RFC 6066 §3).
  return { ...(isIP(host) === 0 ? { servername: host } : { host }), ALPNProtocols: ["http/1.1"] };
}

function answerWith(addresses: readonly string[]): LookupFunction {
  const entries = addresses.map((address) => ({ address, family: isIP(address) }));
  return (hostname, options, callback) => {
    const [first] = entries;
    if (first === undefined) callback(Object.assign(new Error(`no address of ${hostname}`), { code: "ENOTFOUND" }), "");
    else if (options.all === true) callback(null, entries);
    else callback(null, first.address, first.family);
  };
}

/** Resolves on the event; if the socket ends first, for any reason, that is a failure. */
function ready<S extends Socket>(socket: S, event: "connect" | "secureConnect", signal: AbortSignal): Promise<S> {
  return new Promise((resolve, reject) => {
    const settle = (): void => {
      signal.removeEventListener("abort", abort);
      socket.off("close", close);
      socket.off("error", fail);
    };
    const fail = (error: unknown): void => {
      settle();
      // Later errors of a dropped socket do not matter, but must not end the process.
      socket.on("error", () => undefined);
      socket.destroy();
      reject(error);
    };
    const abort = (): void => fail(signal.reason);
    const close = (): void => fail(Object.assign(new Error("connection closed"), { code: "ECONNRESET" }));
    socket.once("error", fail);
    socket.once("close", close);
    socket.once(event, () => {
      settle();
      resolve(socket);
    });
    signal.addEventListener("abort", abort, { once: true });
    if (signal.aborted) abort();
  });
}

/** Asks an HTTP proxy for a tunnel (RFC 9110 §9.3.6). */
async function askTunnel(socket: Socket, { url, proxy }: Route, signal: AbortSignal): Promise<void> {
  const place = `${url.hostname}:${portOf(url)}`;
  const authorization = proxy === undefined ? undefined : proxyAuthorization(proxy);
  const extra = authorization === undefined ? "" : `proxy-authorization: ${authorization}\r\n`;
  socket.write(`CONNECT ${place} HTTP/1.1\r\nhost: ${place}\r\nuser-agent: tare\r\n${extra}\r\n`);
  const heads = new ReplyHeads();
  let given = 0;
  const { status, rest } = await receive(socket, signal, (all) => {
    const found = heads.add(new Uint8Array(all.subarray(given)));
    const before = given;
    given = all.byteLength;
    // Interim replies may come first.
    if (found === undefined || found.head.status < 200) return undefined;
    return { status: found.head.status, rest: all.byteLength - before - found.end };
  });
  if (status >= 300) throw new ProxyRefusal(`the proxy answers ${status}`);
  if (rest > 0) throw new MalformedReply("bytes came after the proxy's answer");
}

/** Proxy-Authorization for the user and password of a proxy's URL. */
export function proxyAuthorization(proxy: URL): string | undefined {
  const { user, secret } = credentials(proxy);
  if (user === "" && secret === "") return undefined;
  return `Basic ${Buffer.from(`${user}:${secret}`).toString("base64")}`;
}

/** Routes from the environment were checked; others may have any URL. */
function credentials(proxy: URL): { readonly user: string; readonly secret: string } {
  const found = credentialsOf(proxy);
  if (found === undefined) throw new ProxyRefusal("the proxy's user or password is not well encoded");
  return found;
}

/** Asks a SOCKS5 proxy for a connection (RFC 1928), with user and password if its URL has them (RFC 1929). */
async function askSocks(socket: Socket, { url, proxy }: Route, signal: AbortSignal): Promise<void> {
  const { user, secret } = proxy === undefined ? { user: "", secret: "" } : credentials(proxy);
  const isNamed = user !== "" || secret !== "";
  socket.write(Uint8Array.from(isNamed ? [5, 2, 0, 2] : [5, 1, 0]));
  const answer = (length: number): Promise<Buffer> =>
    receive(socket, signal, (all) => (all.byteLength < length ? undefined : all));
  const method = (await answer(2))[1];
  if (method === 2 && isNamed) {
    socket.write(Uint8Array.from([1, ...prefixed(user), ...prefixed(secret)]));
    if ((await answer(2))[1] !== 0) throw new ProxyRefusal("the proxy refuses the user or the password");
  } else if (method !== 0) throw new ProxyRefusal("the proxy wants a user and a password");
  const port = portOf(url);
  socket.write(Uint8Array.from([5, 1, 0, ...socksAddress(bareHost(url)), port >> 8, port & 255]));
  const reply = await receive(socket, signal, (all) => {
    const address = { 1: 4, 4: 16, 3: 1 + (all[4] ?? 0) }[all[3] ?? 0];
    if (all.byteLength >= 2 && all[1] !== 0) return all;
    return all.byteLength < 5 || all.byteLength < 6 + (address ?? 0) ? undefined : all;
  });
  if (reply[1] !== 0) throw new ProxyRefusal(`the proxy cannot connect (SOCKS answer ${reply[1]})`);
}

/** RFC 1928 §5: the address type, and the address. */
function socksAddress(host: string): number[] {
  if (isIP(host) === 4) return [1, ...host.split(".").map(Number)];
  if (isIP(host) === 6) return [4, ...ipv6Groups(host).flatMap((group) => [group >> 8, group & 255])];
  return [3, ...prefixed(host)];
}

function prefixed(text: string): number[] {
  const bytes = encodeUtf8(text);
  if (bytes.byteLength > 255) throw new ProxyRefusal("a name is too long for the proxy");
  return [bytes.byteLength, ...bytes];
}

/** Most bytes of a proxy's answer. */
const MAX_ANSWER_BYTES = 64 << 10;

/** Collects the answer of a proxy until `understand` returns a result. */
function receive<T>(socket: Socket, signal: AbortSignal, understand: (all: Buffer) => T | undefined): Promise<T> {
  return new Promise((resolve, reject) => {
    let all = Buffer.alloc(0);
    const settle = (act: () => void): void => {
      socket.pause();
      socket.off("data", take);
      socket.off("error", fail);
      socket.off("close", close);
      signal.removeEventListener("abort", abort);
      act();
    };
    const fail = (error: unknown): void => settle(() => reject(error));
    const abort = (): void => fail(signal.reason);
    const close = (): void => fail(new ProxyRefusal("the proxy closed the connection"));
    const take = (piece: Buffer): void => {
      all = Buffer.concat([all, piece]);
      try {
        const found = all.byteLength > MAX_ANSWER_BYTES ? undefined : understand(all);
        if (all.byteLength > MAX_ANSWER_BYTES) fail(new MalformedReply("the proxy's answer is too long"));
        else if (found !== undefined) settle(() => resolve(found));
      } catch (error) {
        fail(error);
      }
    };
    socket.on("data", take);
    socket.on("error", fail);
    socket.on("close", close);
    signal.addEventListener("abort", abort, { once: true });
    socket.resume();
    if (signal.aborted) abort();
  });
}

function bareHost({ hostname }: URL): string {
  return hostname.replace(/^\[|\]$/g, "");
}

function portOf({ port, protocol }: URL): number {
  if (port !== "") return Number(port);
  return protocol === "https:" ? 443 : protocol === "socks5:" ? 1080 : 80;
}
