import { type Bytes, EMPTY_BYTES } from "../../base/bytes.ts";
import { isTareError } from "../../base/errors.ts";
import { encodeBase64, encodeHex, encodeUtf8 } from "../../base/text.ts";
import { networkError } from "../http/errors.ts";
import { type HeaderReader, isEntityTag, parseContentLength } from "../http/headers.ts";
import type { HttpMethod, HttpTransport } from "../http/transport.ts";
import { type RetryPolicy, retry, retryPolicy } from "../layers/retry.ts";
import { objectUrl, type S3Address } from "./address.ts";
import {
  childrenOf,
  childText,
  decodeDocument,
  decodeObject,
  decodePart,
  encodeParts,
  ListingPages,
  readReply,
  replyError,
  type S3ListedPart,
  type S3Object,
  type S3Part,
  type XmlElement,
} from "./documents.ts";
import { refusalIn, type S3Refusal, s3Error } from "./errors.ts";
import { S3Session, type S3SessionOptions } from "./session.ts";
import { encodeRfc3986, type Sha256 } from "./sigv4.ts";

/** The condition under which a write may happen. */
export type S3Condition =
  | { readonly kind: "absent" }
  | { readonly kind: "unchanged"; readonly etag: string }
  /** For stores without conditions. */
  | { readonly kind: "none" };

/** The result of HEAD. */
export interface S3Head extends S3Object {
  /** The id that its writer set, if that was tare. */
  readonly writeId: string | undefined;
}

export interface S3Listing {
  readonly objects: readonly S3Object[];
  /** Common prefixes up to the delimiter, with it at the end. */
  readonly prefixes: readonly string[];
}

export interface S3ClientOptions extends S3SessionOptions {
  readonly retry?: Partial<RetryPolicy> | undefined;
}

export interface S3CallOptions {
  readonly signal?: AbortSignal | undefined;
}

export interface S3WriteOptions extends S3CallOptions {
  readonly condition: S3Condition;
  readonly writeId: string;
}

/** How a conditional write ended. */
export type S3Outcome =
  | { readonly kind: "written"; readonly etag: string }
  /** The condition does not hold. */
  | { readonly kind: "refused"; readonly refusal: S3Refusal }
  /** There is no such upload: it was aborted, or completed by a request whose reply was lost. */
  | { readonly kind: "gone"; readonly refusal: S3Refusal }
  /** The store has no conditions (501). */
  | { readonly kind: "conditions-unsupported"; readonly refusal: S3Refusal };

/** Marks objects with their writer, so that a writer whose reply was lost can tell its own object from another's. */
const WRITE_ID = "x-amz-meta-tare-write";

/** The most entries of a listing: a prefix with more is not a model. */
const MAX_LISTED = 100_000;

/** A page has up to 1000 entries. Buckets that keep removed objects may return few; many such pages never end. */
const LEAST_LISTED = 10;
const MAX_THIN_PAGES = 100;
/** Parts are numbered from 1 to this. */
const MAX_PART_NUMBER = 10_000;

interface Call extends S3CallOptions {
  readonly method: HttpMethod;
  readonly address: S3Address;
  readonly query?: Readonly<Record<string, string>>;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Bytes | undefined;
  readonly payloadHash?: string | undefined;
  /** Refusals to return as an answer; all others are thrown. */
  readonly expects?: (refusal: S3Refusal) => boolean;
}

type Answer =
  | { readonly headers: HeaderReader; readonly text: string; readonly refusal?: undefined }
  | { readonly refusal: S3Refusal };

const isMalformed = ({ code }: S3Refusal): boolean => code === "MalformedXML";
const isMissing = ({ status, code }: S3Refusal): boolean => status === 404 && code !== "NoSuchBucket";

/** The S3 calls that tare needs. Temporary failures are retried here. */
export class S3Client {
  /** The session that signs; `openS3` reads objects through it. */
  readonly session: S3Session;
  readonly #sha256: Sha256;
  readonly #policy: RetryPolicy;
  readonly #transport: HttpTransport;

  constructor(options: S3ClientOptions) {
    this.#transport = options.transport;
    this.session = new S3Session(options);
    this.#sha256 = options.sha256;
    this.#policy = retryPolicy(options.retry);
  }

  /** Ends idle connections. Open requests continue. */
  async close(): Promise<void> {
    await this.#transport.close?.();
  }

  /** Undefined if there is no such object. */
  async head(address: S3Address, options: S3CallOptions = {}): Promise<S3Head | undefined> {
    const answer = await this.#call({ method: "HEAD", address, expects: isMissing, ...options });
    if (answer.refusal !== undefined) return undefined;
    const byteLength = parseContentLength(answer.headers.get("content-length"));
    const etag = answer.headers.get("etag");
    if (byteLength === undefined || etag === null) throw replyError(address, "it must have a length and an ETag");
    return { key: address.key, byteLength, etag, writeId: answer.headers.get(WRITE_ID) ?? undefined };
  }

