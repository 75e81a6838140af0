import { SourceError, type TareError } from "../../base/errors.ts";
import { parseRetryAfter } from "../http/headers.ts";
import type { HttpRequest, HttpResponse, HttpTransport } from "../http/transport.ts";
import { parseHttpUrl } from "../http/url.ts";
import { childText, parseXml } from "./documents.ts";

/** The answer of an object store that refuses a request. */
export interface S3Refusal {
  readonly status: number;
  /** "NoSuchKey"; empty if the reply was not an error document. */
  readonly code: string;
  readonly message: string;
  /** The region of the bucket according to the store. */
  readonly region: string | undefined;
  /** The store's clock, from its Date header. */
  readonly date: number | undefined;
  readonly retryAfter: number | undefined;
}

/** An error document has a few hundred bytes; longer replies are cut here. */
const MAX_REFUSAL_BYTES = 64 << 10;
const MAX_SHOWN = 200;

/** Reads the rest of an unsuccessful reply; `keyId` is not repeated. */
export async function readRefusal(response: HttpResponse, keyId?: string): Promise<S3Refusal> {
  const { status, headers } = response;
  const text = await readText(response);
  // Some stores let users choose the id of the key: it may be an ordinary word.
  const document = parseXml(keyId === undefined || keyId === "" ? text : text.replaceAll(keyId, "…"));
  const error = document?.name === "Error" ? document : undefined;
  const date = Date.parse(headers.get("date") ?? "");
  return {
    status,
    code: childText(error, "Code") ?? "",
    message: childText(error, "Message") ?? "",
    region: headers.get("x-amz-bucket-region") ?? childText(error, "Region"),
    date: Number.isNaN(date) ? undefined : date,
    retryAfter: parseRetryAfter(headers.get("retry-after"), Date.now()),
  };
}

/** Undefined if a 200 holds a document other than an error: S3 reports late failures like this. */
export function refusalIn(text: string, status: number): S3Refusal | undefined {
  const document = parseXml(text);
  if (document?.name !== "Error") return undefined;
  const code = childText(document, "Code") ?? "";
  const message = childText(document, "Message") ?? "";
  return { status, code, message, region: undefined, date: undefined, retryAfter: undefined };
}

async function readText(response: HttpResponse): Promise<string> {
  const decoder = new TextDecoder();
  let text = "";
  let left = MAX_REFUSAL_BYTES;
  try {
    for await (const piece of response.body) {
      text += decoder.decode(piece.subarray(0, left), { stream: true });
      left -= piece.byteLength;
      if (left <= 0) break;
    }
  } catch {
    return text; // the status alone is enough
  } finally {
    response.cancel();
  }
  return text;
}

const NOT_FOUND = new Set(["NoSuchKey", "NoSuchBucket", "NoSuchUpload", "NoSuchVersion"]);
const BUSY = new Set([
  "SlowDown",
  "ServiceUnavailable",
  "InternalError",
  "RequestTimeout",
  "OperationAborted",
  "TooManyRequests",
  "XMinioServerNotInitialized",
]);

/** The error for a refusal. `action` begins the sentence: "Cannot read", "Cannot write". */
export function s3Error(refusal: S3Refusal, label: string, action = "Cannot open"): TareError {
  const { status, code } = refusal;
  const at = { source: label };
  const said = describe(refusal);
  if (NOT_FOUND.has(code) || (code === "" && (status === 404 || status === 410))) {
    const what = code === "NoSuchBucket" ? "there is no such bucket" : "the store has no such object";
    return new SourceError("source/not-found", `${action} "${label}": ${what} (${said})`, at);
  }
  if (BUSY.has(code) || status === 429 || status === 408 || (status >= 500 && status !== 501)) {
    const { retryAfter } = refusal;
    return new SourceError("source/s3.busy", `${action} "${label}": the store is busy or failing (${said})`, at, {
      hint: "Try again later",
      transient: true,
      ...(retryAfter === undefined ? {} : { retryAfter }),
    });
  }
  if (status === 401 || status === 403) {
    const message = `${action} "${label}": the store refuses access (${said})`;
    return new SourceError("source/s3.forbidden", message, at, { hint: forbiddenHint(code, refusal.message) });
  }
  // A checksum detects a damaged body; sending it again can help.
  const isDamaged = /^(BadDigest|XAmzContentSHA256Mismatch|InvalidDigest|IncompleteBody)$/.test(code);
  return new SourceError("source/s3.refused", `${action} "${label}": the store refuses (${said})`, at, {
    transient: isDamaged,
  });
}

/**
 * The store's message, reduced to ordinary words: some stores repeat the request with the id of the key and the
 * signature, or the address with both.
 */
function describe({ status, code, message }: S3Refusal): string {
  if (code === "") return String(status);
  const isTalkative = code === "SignatureDoesNotMatch" || code === "InvalidAccessKeyId";
  const words = isTalkative || message === "" ? "" : `: ${plainWords(message).slice(0, MAX_SHOWN)}`;
  return `${status} ${/^[A-Za-z]{1,60}$/.test(code) ? code : "…"}${words}`;
}

/** A word of a language with its punctuation; "AWS" and the like. */
const WORD = /^["'(]*(?:[A-Z]?[a-z]{1,20}(?:[-'’][a-z]{1,20})*|[A-Z]{1,5})["')]*[.,:;!?]*$/;

function plainWords(message: string): string {
  const words = message.split(/\s+/).map((word) => (WORD.test(word) ? word : "…"));
  return words.filter((word, i) => word !== "…" || words[i - 1] !== "…").join(" ");
}

function forbiddenHint(code: string, message: string): string {
  if (/expired/i.test(message) || code === "ExpiredToken") {
    return code === "ExpiredToken"
      ? "The session token has expired: get new temporary credentials"
      : "The signed URL has expired: ask for a new one";
  }
  switch (code) {
    case "SignatureDoesNotMatch":
      return "Check AWS_SECRET_ACCESS_KEY, and that no proxy changes the request";
    case "InvalidAccessKeyId":
      return "Check AWS_ACCESS_KEY_ID and AWS_PROFILE; the store does not know this key";
    case "RequestTimeTooSkewed":
      return "Set the clock of this machine";
    default:
      return "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, for a key that may do this";
  }
}

/** Query parameters that carry a signature: SigV4, the older SigV2, and those of Google's and Azure's stores. */
const SIGNATURE = /[?&](x-amz-signature|x-goog-signature|signature|sig)=/i;

/**
 * Explains why a URL with its own signature is refused: most often it has expired, which only the store's error
 * document says. Other URLs pass unchanged.
 */
export function explainSignedUrls(inner: HttpTransport): HttpTransport {
  return {
    conditions: inner.conditions,
    async request(request: HttpRequest): Promise<HttpResponse> {
      const response = await inner.request(request);
      const isRefused = response.status === 403 || response.status === 401 || response.status === 400;
      if (!isRefused || !SIGNATURE.test(request.url)) return response;
      throw s3Error(await readRefusal(response), parseHttpUrl(request.url).label);
    },
  };
}
