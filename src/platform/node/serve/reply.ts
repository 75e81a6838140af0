import type { OutgoingHttpHeaders } from "node:http";
import type { Bytes } from "../../../base/bytes.ts";
import { encodeUtf8 } from "../../../base/text.ts";
import { bodyLength, type FileBody } from "./file-body.ts";

/** A reply before it is sent. Content-Length is added from the body. */
export interface Reply {
  readonly status: number;
  readonly headers: OutgoingHttpHeaders;
  readonly body: Bytes | FileBody | undefined;
}

export const ALLOWED_METHODS = "GET, HEAD, OPTIONS";

/** Sent with every reply: any page may read the files, and see the headers that reading them by ranges needs. */
export const COMMON_HEADERS: OutgoingHttpHeaders = {
  "access-control-allow-origin": "*",
  "access-control-expose-headers":
    "Accept-Ranges, Content-Length, Content-Range, ETag, Last-Modified, Retry-After, Location",
  // Pages that isolate themselves (COEP) load only what says this.
  "cross-origin-resource-policy": "cross-origin",
  "x-content-type-options": "nosniff",
  "referrer-policy": "no-referrer",
};

/** A day; browsers cut it to what they allow (Chromium two hours). */
const PREFLIGHT_SECONDS = 86_400;

/** The answer to OPTIONS, a CORS preflight or not. */
export function preflightReply(asksForPrivateNetwork: "asked" | "not asked"): Reply {
  return {
    status: 204,
    headers: {
      allow: ALLOWED_METHODS,
      "access-control-allow-methods": ALLOWED_METHODS,
      "access-control-allow-headers":
        "Range, If-Range, If-Match, If-None-Match, If-Modified-Since, If-Unmodified-Since, Accept, Cache-Control",
      "access-control-max-age": String(PREFLIGHT_SECONDS),
      // A page of the public web asks before it may reach this machine (Private Network Access).
      ...(asksForPrivateNetwork === "asked" ? { "access-control-allow-private-network": "true" } : {}),
    },
    body: undefined,
  };
}

/** A reply whose body is one sentence for a person. */
export function textReply(status: number, text: string, headers: OutgoingHttpHeaders = {}): Reply {
  return {
    status,
    headers: { "content-type": "text/plain; charset=utf-8", ...headers },
    body: encodeUtf8(`${text}\n`),
  };
}

/** Undefined where the status has no content at all (RFC 9110 §8.6, §15.4.5). */
export function contentLength({ status, body }: Reply): number | undefined {
  if (body === undefined || status === 204 || status === 304) return undefined;
  return "parts" in body ? bodyLength(body) : body.byteLength;
}