  /** Writes an object in one request; the store checks the bytes against their SHA-256. */
  async put(address: S3Address, body: Bytes, options: S3WriteOptions): Promise<S3Outcome> {
    const { signal, condition, writeId } = options;
    const digest = await this.#sha256(body);
    const headers = { ...conditionHeaders(condition), ...checksum(digest), [WRITE_ID]: writeId };
    return this.#conditional({ method: "PUT", address, headers, body, payloadHash: encodeHex(digest), signal });
  }

  /** Removes an object; one that is already gone is fine. */
  async remove(address: S3Address, options: S3CallOptions = {}): Promise<void> {
    await this.#call({ method: "DELETE", address, expects: isMissing, ...options });
  }

  /** Begins an upload in parts; returns its id. */
  async createUpload(address: S3Address, options: S3CallOptions & { readonly writeId: string }): Promise<string> {
    const headers = { "x-amz-checksum-algorithm": "SHA256", [WRITE_ID]: options.writeId };
    const { signal } = options;
    const text = await this.#text({ method: "POST", address, query: { uploads: "" }, headers, signal });
    const id = childText(decodeDocument(text, address), "UploadId");
    if (id === undefined || id === "") throw replyError(address, "it must have an UploadId");
    return id;
  }

  /** Sends one part, numbered from 1. Sending a number again replaces the part. */
  async uploadPart(
    address: S3Address,
    upload: { readonly id: string; readonly number: number },
    options: S3CallOptions & { readonly body: Bytes },
  ): Promise<S3Part> {
    const { body, signal } = options;
    const digest = await this.#sha256(body);
    const answer = await this.#call({
      method: "PUT",
      address,
      query: { partNumber: String(upload.number), uploadId: upload.id },
      headers: checksum(digest),
      body,
      payloadHash: encodeHex(digest),
      signal,
    });
    const etag = answer.refusal === undefined ? answer.headers.get("etag") : null;
    if (etag === null) throw replyError(address, "it must have an ETag");
    return { number: upload.number, etag, sha256: encodeBase64(digest) };
  }

  /** Parts that the store has; undefined if there is no such upload. */
  async listParts(address: S3Address, id: string, options: S3CallOptions = {}): Promise<S3ListedPart[] | undefined> {
    const parts: S3ListedPart[] = [];
    const pages = new ListingPages(address);
    for (let marker = 0; ; ) {
      const query = { uploadId: id, "part-number-marker": String(marker) };
      const answer = await this.#call({ method: "GET", address, query, expects: isMissing, ...options });
      if (answer.refusal !== undefined) return undefined;
      const document = pages.next(answer.text, (page) => childrenOf(page, "Part").length);
      for (const part of childrenOf(document, "Part")) parts.push(decodePart(part, address));
      if (parts.length > MAX_PART_NUMBER) throw replyError(address, `it must have at most ${MAX_PART_NUMBER} parts`);
      const next = Number(childText(document, "NextPartNumberMarker"));
      if (childText(document, "IsTruncated") !== "true" || !(next > marker && next <= MAX_PART_NUMBER)) return parts;
      marker = next;
    }
  }

  /** Turns the parts into an object, all or nothing. */
  async completeUpload(
    address: S3Address,
    upload: { readonly id: string; readonly parts: readonly S3Part[] },
    options: Omit<S3WriteOptions, "writeId">,
  ): Promise<S3Outcome> {
    const headers = { "content-type": "application/xml", ...conditionHeaders(options.condition) };
    const { signal } = options;
    const call = { method: "POST", address, query: { uploadId: upload.id }, headers, signal } as const;
    const told = await this.#conditional({ ...call, body: encodeUtf8(encodeParts(upload.parts, "sent")) });
    if (told.kind !== "refused" || !isMalformed(told.refusal)) return told;
    // OpenStack Swift knows only PartNumber and ETag. The signature of each part has covered its bytes anyway.
    const plain = await this.#conditional({ ...call, body: encodeUtf8(encodeParts(upload.parts, "left-out")) });
    if (plain.kind === "refused" && isMalformed(plain.refusal))
      throw s3Error(plain.refusal, address.label, "Cannot write");
    return plain;
  }

  /** Drops an upload and its parts; one that is already gone is fine. */
  async abortUpload(address: S3Address, id: string, options: S3CallOptions = {}): Promise<void> {
    await this.#call({ method: "DELETE", address, query: { uploadId: id }, expects: isMissing, ...options });
  }

  /** Objects whose keys begin with the address's, grouped at the next "/", like the listing of a folder. */
  async list(address: S3Address, options: S3CallOptions = {}): Promise<S3Listing> {
    const objects: S3Object[] = [];
    const prefixes: string[] = [];
    const bucket = { ...address, key: "" };
    const pages = new ListingPages(address);
    let thin = 0;
    for (let token: string | undefined; objects.length + prefixes.length < MAX_LISTED; ) {
      const before = objects.length + prefixes.length;
      const page = token === undefined ? {} : { "continuation-token": token };
      const query = { "list-type": "2", delimiter: "/", prefix: address.key, ...page };
      const text = await this.#text({ method: "GET", address: bucket, query, ...options });
      const document = pages.next(text, entryCount);
      for (const entry of childrenOf(document, "Contents")) objects.push(decodeObject(entry, address));
      for (const entry of childrenOf(document, "CommonPrefixes")) prefixes.push(childText(entry, "Prefix") ?? "");
      const next = childText(document, "NextContinuationToken");
      if (childText(document, "IsTruncated") !== "true" || next === undefined || next === token) break;
      if (objects.length + prefixes.length - before < LEAST_LISTED && ++thin > MAX_THIN_PAGES) {
        throw replyError(address, `it must end, and ${thin} pages had next to nothing in them`);
      }
      token = next;
    }
    return { objects, prefixes };
  }

  /** Sends a write that may be refused because of its condition. */
  async #conditional(call: Call): Promise<S3Outcome> {
    const answer = await this.#call({ ...call, expects: (refusal) => outcomeOf(refusal) !== undefined });
    if (answer.refusal !== undefined) {
      return { kind: outcomeOf(answer.refusal) ?? "refused", refusal: answer.refusal };
    }
    const inText = answer.text === "" ? undefined : childText(decodeDocument(answer.text, call.address), "ETag");
    return { kind: "written", etag: answer.headers.get("etag") ?? inText ?? "" };
  }

  async #text(call: Call): Promise<string> {
    const answer = await this.#call(call);
    return answer.refusal === undefined ? answer.text : "";
  }

  #call(call: Call): Promise<Answer> {
    return retry(() => this.#once(call), this.#policy, call.signal);
  }

  async #once(call: Call): Promise<Answer> {
    const { method, address, query = {}, headers = {}, payloadHash } = call;
    const search = Object.entries(query).map(([name, value]) => `${encodeRfc3986(name)}=${encodeRfc3986(value)}`);
    const url = objectUrl(address, this.session.endpoint) + (search.length === 0 ? "" : `?${search.join("&")}`);
    const signal = call.signal ?? new AbortController().signal;
    const body = call.body ?? (method === "POST" ? EMPTY_BYTES : undefined);
    try {
      const reply = await this.session.send({ url, method, headers, signal, body, payloadHash });
      const text = reply.refusal === undefined ? await readReply(reply.response, address) : "";
      // CompleteMultipartUpload sends its 200 before it has finished, and an error document if it fails afterwards.
      const refusal = reply.refusal ?? (method === "POST" ? refusalIn(text, 500) : undefined);
      if (refusal === undefined && reply.refusal === undefined) return { headers: reply.response.headers, text };
      if (refusal !== undefined && call.expects?.(refusal) === true) return { refusal };
      const action = method === "GET" || method === "HEAD" ? "Cannot open" : "Cannot write";
      throw s3Error(refusal as S3Refusal, address.label, action);
    } catch (error) {
      signal.throwIfAborted();
      throw isTareError(error) ? error : networkError(address.label, error);
    }
  }
}

