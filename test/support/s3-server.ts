import { createHash, createHmac, timingSafeEqual } from "node:crypto";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { decodePartNumbers, errorXml, type ListQuery, listXml, partsXml } from "./s3-documents.ts";

/** A key that the server knows. */
export const KEY = { accessKeyId: "AKIAIOSFODNN7EXAMPLE", secretAccessKey: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY" };

export interface StoredObject {
  readonly bytes: Buffer;
  readonly etag: string;
  readonly metadata: Readonly<Record<string, string>>;
}

interface Upload {
  readonly key: string;
  readonly metadata: Readonly<Record<string, string>>;
  readonly parts: Map<number, { readonly bytes: Buffer; readonly etag: string; readonly sha256: string | undefined }>;
}

export interface S3Request {
  readonly method: string;
  readonly path: string;
  readonly query: URLSearchParams;
  readonly headers: IncomingMessage["headers"];
  readonly body: Buffer;
}

/** "handled" where the hook has answered itself; "drop" tears the connection down after the work was done. */
export type S3Hook = (request: S3Request, response: ServerResponse) => "handled" | "drop" | undefined;

export interface S3ServerOptions {
  readonly region?: string;
  readonly leastPartBytes?: number;
  /** 501 for If-Match and If-None-Match, as older stores have it. */
  readonly conditions?: "known" | "unknown";
  /** How far its clock is ahead. */
  readonly clockMs?: number;
  /** Lets anybody read. */
  readonly access?: "private" | "public-read";
}

export interface S3Server {
  readonly endpoint: string;
  readonly objects: Map<string, StoredObject>;
  readonly uploads: ReadonlyMap<string, Upload>;
  readonly requests: readonly S3Request[];
  setHook(hook: S3Hook | undefined): void;
  close(): Promise<void>;
}

/** Amazon refuses requests that are further off. */
const MOST_SKEW_MS = 15 * 60_000;

/**
 * An object store on loopback with one bucket, "models", path style. It checks every signature, payload hash and
 * checksum by code of its own, and knows ranges, listings, multipart uploads and conditional writes.
 */
export async function startS3Server(options: S3ServerOptions = {}): Promise<S3Server> {
  const store = new Store(options);
  const sockets = new Set<Socket>();
  const server = createServer((incoming, response) => {
    const pieces: Buffer[] = [];
    incoming.on("data", (piece: Buffer) => pieces.push(piece));
    incoming.on("end", () => store.handle(incoming, Buffer.concat(pieces), response));
  });
  server.on("connection", (socket) => {
    sockets.add(socket);
    socket.on("close", () => sockets.delete(socket));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    objects: store.objects,
    uploads: store.uploads,
    requests: store.requests,
    setHook: (hook) => {
      store.hook = hook;
    },
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        for (const socket of sockets) socket.destroy();
      }),
  };
}

/** An answer other than success. */
class Refused extends Error {
  readonly status: number;
  readonly code: string;
  readonly extra: string;

  constructor(status: number, code: string, extra = "") {
    super(code);
    this.status = status;
    this.code = code;
    this.extra = extra;
  }
}

class Store {
  readonly objects = new Map<string, StoredObject>();
  readonly uploads = new Map<string, Upload>();
  readonly requests: S3Request[] = [];
  hook: S3Hook | undefined;
  readonly #options: S3ServerOptions;
  #nextUpload = 1;

  constructor(options: S3ServerOptions) {
    this.#options = options;
  }

