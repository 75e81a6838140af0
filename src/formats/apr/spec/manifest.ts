import { FormatError, type Location, UnsupportedError } from "../../../base/errors.ts";
import { checkLimit } from "../../../base/limits.ts";
import { printable } from "../../../base/text.ts";
import { checkRelativeName } from "../../../bytes/resolver.ts";
import { type JsonNode, parseStrictJson } from "../../../struct/strict-json.ts";
import type { AprLimits } from "../limits.ts";

/** One file of a set. */
export interface ShardEntry {
  readonly file: string;
  readonly size: number;
  /** Undefined if the manifest gives none. */
  readonly crc32: number | undefined;
}

/** What a manifest says: the specification's, or the one of aprender's ShardManifest. */
export interface Manifest {
  readonly flavour: "spec" | "aprender";
  readonly version: string | undefined;
  readonly shards: readonly ShardEntry[];
  /** Tensor name to place in `shards`, from 0. */
  readonly map: ReadonlyMap<string, number>;
  /** Keys that neither manifest names, by their paths. */
  readonly further: readonly string[];
}

const ROOT_KEYS: ReadonlySet<string> = new Set([
  ...["apr_version", "sharded", "shard_count", "shards", "tensor_shard_map"],
  ...["version", "total_size", "tensor_count", "weight_map"],
]);
const SHARD_KEYS: ReadonlySet<string> = new Set(["file", "size", "crc32", "filename", "index", "tensors"]);

type Members = ReadonlyMap<string, JsonNode>;

/** Refuses text that is not a manifest; names are checked before any file is opened. */
export function parseManifest(text: string, source: string, limits: AprLimits): Manifest {
  const place = { source, offset: 0, what: "APR manifest" };
  const root = parseStrictJson(text, { ...place, maxValues: limits.metadataValues });
  const members = membersOf(root, "manifest", source);
  const flavour = members.has("tensor_shard_map") ? "spec" : "aprender";
  const list = members.get("shards");
  if (list?.type !== "array") throw malformed("shards must be an array", "shards", source);
  checkLimit(list.items.length, limits.shards, "APR shards", "limit/apr.shards", { source, offset: list.start });
  const count = integer(members.get("shard_count"), "shard_count", source);
  if (count !== list.items.length) {
    throw malformed(
      `shard_count must be ${list.items.length}, as many as shards, found ${count}`,
      "shard_count",
      source,
    );
  }
  const shards = list.items.map((item, i) => parseShard(item, i, flavour, source));
  checkVersion(members, source);
  return {
    flavour,
    version: textOf(members.get("apr_version")),
    shards,
    map: parseMap(members, flavour, shards, source),
    further: [
      ...[...members.keys()].filter((key) => !ROOT_KEYS.has(key)),
      ...list.items.flatMap((item, i) => {
        const keys = item.type === "object" ? item.entries.map(([key]) => key) : [];
        return keys.filter((key) => !SHARD_KEYS.has(key)).map((key) => `shards[${i}].${key}`);
      }),
    ],
  };
}

function checkVersion(members: Members, source: string): void {
  const version = textOf(members.get("apr_version")) ?? textOf(members.get("version"));
  if (version === undefined || version.split(".")[0] === "2") return;
  const message = `Cannot read APR manifest: apr_version must be 2.x, found "${printable(version)}"`;
  throw new UnsupportedError("unsupported/apr.version", message, at(source, "apr_version"));
}

function parseShard(node: JsonNode, i: number, flavour: Manifest["flavour"], source: string): ShardEntry {
  const path = `shards[${i}]`;
  const members = membersOf(node, path, source);
  const key = flavour === "spec" ? "file" : "filename";
  const file = textOf(members.get(key));
  if (file === undefined) throw malformed(`${path}.${key} must be a string`, `${path}.${key}`, source);
  checkRelativeName(file, at(source, `${path}.${key}`, node.start));
  const size = integer(members.get("size"), `${path}.size`, source);
  return { file, size, crc32: parseCrc(members.get("crc32"), `${path}.crc32`, source) };
}

/** Eight hex digits of either case, with or without "0x" or "crc32:" before them, or a number. */
function parseCrc(node: JsonNode | undefined, path: string, source: string): number | undefined {
  if (node === undefined || node.type === "null") return undefined;
  if (node.type === "number") {
    const value = integer(node, path, source);
    if (value <= 0xffff_ffff) return value;
  } else if (node.type === "string") {
    const digits = /^(?:0x|crc32:)?([0-9a-f]{1,8})$/i.exec(node.value)?.[1];
    if (digits !== undefined) return Number.parseInt(digits, 16);
  }
  throw malformed(`${path} must be a CRC-32 as eight hex digits or a number`, path, source);
}

function parseMap(
  members: Members,
  flavour: Manifest["flavour"],
  shards: readonly ShardEntry[],
  source: string,
): ReadonlyMap<string, number> {
  const key = flavour === "spec" ? "tensor_shard_map" : "weight_map";
  const map = new Map<string, number>();
  for (const [name, node] of membersOf(members.get(key), key, source)) {
    const path = `${key}.${JSON.stringify(name)}`;
    const place = integer(node, path, source);
    if (place >= shards.length) {
      throw malformed(`${path} must be 0 to ${shards.length - 1}, found ${place}`, path, source);
    }
    map.set(name, place);
  }
  return map;
}

function membersOf(node: JsonNode | undefined, path: string, source: string): Members {
  if (node?.type === "object") return new Map(node.entries);
  throw malformed(`${path} must be an object, found ${node?.type ?? "none"}`, path, source);
}

function textOf(node: JsonNode | undefined): string | undefined {
  return node?.type === "string" ? node.value : undefined;
}

function integer(node: JsonNode | undefined, path: string, source: string): number {
  const value = node?.type === "number" && /^[0-9]{1,16}$/.test(node.text) ? Number(node.text) : Number.NaN;
  if (Number.isSafeInteger(value)) return value;
  const found = node === undefined ? "none" : node.type === "number" ? node.text : `a ${node.type}`;
  throw malformed(`${path} must be a whole number, found ${found}`, path, source);
}

function malformed(problem: string, path: string, source: string): FormatError {
  return new FormatError("format/apr.manifest", `Cannot read APR manifest: ${printable(problem)}`, at(source, path));
}

function at(source: string, path: string, offset = 0): Location {
  return { source, offset, path };
}

/** The metadata key under which a shard says which one it is: `{"index": 0, "count": 4}`. Our extension. */
export const SHARD_KEY = "shard";