/** Entries on a page of ListObjectsV2. */
function entryCount(page: XmlElement): number {
  return childrenOf(page, "Contents").length + childrenOf(page, "CommonPrefixes").length;
}

/** What a refused write means; undefined if the refusal is not about the condition. */
function outcomeOf({ status, code }: S3Refusal): Exclude<S3Outcome["kind"], "written"> | undefined {
  if (status === 501) return "conditions-unsupported";
  if (code === "NoSuchUpload") return "gone";
  // If-Match on an object that was removed meanwhile gives NoSuchKey.
  const isRefused = status === 412 || code === "PreconditionFailed" || code === "ConditionalRequestConflict";
  return isRefused || code === "NoSuchKey" || code === "MalformedXML" ? "refused" : undefined;
}

function conditionHeaders(condition: S3Condition): Record<string, string> {
  if (condition.kind === "none") return {};
  return condition.kind === "absent" ? { "if-none-match": "*" } : { "if-match": quoted(condition.etag) };
}

/** Some stores omit the quotes of an entity-tag, but all accept it with quotes. */
function quoted(etag: string): string {
  return isEntityTag(etag) ? etag : `"${etag}"`;
}

function checksum(digest: Bytes): Record<string, string> {
  return { "x-amz-checksum-sha256": encodeBase64(digest) };
}
