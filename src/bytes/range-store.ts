import type { Bytes } from "../base/bytes.ts";
import { strongTag, type Validators } from "./http-headers.ts";
import { parseHttpUrl } from "./http-url.ts";
import type { PinnedFile } from "./resolver.ts";

/** One version of one remote file, as a store tells it from all others. */
export interface StoredFile extends StoredVersion {
  /** From `placeOfUrl` or `placeOfPin`. May hold the value of a query, so stores keep only a digest of it. */
  readonly place: string;
  /** May be shown and written down: credentials and queries are stripped. */
  readonly label: string;
}

/** What distinguishes the versions of the file at one place. */
export interface StoredVersion {
  /** A strong ETag, or the digest of a pinned file: two files that agree in it have the same bytes. */
  readonly validator: string;
  readonly byteLength: number;
}

/**
 * Where an HTTP source keeps runs of bytes between two openings: a folder on disk, a map in memory. Nothing here
 * rejects: a store that fails has nothing, and the bytes come from the server.
 */
export interface RangeStore {
  /** The version that was kept last at a place; undefined where nothing is. */
  recall(place: string): Promise<StoredVersion | undefined>;
  /** Fills the front of `into` with what is kept from `offset` on, unharmed; resolves with how many bytes that was. */
  get(file: StoredFile, offset: number, into: Bytes): Promise<number>;
  /** Keeps a run where there is room. The bytes are not touched after the promise has settled. */
  put(file: StoredFile, offset: number, bytes: Bytes): Promise<void>;
  /** Drops every version at a place. */
  forget(place: string): Promise<void>;
}

/**
 * Query parameters that sign a URL and change with every signature: Amazon's and Google's, CloudFront's, Azure's. The
 * rest of a query says which file is meant, and stays.
 */
const SIGNATURE =
  /^(x-amz-.*|x-goog-.*|awsaccesskeyid|googleaccessid|signature|expires|policy|key-pair-id|sig|se|sp|sv|sr|st|spr|sip|skoid|sktid|skt|ske|sks|skv)$/i;

/** The place of a file that is known by its address: without user, password, fragment and signature. */
export function placeOfUrl(url: string): string {
  const address = new URL(parseHttpUrl(url).url);
  const kept = [...address.searchParams].filter(([name]) => !SIGNATURE.test(name));
  address.search = new URLSearchParams(kept).toString();
  return address.href;
}

/** The place of a file that is known by its content: the same from every mirror. */
export function placeOfPin({ sha256 }: PinnedFile): string {
  return `sha256:${sha256}`;
}

/** The version behind a reply, or undefined where only the server could tell it from another one: then nothing is kept. */
export function versionOf(validators: Validators, byteLength: number): StoredVersion | undefined {
  const validator = strongTag(validators);
  return validator === undefined ? undefined : { validator, byteLength };
}

/** True where the bytes kept for `a` are those of `b`. */
export function isSameVersion(a: StoredVersion, b: StoredVersion): boolean {
  return a.validator === b.validator && a.byteLength === b.byteLength;
}
