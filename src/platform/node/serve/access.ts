import { createHash, timingSafeEqual } from "node:crypto";
import type { IncomingHttpHeaders, OutgoingHttpHeaders } from "node:http";
import { isIP } from "node:net";
import { hostname } from "node:os";
import type { Bytes } from "../../../base/bytes.ts";
import { UsageError } from "../../../base/errors.ts";
import { isUtf8 } from "../../../base/text.ts";
import { ALLOWED_METHODS, type Reply, textReply } from "./reply.ts";

/** Which pages of other origins may read the served files: none, the listed ones, or all. */
export type CorsPolicy = "same-origin" | "any" | ReadonlySet<string>;

/** Reads the values of `--cors`: origins, or a star. */
export function parseCors(values: readonly string[]): CorsPolicy {
  if (values.length === 0) return "same-origin";
  if (values.includes("*")) return "any";
  return new Set(values.map(parseCorsOrigin));
}

function parseCorsOrigin(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  const isOrigin = url !== undefined && /^https?:$/.test(url.protocol) && url.pathname === "/" && url.search === "";
  if (isOrigin && url.username === "" && url.hash === "") return url.origin;
  const message = "Cannot let pages in: must be an origin such as https://host:8443, or *";
  throw new UsageError("usage/serve.cors", message, { source: "serve", path: "cors" });
}

const EXPOSED = "Accept-Ranges, Content-Length, Content-Range, ETag, Last-Modified, Retry-After, Location";
const REQUESTED =
  "Range, If-Range, If-Match, If-None-Match, If-Modified-Since, If-Unmodified-Since, Accept, Cache-Control";
/** One day; browsers cut this to their own limit (Chromium allows two hours). */
const PREFLIGHT_SECONDS = 86_400;

/**
 * Decides who may read. A page that is open in the same browser can send requests to this server. Browsers keep the
 * replies from it unless CORS allows them, but that protects only as long as the page cannot use our host name.
 */
export class Access {
  readonly #cors: CorsPolicy;
  readonly #hosts: ReadonlySet<string>;

  constructor(cors: CorsPolicy, host?: string) {
    this.#cors = cors;
    const origins = typeof cors === "string" ? [] : [...cors].map((origin) => new URL(origin).hostname);
    const machine = hostname().toLowerCase();
    this.#hosts = new Set(["localhost", machine, `${machine}.local`, host?.toLowerCase() ?? "localhost", ...origins]);
  }

  /**
   * True for a Host that a browser sends when it was given an address of this machine. Any other name may belong to the
   * page, bound to this machine after the page was loaded (DNS rebinding). An address in digits cannot be bound. If
   * every page may read, there is nothing to guard.
   */
  knowsHost(host: string | undefined): boolean {
    if (host === undefined || this.#cors === "any") return true; // only HTTP/1.0 has no Host, and no browser speaks it
    const match = /^(?:\[([0-9a-f:.]+)\]|([^:[\]]+))(?::\d{1,5})?$/i.exec(host);
    if (match === null) return false;
    if (match[1] !== undefined) return isIP(match[1]) === 6;
    const name = (match[2] ?? "").toLowerCase().replace(/\.$/, "");
    return isIP(name) === 4 || this.#hosts.has(name) || name.endsWith(".localhost");
  }

  /** The headers that let the requesting page read the reply, and keep all other pages out. */
  headersFor({ origin }: IncomingHttpHeaders): OutgoingHttpHeaders {
    const allowed = this.#allowed(origin);
    // Pages that isolate themselves (COEP) load only resources that allow it. Other pages must not run these files as
    // scripts.
    const policy = allowed === undefined ? "same-origin" : "cross-origin";
    return {
      ...(this.#cors === "any" || this.#cors === "same-origin" ? {} : { vary: "Origin" }),
      ...(allowed === undefined
        ? {}
        : { "access-control-allow-origin": allowed, "access-control-expose-headers": EXPOSED }),
      "cross-origin-resource-policy": policy,
    };
  }

  /** The headers of an answer to OPTIONS, in addition to those of every reply. `login`: pages must send a password. */
  preflightHeaders(request: IncomingHttpHeaders, login?: Login): OutgoingHttpHeaders {
    if (this.#allowed(request.origin) === undefined) return {};
    // A page of the public web asks before it may reach this machine (Private Network Access).
    const isPrivate = request["access-control-request-private-network"] === "true";
    return {
      "access-control-allow-methods": ALLOWED_METHODS,
      "access-control-allow-headers": login === undefined ? REQUESTED : `${REQUESTED}, Authorization`,
      "access-control-max-age": String(PREFLIGHT_SECONDS),
      ...(isPrivate ? { "access-control-allow-private-network": "true" } : {}),
    };
  }

  #allowed(origin: string | undefined): string | undefined {
    if (this.#cors === "any") return "*";
    return this.#cors !== "same-origin" && origin !== undefined && this.#cors.has(origin) ? origin : undefined;
  }
}

/** Longest file with a user and a password. */
export const MAX_LOGIN_BYTES = 4096;

/** The one user who may read, as Basic authentication sends a user (RFC 7617): only a digest of both stays in memory. */
export class Login {
  readonly #digest: Buffer;

  /** `line` is `user:password`, without a newline at the end. */
  private constructor(line: Bytes) {
    this.#digest = digestOf(line);
  }

  /** Reads the content of the file of --auth-file, and wipes it. */
  static parse(content: Bytes, source: string): Login {
    try {
      const line = withoutNewline(content);
      const colon = line.indexOf(COLON);
      // Control characters cannot be sent in a user or password (RFC 7617, section 2).
      const isLine = isUtf8(line) && line.every((byte) => byte >= 0x20 && byte !== 0x7f);
      if (isLine && colon > 0 && colon < line.byteLength - 1) return new Login(line);
    } finally {
      content.fill(0);
    }
    const message = `Cannot use "${source}" as the option authFile: must be one line, user:password`;
    throw new UsageError("usage/serve.auth-file", message, { source });
  }

  /** Takes as long whatever is wrong with it. */
  admits({ authorization = "" }: IncomingHttpHeaders): boolean {
    const [, credentials = ""] = /^basic +([a-z0-9+/]+={0,2}) *$/i.exec(authorization) ?? [];
    return timingSafeEqual(digestOf(Buffer.from(credentials, "base64")), this.#digest);
  }

  /** RFC 9110 §15.5.2. */
  get refusal(): Reply {
    return textReply(401, "Cannot answer without user and password", {
      "www-authenticate": 'Basic realm="tare", charset="UTF-8"',
    });
  }
}

const COLON = 0x3a;

function withoutNewline(bytes: Bytes): Bytes {
  const end = bytes.at(-1) === 0x0a ? (bytes.at(-2) === 0x0d ? -2 : -1) : undefined;
  return bytes.subarray(0, end);
}

/** Digests have one length, so that comparing them tells nothing of the length of a secret. */
function digestOf(secret: Uint8Array | string): Buffer {
  return createHash("sha256").update(secret).digest();
}

/** Compares a secret with what a request says it is, in the same time whatever differs. */
export function isSecret(found: string, secret: string): boolean {
  return timingSafeEqual(digestOf(found), digestOf(secret));
}

/** True for an address that only this machine reaches. A name other than localhost may lead anywhere. */
export function isLoopback(host: string): boolean {
  if (isIP(host) === 6) return new URL(`http://[${host}]`).hostname === "[::1]";
  return isIP(host) === 4 ? host.startsWith("127.") : host.toLowerCase() === "localhost";
}
