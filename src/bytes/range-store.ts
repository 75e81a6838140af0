import type { Bytes } from "../base/bytes.ts";
import { strongTag, type Validators } from "./http-headers.ts";
import type { ResolveOptions } from "./resolver.ts";
import { addressWithoutSignature } from "./signed-url.ts";

/** One version of one remote file, as a store tells it from all others. */
export interface StoredFile extends StoredVersion {
  /** From `placeOfFile`. May hold the value of a query, so stores keep only a digest of it. */
  readonly place: string;
  /** May be shown and written down: credentials and queries are stripped. */
  readonly label: string;
}

/** What distinguishes the versions of the file at one place. */
export interface StoredVersion {
  /** A strong ETag, or the digest that an index states: at one place, two files that agree in it have the same bytes. */
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
 * Where the bytes of a file are kept: under its whole address, without user, password, fragment and signature. What an
 * index states of the file is only a claim until all of the file was hashed. So a pin does not replace the address: it
 * narrows it down, together with the file that states it. Bytes that one index or server called by a digest are then
 * never handed to readers of another.
 */
export function placeOfFile(url: string, stated: Pick<ResolveOptions, "pinned" | "namedBy"> = {}): string {
  const address = `url ${addressWithoutSignature(url)}`;
  const { pinned, namedBy } = stated;
  if (pinned === undefined) return address;
  return `${address} sha256:${pinned.sha256} by ${namedBy === undefined ? "" : addressOf(namedBy)}`;
}

/** The file that names others is known by its address, or by its path where it is local. */
function addressOf(name: string): string {
  return /^https?:/i.test(name) ? addressWithoutSignature(name) : name;
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
