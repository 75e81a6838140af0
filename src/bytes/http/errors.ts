import { SourceError } from "../../base/errors.ts";
import { parseRetryAfter } from "./headers.ts";
import { type HttpResponse, LEAST_RATE } from "./transport.ts";

/** The error for a reply that does not hold the bytes we asked for. The body has not been read. */
export function statusError({ status, headers }: HttpResponse, label: string): SourceError {
  const at = { source: label };
  if (status === 404 || status === 410) {
    return new SourceError("source/not-found", `Cannot open "${label}": the server has no such file (${status})`, at);
  }
  if (status === 401 || status === 403) {
    const message = `Cannot open "${label}": the server refuses access (${status})`;
    return new SourceError("source/http.forbidden", message, at, {
      hint: "Set HF_TOKEN, or pass credentials with the option headers; on a hub, accept the model's terms first",
    });
  }
  if (status === 429 || status === 408 || status >= 500) {
    const retryAfter = parseRetryAfter(headers.get("retry-after"), Date.now());
    const message = `Cannot read "${label}": the server is busy or failing (${status})`;
    return new SourceError("source/http.busy", message, at, {
      hint: "Try again later",
      transient: true,
      ...(retryAfter === undefined ? {} : { retryAfter }),
    });
  }
  return new SourceError("source/http.status", `Cannot read "${label}": the server answers ${status}`, at);
}

/** A transfer that broke or could not begin. */
export function networkError(label: string, cause: unknown): SourceError {
  const message = `Cannot read "${label}": the connection failed`;
  return new SourceError(
    "source/http.network",
    message,
    { source: label },
    {
      hint: "Check the network; in a browser the server must also allow this page (CORS)",
      cause,
      transient: true,
    },
  );
}

export function timeoutError(label: string, milliseconds: number): SourceError {
  const message = `Cannot read "${label}": nothing arrived for ${milliseconds / 1000} s`;
  return new SourceError("source/http.timeout", message, { source: label }, { transient: true });
}

/** Bytes arrived now and then, but fewer than any working line delivers. */
export function slowError(label: string): SourceError {
  const message = `Cannot read "${label}": it comes slower than ${LEAST_RATE} bytes a second`;
  return new SourceError(
    "source/http.slow",
    message,
    { source: label },
    { hint: "The server or something in between holds the line without using it", transient: true },
  );
}

/** `what` completes the sentence: "Content-Range must be …, found …". */
export function rangeError(label: string, what: string, offset?: number): SourceError {
  const at = { source: label, ...(offset === undefined ? {} : { offset }) };
  return new SourceError("source/http.range", `Cannot use the reply of "${label}": ${what}`, at, {
    hint: "The server or a proxy in between mishandles ranges",
    transient: true,
  });
}

/** A body with more or fewer bytes than its headers promise. */
export function lengthError(label: string, wanted: number, found: string): SourceError {
  const message = `Cannot use the reply of "${label}": the body must have ${wanted} bytes, found ${found}`;
  return new SourceError("source/http.length", message, { source: label }, { transient: true });
}

export function encodingError(label: string, encoding: string): SourceError {
  const message = `Cannot use the reply of "${label}": it is compressed (${JSON.stringify(encoding)}), though plain bytes were asked for`;
  return new SourceError(
    "source/http.encoding",
    message,
    { source: label },
    {
      hint: "Turn off compression for this file on the server, or download it first",
    },
  );
}

/** Two replies come from two versions of the file. `start` tells whether bytes of the first were handed out. */
export function changedError(label: string, how: string, start: "untouched" | "begun"): SourceError {
  const message = `Cannot go on reading "${label}": the file on the server changed, ${how}`;
  return new SourceError(
    "source/http.changed",
    message,
    { source: label },
    {
      hint:
        start === "untouched"
          ? "Only the first bytes had been read: open it again"
          : "What was read so far belongs to the older version: open it again and start over",
    },
  );
}

/** The server's file is not the one that an index describes. */
export function pinnedError(label: string, wanted: number, found: number | string): SourceError {
  const message = `Cannot use "${label}": it must have ${wanted} bytes by its index, the server has ${found}`;
  return new SourceError(
    "source/http.pinned",
    message,
    { source: label },
    {
      hint: "Index and file are from different versions: publish them together, or wait until all servers have both",
    },
  );
}
