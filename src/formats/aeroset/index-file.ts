import type { Bytes } from "../../base/bytes.ts";
import type { Location } from "../../base/errors.ts";
import { encodeUtf8 } from "../../base/text.ts";
import type { Finding } from "../../model/finding.ts";
import { SetFileReader } from "./index-reader.ts";
import type { AerosetLimits } from "./limits.ts";

/** A file of the set, as the JSON describes it. */
export interface SetEntry {
  /** A relative path or a full http(s) address, as written. */
  readonly path: string;
  /** 64 lower-case hex digits over the whole file. */
  readonly sha256?: string;
  readonly sizeBytes?: number;
}

/** A file of weights. */
export interface SetPart extends SetEntry {
  /** Global shard numbers that the file holds, in the order of its WTSH chunks. */
  readonly shards: readonly number[];
}

/** `cache` of v0.2: hints that readers may ignore. */
export interface SetCache {
  readonly enabled?: boolean;
  readonly recommended?: boolean;
}

/** The content of `model.aeroset.json`. */
export interface SetFile {
  readonly version: readonly [number, number];
  readonly model: { readonly name?: string; readonly architecture?: string };
  readonly baseUrl?: string;
  readonly parts: readonly SetPart[];
  readonly globalIndex: SetEntry;
  readonly cache?: SetCache;
}

/** A set file that was read, with what was tolerated in it. */
export interface ParsedSetFile extends SetFile {
  readonly warnings: readonly Finding[];
  /** Keys that the specification does not name, by their paths: readers pass over them, a set that is written anew lacks them. */
  readonly further: readonly string[];
  /** Where the JSON first spells a text, for messages about `path`; its beginning where it spells it otherwise. */
  readonly locate: (text: string, path: string) => Location;
}

/** Parses the JSON of a set. Unknown keys are passed over, as in the reference; duplicate keys are refused. */
export function parseSetFile(text: string, label: string, limits: AerosetLimits): ParsedSetFile {
  return new SetFileReader(text, label, limits).read();
}

/** The JSON of a set as the reference writes it; the version follows from the fields that are in use. */
export function encodeSetFile(set: Omit<SetFile, "version">): Bytes {
  const { model, baseUrl, parts, globalIndex, cache } = set;
  // base_url, cache and paths that are addresses came with v0.2.
  const isRemote = baseUrl !== undefined || cache !== undefined || [globalIndex, ...parts].some(hasAddress);
  const json = {
    format: { name: "AEROSET", version: isRemote ? [0, 2] : [0, 1] },
    model: { name: model.name, architecture: model.architecture },
    base_url: baseUrl,
    parts: parts.map((part) => ({ ...entryJson(part), shards: part.shards })),
    global_tidx: entryJson(globalIndex),
    cache,
  };
  return encodeUtf8(escapeNonAscii(JSON.stringify(json, null, 2)));
}

function hasAddress({ path }: SetEntry): boolean {
  return /^https?:\/\//i.test(path);
}

function entryJson({ path, sha256, sizeBytes }: SetEntry): object {
  return { path, sha256, size_bytes: sizeBytes };
}

/** What Python's `ensure_ascii` escapes: everything outside space … tilde. */
function escapeNonAscii(json: string): string {
  return json.replace(/[\u007f-\uffff]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`);
}
