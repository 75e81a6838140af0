import type { IncomingHttpHeaders, OutgoingHttpHeaders } from "node:http";
import { isIP } from "node:net";
import { hostname } from "node:os";
import { UsageError } from "../../../base/errors.ts";
import { ALLOWED_METHODS } from "./reply.ts";

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

  /** The headers of an answer to OPTIONS, in addition to those of every reply. */
  preflightHeaders(request: IncomingHttpHeaders): OutgoingHttpHeaders {
    if (this.#allowed(request.origin) === undefined) return {};
    // A page of the public web asks before it may reach this machine (Private Network Access).
    const isPrivate = request["access-control-request-private-network"] === "true";
    return {
      "access-control-allow-methods": ALLOWED_METHODS,
      "access-control-allow-headers": REQUESTED,
      "access-control-max-age": String(PREFLIGHT_SECONDS),
      ...(isPrivate ? { "access-control-allow-private-network": "true" } : {}),
    };
  }

  #allowed(origin: string | undefined): string | undefined {
    if (this.#cors === "any") return "*";
    return this.#cors !== "same-origin" && origin !== undefined && this.#cors.has(origin) ? origin : undefined;
  }
}