  handle(incoming: IncomingMessage, body: Buffer, response: ServerResponse): void {
    const url = new URL(incoming.url ?? "/", "http://store");
    const request: S3Request = {
      method: incoming.method ?? "",
      path: decodeURIComponent(url.pathname),
      query: url.searchParams,
      headers: incoming.headers,
      body,
    };
    this.requests.push(request);
    response.setHeader("date", new Date(this.#now()).toUTCString());
    const hooked = this.hook?.(request, response);
    if (hooked === "handled") return;
    // The work is done, and nobody hears of it.
    if (hooked === "drop") response.end = () => response.destroy();
    try {
      this.#authorize(request, incoming.url ?? "/");
      this.#serve(request, response);
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      response.statusCode = error.status;
      response.setHeader("content-type", "application/xml");
      response.end(request.method === "HEAD" ? "" : errorXml(error.code, error.extra));
    }
  }

  #now(): number {
    return Date.now() + (this.#options.clockMs ?? 0);
  }

  #authorize(request: S3Request, rawUrl: string): void {
    const { headers } = request;
    const match =
      /^AWS4-HMAC-SHA256 Credential=([^/]+)\/(\d{8})\/([^/]+)\/s3\/aws4_request, SignedHeaders=([^,]+), Signature=(\w{64})$/.exec(
        headers.authorization ?? "",
      );
    if (match === null) {
      if (this.#options.access === "public-read" && (request.method === "GET" || request.method === "HEAD")) return;
      throw new Refused(403, "AccessDenied");
    }
    const [, id, day = "", region = "", names = "", signature = ""] = match;
    if (id !== KEY.accessKeyId) throw new Refused(403, "InvalidAccessKeyId", `<AWSAccessKeyId>${id}</AWSAccessKeyId>`);
    const own = this.#options.region ?? "us-east-1";
    if (region !== own) throw new Refused(400, "AuthorizationHeaderMalformed", `<Region>${own}</Region>`);
    const date = String(headers["x-amz-date"]);
    const time = Date.parse(date.replace(/(....)(..)(..)T(..)(..)(..)Z/, "$1-$2-$3T$4:$5:$6Z"));
    if (Math.abs(time - this.#now()) > MOST_SKEW_MS) throw new Refused(403, "RequestTimeTooSkewed");
    for (const name of Object.keys(headers)) {
      if (name.startsWith("x-amz-") && !names.split(";").includes(name)) throw new Refused(403, "AccessDenied");
    }
    const wanted = signatureOf(request, rawUrl, { day, region, names, date });
    if (!timingSafeEqual(Buffer.from(wanted), Buffer.from(signature))) throw new Refused(403, "SignatureDoesNotMatch");
    const payload = createHash("sha256").update(request.body).digest("hex");
    if (headers["x-amz-content-sha256"] !== payload) throw new Refused(400, "XAmzContentSHA256Mismatch");
  }

  #serve(request: S3Request, response: ServerResponse): void {
    const { method, path, query } = request;
    const [, bucket = "", key = ""] = /^\/([^/]*)\/?(.*)$/s.exec(path) ?? [];
    if (bucket !== "models") throw new Refused(404, "NoSuchBucket");
    checkSums(request);
    const uploadId = query.get("uploadId");
    if (key === "" && method === "GET") response.end(listXml(this.objects, listQuery(query)));
    else if (method === "POST" && query.has("uploads")) this.#create(key, request, response);
    else if (uploadId !== null) this.#serveUpload(key, uploadId, request, response);
    else this.#serveObject(key, request, response);
  }

  #serveObject(key: string, request: S3Request, response: ServerResponse): void {
    const { method, headers } = request;
    if (method === "PUT") {
      this.#checkConditions(key, headers);
      this.#store(key, { bytes: request.body, metadata: metadataOf(headers), parts: 0 }, response);
    } else if (method === "DELETE") {
      this.objects.delete(key);
      response.statusCode = 204;
      response.end();
    } else if (method === "GET" || method === "HEAD") {
      this.#read(key, request, response);
    } else {
      throw new Refused(405, "MethodNotAllowed");
    }
  }

  #create(key: string, { headers }: S3Request, response: ServerResponse): void {
    const id = `upload-${this.#nextUpload++}/+`;
    this.uploads.set(id, { key, metadata: metadataOf(headers), parts: new Map() });
    response.end(`<InitiateMultipartUploadResult><UploadId>${id}</UploadId></InitiateMultipartUploadResult>`);
  }

  #serveUpload(key: string, id: string, request: S3Request, response: ServerResponse): void {
    const upload = this.uploads.get(id);
    if (upload === undefined || upload.key !== key) throw new Refused(404, "NoSuchUpload");
    if (request.method === "PUT") {
      const number = Number(request.query.get("partNumber"));
      if (!(number >= 1 && number <= 10_000)) throw new Refused(400, "InvalidArgument");
      const etag = `"${md5(request.body)}"`;
      const sha256 = request.headers["x-amz-checksum-sha256"] as string | undefined;
      upload.parts.set(number, { bytes: request.body, etag, sha256 });
      response.setHeader("etag", etag).end();
    } else if (request.method === "GET") {
      const after = Number(request.query.get("part-number-marker") ?? 0);
      response.end(partsXml(upload.parts, after));
    } else if (request.method === "DELETE") {
      this.uploads.delete(id);
      response.statusCode = 204;
      response.end();
    } else {
      this.#complete(id, upload, request, response);
    }
  }

