import { UsageError } from "../../base/errors.ts";
import { printable } from "../../base/text.ts";
import { encodeRfc3986 } from "./sigv4.ts";

/** An object, a prefix (its key ends with "/" or is empty), or a bucket. */
export interface S3Address {
  readonly bucket: string;
  /** As the store has it: not percent-encoded, without a leading slash. */
  readonly key: string;
  /** "s3://bucket/key", for errors and progress. */
  readonly label: string;
}

/** The server of a bucket. */
export interface S3Endpoint {
  readonly region: string;
  /** Scheme, host and port of a store that is not Amazon's; absent for Amazon's own. */
  readonly url?: string | undefined;
  /** "https://host/bucket/key" or "https://bucket.host/key". */
  readonly addressing: "path" | "virtual-host";
}

/** Amazon's rules, plus the upper case and underscores of old buckets and other stores. */
const BUCKET = /^[A-Za-z0-9][A-Za-z0-9._-]{1,254}$/;
/** S3 counts bytes of UTF-8 and allows no longer key. */
const MAX_KEY_BYTES = 1024;

/** True for addresses for `parseS3Address`, valid or not. */
export function isS3Url(text: string): boolean {
  return /^s3:\/\//i.test(text);
}

/** "s3://bucket/some/key"; everything after the bucket is the key, taken literally. */
export function parseS3Address(text: string): S3Address {
  const [, bucket = "", key = ""] = /^s3:\/\/([^/]*)\/?(.*)$/is.exec(text) ?? [];
  if (!BUCKET.test(bucket)) {
    throw addressError(
      `the bucket must have 2 to 255 letters, digits, dots, dashes or underscores and begin with a letter or digit, found ${bucketFault(bucket)}`,
    );
  }
  checkKey(key);
  return s3Address(bucket, key);
}

/** Describes a fault of a name without repeating it: a user may have put a key and a secret before an @. */
function bucketFault(bucket: string): string {
  if (bucket === "") return "none";
  if (/[^A-Za-z0-9._-]/.test(bucket)) return "other characters";
  if (bucket.length < 2 || bucket.length > 255) return `${bucket.length}`;
  return `"${bucket.charAt(0)}" first`;
}

/** The address of a key that is known to be valid. */
export function s3Address(bucket: string, key: string): S3Address {
  return { bucket, key, label: printable(`s3://${bucket}/${key}`) };
}

function checkKey(key: string): void {
  if (new TextEncoder().encode(key).byteLength > MAX_KEY_BYTES) {
    throw addressError(`the key must have at most ${MAX_KEY_BYTES} bytes`);
  }
  // Every URL parser on the way removes these, and the request would go to another object.
  if (key.split("/").some((segment) => segment === "." || segment === "..")) {
    throw addressError('no part of the key may be "." or ".."');
  }
}

/** The URL of an object, or of its bucket if the key is empty. */
export function objectUrl({ bucket, key }: Pick<S3Address, "bucket" | "key">, endpoint: S3Endpoint): string {
  const path = key.split("/").map(encodeRfc3986).join("/");
  const base = new URL(endpoint.url ?? `https://s3.${endpoint.region}.${amazonDomain(endpoint.region)}`);
  const root = base.pathname.replace(/\/$/, "");
  // A certificate for *.s3.region.amazonaws.com does not cover a bucket with a dot in its name.
  if (endpoint.addressing === "path" || bucket.includes(".")) return `${base.origin}${root}/${bucket}/${path}`;
  return `${base.protocol}//${bucket}.${base.host}${root}/${path}`;
}

function amazonDomain(region: string): string {
  return region.startsWith("cn-") ? "amazonaws.com.cn" : "amazonaws.com";
}

/** The region in the name of one of Amazon's own servers. */
export function regionOfHost(host: string): string | undefined {
  return /(?:^|\.)s3[.-]([a-z0-9-]+)\.amazonaws\.com(?:\.cn)?$/.exec(host)?.[1];
}

function addressError(reason: string): UsageError {
  return new UsageError(
    "usage/s3.address",
    `Cannot use the s3:// address: ${reason}`,
    { source: "s3://…" },
    { hint: "Write s3://bucket/key; keys and secrets come from the AWS_* variables or a profile" },
  );
}
