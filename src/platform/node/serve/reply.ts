import type { OutgoingHttpHeaders } from "node:http";
import type { Bytes } from "../../../base/bytes.ts";
import { encodeUtf8 } from "../../../base/text.ts";
import { bodyLength, type FileBody } from "./file-body.ts";

/** A reply before it is sent. Content-Length is added from the body. */
export interface Reply {
  readonly status: number;
  readonly headers: OutgoingHttpHeaders;
  readonly body: Bytes | FileBody | StreamedBody | undefined;
}

/** A body whose length is not known before it was made. */
export interface StreamedBody {
  readonly pieces: Iterable<Bytes>;
}

export const ALLOWED_METHODS = "GET, HEAD, OPTIONS";

/** Sent with every reply; Access adds the headers that say who may read it. */
export const COMMON_HEADERS: OutgoingHttpHeaders = {
  "x-content-type-options": "nosniff",
  "referrer-policy": "no-referrer",
};

/** A reply whose body is one sentence for a person. */
export function textReply(status: number, text: string, headers: OutgoingHttpHeaders = {}): Reply {
  return {
    status,
    headers: { "content-type": "text/plain; charset=utf-8", ...headers },
    body: encodeUtf8(`${text}\n`),
  };
}

/** Undefined if the status has no content at all (RFC 9110 §8.6, §15.4.5). */
export function contentLength({ status, body }: Reply): number | undefined {
  if (body === undefined || status === 204 || status === 304 || "pieces" in body) return undefined;
  return "parts" in body ? bodyLength(body) : body.byteLength;
}