  #complete(id: string, upload: Upload, request: S3Request, response: ServerResponse): void {
    this.#checkConditions(upload.key, request.headers);
    const wanted = decodePartNumbers(request.body.toString());
    const parts = wanted.map(({ number, etag, sha256 }, i) => {
      const part = upload.parts.get(number);
      if (part === undefined || part.etag !== etag || part.sha256 !== sha256) throw new Refused(400, "InvalidPart");
      if (i > 0 && number <= (wanted[i - 1]?.number ?? 0)) throw new Refused(400, "InvalidPartOrder");
      const least = this.#options.leastPartBytes ?? 5 << 20;
      if (i < wanted.length - 1 && part.bytes.byteLength < least) throw new Refused(400, "EntityTooSmall");
      return part.bytes;
    });
    this.uploads.delete(id);
    this.#store(upload.key, { bytes: Buffer.concat(parts), metadata: upload.metadata, parts: parts.length }, response);
  }

  #store(
    key: string,
    {
      bytes,
      metadata,
      parts,
    }: {
      readonly bytes: Buffer;
      readonly metadata: Record<string, string> | Readonly<Record<string, string>>;
      readonly parts: number;
    },
    response: ServerResponse,
  ): void {
    const etag = parts === 0 ? `"${md5(bytes)}"` : `"${md5(bytes)}-${parts}"`;
    this.objects.set(key, { bytes, etag, metadata });
    response.setHeader("etag", etag);
    response.end(
      parts === 0 ? "" : `<CompleteMultipartUploadResult><ETag>${etag}</ETag></CompleteMultipartUploadResult>`,
    );
  }

  #checkConditions(key: string, headers: S3Request["headers"]): void {
    const noneMatch = headers["if-none-match"];
    const match = headers["if-match"];
    if (noneMatch === undefined && match === undefined) return;
    if (this.#options.conditions === "unknown") throw new Refused(501, "NotImplemented");
    const existing = this.objects.get(key);
    if (noneMatch === "*" && existing !== undefined) throw new Refused(412, "PreconditionFailed");
    if (match !== undefined && existing === undefined) throw new Refused(404, "NoSuchKey");
    if (match !== undefined && existing?.etag !== match) throw new Refused(412, "PreconditionFailed");
  }

  #read(key: string, { method, headers }: S3Request, response: ServerResponse): void {
    const object = this.objects.get(key);
    if (object === undefined) throw new Refused(404, "NoSuchKey");
    const { bytes, etag, metadata } = object;
    for (const [name, value] of Object.entries({ etag, "accept-ranges": "bytes", ...metadata }))
      response.setHeader(name, value);
    const match = /^bytes=(\d+)-(\d+)$/.exec(headers.range ?? "");
    const isStale = headers["if-range"] !== undefined && headers["if-range"] !== etag;
    if (match === null || isStale) {
      response.setHeader("content-length", bytes.byteLength);
      response.end(method === "HEAD" ? undefined : bytes);
      return;
    }
    const [first, last] = [Number(match[1]), Math.min(Number(match[2]), bytes.byteLength - 1)];
    if (first >= bytes.byteLength) {
      response.setHeader("content-range", `bytes */${bytes.byteLength}`);
      throw new Refused(416, "InvalidRange");
    }
    response.statusCode = 206;
    response.setHeader("content-range", `bytes ${first}-${last}/${bytes.byteLength}`);
    response.end(bytes.subarray(first, last + 1));
  }
}

function checkSums({ headers, body }: S3Request): void {
  const stated = headers["x-amz-checksum-sha256"];
  if (stated !== undefined && stated !== createHash("sha256").update(body).digest("base64")) {
    throw new Refused(400, "BadDigest");
  }
}

function metadataOf(headers: S3Request["headers"]): Record<string, string> {
  const entries = Object.entries(headers).filter(([name]) => name.startsWith("x-amz-meta-"));
  return Object.fromEntries(entries.map(([name, value]) => [name, String(value)]));
}

function listQuery(query: URLSearchParams): ListQuery {
  const token = query.get("continuation-token");
  return { prefix: query.get("prefix") ?? "", delimiter: query.get("delimiter") ?? "", after: token ?? "" };
}

function md5(bytes: Buffer): string {
  return createHash("md5").update(bytes).digest("hex");
}

/** The signature that the request should carry, straight from Amazon's description. */
function signatureOf(
  { method, headers, body }: S3Request,
  rawUrl: string,
  {
    day,
    region,
    names,
    date,
  }: { readonly day: string; readonly region: string; readonly names: string; readonly date: string },
): string {
  const [path = "", search = ""] = rawUrl.split("?");
  const query = search.split("&").filter(Boolean).sort().join("&");
  const lines = names.split(";").map((name) => `${name}:${String(headers[name]).trim()}\n`);
  const payload = createHash("sha256").update(body).digest("hex");
  const canonical = [method, path, query, lines.join(""), names, headers["x-amz-content-sha256"] ?? payload].join("\n");
  const hash = createHash("sha256").update(canonical).digest("hex");
  const text = ["AWS4-HMAC-SHA256", date, `${day}/${region}/s3/aws4_request`, hash].join("\n");
  let key: string | Buffer = `AWS4${KEY.secretAccessKey}`;
  for (const step of [day, region, "s3", "aws4_request"]) key = createHmac("sha256", key).update(step).digest();
  return createHmac("sha256", key).update(text).digest("hex");
}
