import { encodeHex } from "../../base/text.ts";
import type { HttpRequest, HttpResponse, HttpTransport } from "../http/transport.ts";
import { regionOfHost, type S3Endpoint } from "./address.ts";
import { readRefusal, type S3Refusal, s3Error } from "./errors.ts";
import { type Credentials, EMPTY_SHA256, type Sha256, SigV4 } from "./sigv4.ts";

/** The endpoint and the credentials for a store. */
export interface S3Settings {
  readonly endpoint: S3Endpoint;
  /** Absent for anonymous access, which public buckets allow. */
  readonly credentials?: Credentials | undefined;
}

export interface S3SessionOptions extends S3Settings {
  readonly transport: HttpTransport;
  readonly sha256: Sha256;
  /** The clock, in milliseconds since 1970. */
  readonly now?: (() => number) | undefined;
}

/** One request can have a wrong region and a wrong clock; a third correction is an error. */
const MAX_CORRECTIONS = 2;

/** With a smaller difference, the clock is not the reason for the refusal. */
const LEAST_SKEW_MS = 60_000;

/**
 * Signs requests and corrects itself by what a store reports: the region of the bucket, and how far this machine's
 * clock is off. Both are remembered for later requests.
 */
export class S3Session {
  readonly #options: S3SessionOptions;
  readonly #signer: SigV4;
  #region: string;
  #skewMs = 0;

  constructor(options: S3SessionOptions) {
    this.#options = options;
    this.#signer = new SigV4(options.sha256);
    this.#region = options.endpoint.region;
  }

  /** As configured, with the region that the store has reported. */
  get endpoint(): S3Endpoint {
    return { ...this.#options.endpoint, region: this.#region };
  }

  async send(request: S3Request): Promise<S3Reply> {
    for (let correction = 0; ; correction++) {
      const url = this.#placed(request.url);
      const response = await this.#options.transport.request(await this.#signed({ ...request, url }));
      if (response.status < 300 || response.status === 304 || response.status === 416) return { response };
      const refusal = await readRefusal(response, this.#options.credentials?.accessKeyId);
      // A transport that follows a redirect removes the signature.
      const moved = regionOfHost(new URL(response.url).hostname);
      const learned = this.#learnRegion(refusal.region ?? moved) || this.#learnTime(refusal);
      if (!learned || correction >= MAX_CORRECTIONS) return { refusal };
    }
  }

  async #signed(request: S3Request): Promise<HttpRequest> {
    const { credentials, sha256 } = this.#options;
    const { payloadHash: known, ...rest } = request;
    if (credentials === undefined) return rest;
    const body = request.body;
    const payloadHash = known ?? (body === undefined ? EMPTY_SHA256 : encodeHex(await sha256(body)));
    const all = { ...request.headers, "x-amz-content-sha256": payloadHash };
    // Proxies may change other headers, which would break a signature over them.
    const [own, others] = split(all, (name) => name.startsWith("x-amz-") || name === "content-type");
    const headers = await this.#signer.sign(
      { method: request.method, url: request.url, headers: own, payloadHash },
      { credentials, region: this.#region, service: "s3", time: new Date(this.#now() + this.#skewMs) },
    );
    return { ...rest, headers: { ...others, ...headers } };
  }

  /** The names of Amazon's servers contain the region. */
  #placed(url: string): string {
    if (this.#options.endpoint.url !== undefined) return url;
    const placed = new URL(url);
    const region = regionOfHost(placed.hostname);
    if (region !== undefined) placed.hostname = placed.hostname.replace(`.${region}.`, `.${this.#region}.`);
    return placed.href;
  }

  #learnRegion(region: string | undefined): boolean {
    if (region === undefined || region === this.#region || !/^[a-z0-9-]{1,40}$/.test(region)) return false;
    this.#region = region;
    return true;
  }

  #learnTime({ code, date }: S3Refusal): boolean {
    if (code !== "RequestTimeTooSkewed" || date === undefined) return false;
    const skewMs = date - this.#now();
    if (Math.abs(skewMs - this.#skewMs) < LEAST_SKEW_MS) return false;
    this.#skewMs = skewMs;
    return true;
  }

  #now(): number {
    return (this.#options.now ?? Date.now)();
  }
}

/** A transport for `openHttp`: signs requests, and turns refusals into errors about the object. */
export function signedTransport(
  session: S3Session,
  conditions: HttpTransport["conditions"],
  label: string,
): HttpTransport {
  return {
    conditions,
    async request(request: HttpRequest): Promise<HttpResponse> {
      const reply = await session.send(request);
      if (reply.refusal !== undefined) throw s3Error(reply.refusal, label);
      return reply.response;
    },
  };
}

function split(headers: Headers, isOwn: (name: string) => boolean): [own: Headers, others: Headers] {
  const entries = Object.entries(headers);
  const own = entries.filter(([name]) => isOwn(name));
  const others = entries.filter(([name]) => !isOwn(name));
  return [Object.fromEntries(own), Object.fromEntries(others)];
}

/** A request before it is signed. */
export type S3Request = HttpRequest & {
  /** Hex SHA-256 of the body, if the caller has it already. */
  readonly payloadHash?: string | undefined;
};

/** Either a successful reply, or the refusal; the body of a refusal has been read. */
export type S3Reply =
  | { readonly response: HttpResponse; readonly refusal?: undefined }
  | { readonly refusal: S3Refusal };

type Headers = Readonly<Record<string, string>>;
