import { FormatError, isTareError, type Location } from "../../base/errors.ts";
import { checkLimit } from "../../base/limits.ts";
import { FEW_STEPS, type Steps } from "../../base/turns.ts";
import { checkRelativeName } from "../../bytes/resolver.ts";
import { arrayValue, type MetadataEntry, type MetadataValue, stringValue } from "../../model/metadata.ts";
import { JsonScanner } from "../../struct/json-scanner.ts";
import { type JsonNode, readNodeSteps } from "../../struct/strict-json.ts";
import { compareByUtf8 } from "./header.ts";
import type { SafetensorsLimits } from "./limits.ts";
import type { StoredTensor } from "./model.ts";

/** A parsed `*.safetensors.index.json`. */
export interface ShardIndex {
  /** Tensor name → index of its shard, in the order of the map. */
  readonly weightMap: ReadonlyMap<string, number>;
  /** File names of the shards, sorted. That is their order by number, in whatever order the map names them. */
  readonly shards: readonly string[];
  readonly metadata: readonly MetadataEntry[];
  /** Keys other than `metadata` and `weight_map`. */
  readonly further: readonly string[];
  readonly scanner: JsonScanner;
}

/** Most JSON values in `metadata`; real ones have two or three. */
const METADATA_VALUES = 100_000;

/** Parses the index: `metadata` (any JSON object, or absent) and `weight_map` (names to file names). */
export function parseShardIndex(text: string, source: string, limits: SafetensorsLimits): Steps<ShardIndex> {
  return new IndexParser(text, source, limits).parse();
}

/** Refuses an index among the shards, itself or another: such a set would count as fetched without any weights. */
export function checkShardNames(index: ShardIndex, ownName: string): void {
  const found = index.shards.find((name) => name === ownName || /\.index\.json$/i.test(name));
  if (found === undefined) return;
  const message = `Cannot read SafeTensors index: weight_map must name files of tensors, found the index ${JSON.stringify(found)}`;
  throw new FormatError("format/safetensors.index", message, locateName(index, found, "weight_map"));
}

/**
 * The first place of a name in the index. It is the best available location for an error, and computed only for one.
 */
export function locateName(index: ShardIndex, name: string, path: string): Location {
  const found = index.scanner.text.indexOf(JSON.stringify(name));
  return index.scanner.locate(Math.max(found, 0), path);
}

class IndexParser {
  readonly #scanner: JsonScanner;
  readonly #limits: SafetensorsLimits;
  readonly #weightMap = new Map<string, number>();
  readonly #shards: string[] = [];
  readonly #shardNumbers = new Map<string, number>();
  #metadata: readonly MetadataEntry[] = [];

  constructor(text: string, source: string, limits: SafetensorsLimits) {
    this.#scanner = new JsonScanner(text, { source, offset: 0, what: "SafeTensors index" });
    this.#limits = limits;
  }

  *parse(): Steps<ShardIndex> {
    const scanner = this.#scanner;
    const keys = new Set<string>();
    scanner.skipSpace();
    for (let key = scanner.firstKey(); key !== undefined; key = scanner.nextKey()) {
      if (keys.has(key)) throw this.#duplicate(key, scanner.keyIndex, JSON.stringify(key));
      keys.add(key);
      if (key === "weight_map") yield* this.#readWeightMap();
      else if (key === "metadata") yield* this.#readMetadata();
      else scanner.skipValue();
      yield;
    }
    const further = [...keys].filter((key) => key !== "weight_map" && key !== "metadata");
    scanner.expectEnd();
    if (!keys.has("weight_map")) throw this.#error('must have the key "weight_map", found none', 0);
    return { ...(yield* this.#sorted()), metadata: this.#metadata, further, scanner };
  }

  *#sorted(): Steps<Pick<ShardIndex, "weightMap" | "shards">> {
    const shards = [...this.#shards].sort();
    const places = new Map(shards.map((file, place) => [file, place]));
    const placeOf = this.#shards.map((file) => places.get(file) ?? 0);
    if (placeOf.every((place, number) => place === number)) return { weightMap: this.#weightMap, shards };
    let count = 0;
    for (const [name, number] of this.#weightMap) {
      this.#weightMap.set(name, placeOf[number] ?? 0);
      if (++count % FEW_STEPS === 0) yield FEW_STEPS;
    }
    return { weightMap: this.#weightMap, shards };
  }

  *#readWeightMap(): Steps<void> {
    const scanner = this.#scanner;
    if (scanner.peek() !== 0x7b) throw this.#error("weight_map must be an object", scanner.position, "weight_map");
    for (let name = scanner.firstKey(); name !== undefined; name = scanner.nextKey()) {
      const path = `weight_map.${JSON.stringify(name)}`;
      if (this.#weightMap.has(name)) throw this.#duplicate(name, scanner.keyIndex, path);
      const index = scanner.position;
      if (scanner.peek() !== 0x22) throw this.#error("weight_map must hold file names only", index, path);
      this.#weightMap.set(name, this.#shardNumber(scanner.readString(), index, path));
      if (this.#weightMap.size % FEW_STEPS === 0) yield FEW_STEPS;
    }
  }

  #shardNumber(file: string, index: number, path: string): number {
    const known = this.#shardNumbers.get(file);
    if (known !== undefined) return known;
    const scanner = this.#scanner;
    try {
      checkRelativeName(file, { source: scanner.place.source });
    } catch (error) {
      if (!isTareError(error)) throw error;
      // The check is cheap if it passes; the location is computed only here.
      checkRelativeName(file, scanner.locate(index, path));
    }
    const number = this.#shards.push(file) - 1;
    this.#shardNumbers.set(file, number);
    if (number >= this.#limits.shards) {
      const at = scanner.locate(index, path);
      checkLimit(number + 1, this.#limits.shards, "shards of a SafeTensors index", "limit/safetensors.shards", at);
    }
    return number;
  }

  *#readMetadata(): Steps<void> {
    const index = this.#scanner.position;
    const node = yield* readNodeSteps(this.#scanner, METADATA_VALUES);
    if (node.type === "null") return;
    if (node.type !== "object") throw this.#error("metadata must be an object", index, "metadata");
    this.#metadata = node.entries.map(([key, value]) => ({ key, value: metadataValue(value) }));
  }

  #error(problem: string, index: number, path?: string): FormatError {
    const message = `Cannot read SafeTensors index: ${problem}`;
    return new FormatError("format/safetensors.index", message, this.#scanner.locate(index, path));
  }

  #duplicate(key: string, index: number, path: string): FormatError {
    const message = `Cannot read SafeTensors index: keys must be unique, found ${JSON.stringify(key)} twice`;
    return new FormatError("format/safetensors.duplicate-key", message, this.#scanner.locate(index, path));
  }
}

/** JSON has one kind of number: whole ones become 64-bit integers, the others doubles. */
function metadataValue(node: JsonNode): MetadataValue {
  switch (node.type) {
    case "null":
      return { type: "null" };
    case "bool":
      return { type: "bool", value: node.value };
    case "string":
      return stringValue(node.value);
    case "number":
      return numberValue(node.text);
    case "array":
      return arrayValue(node.items.map(metadataValue));
    case "object":
      return { type: "map", entries: node.entries.map(([key, value]) => ({ key, value: metadataValue(value) })) };
  }
}

function numberValue(text: string): MetadataValue {
  const number = Number(text);
  // "-0" stays a double: an integer has no negative zero.
  if (!/^-?[0-9]{1,20}$/.test(text) || Object.is(number, -0)) return { type: "f64", value: number };
  const exact = BigInt(text);
  const value = Number.isSafeInteger(number) ? number : exact;
  if (exact === BigInt.asIntN(64, exact)) return { type: "i64", value };
  return exact === BigInt.asUintN(64, exact) ? { type: "u64", value } : { type: "f64", value: number };
}

const INDEX_EXTENSION = ".safetensors.index.json";

/** The names of a set: the prefix of its shards, and its index. */
export function shardSetNames(name: string): { readonly base: string; readonly index: string } {
  const lower = name.toLowerCase();
  const extension = [INDEX_EXTENSION, ".safetensors"].find((candidate) => lower.endsWith(candidate)) ?? "";
  const base = name.slice(0, name.length - extension.length);
  // A name that is already an index stays as the user typed it.
  return { base, index: extension === INDEX_EXTENSION ? name : `${base}${INDEX_EXTENSION}` };
}

/** "model-00001-of-00003.safetensors": the usual name of a shard. */
export function shardName(base: string, number: number, count: number): string {
  const digits = (value: number): string => String(value).padStart(5, "0");
  return `${base}-${digits(number)}-of-${digits(count)}.safetensors`;
}

/** Fills shards in order; a tensor above the limit gets its own shard. There is always at least one shard. */
export function groupShards(tensors: readonly StoredTensor[], maxShardBytes: number): StoredTensor[][] {
  const shards: StoredTensor[][] = [[]];
  let byteLength = 0;
  for (const tensor of tensors) {
    const current = shards.at(-1) as StoredTensor[];
    if (current.length > 0 && byteLength + tensor.byteLength > maxShardBytes) {
      shards.push([tensor]);
      byteLength = tensor.byteLength;
    } else {
      current.push(tensor);
      byteLength += tensor.byteLength;
    }
  }
  return shards;
}

/** The contents of an index. */
interface ShardIndexContents {
  /** Bytes of all tensors. */
  readonly totalSize: number;
  /** The text of `tare.origin`, "" for none. */
  readonly origin: string;
  /** Tensor name and file name. */
  readonly weightMap: readonly (readonly [string, string])[];
}

/** The index as the usual writers render it: indented by two spaces, keys sorted. */
export function renderShardIndex({ totalSize, origin, weightMap }: ShardIndexContents): string {
  const metadata = [
    ...(origin === "" ? [] : [`    "tare.origin": ${JSON.stringify(origin)}`]),
    `    "total_size": ${totalSize}`,
  ];
  const members = [...weightMap]
    .sort(([a], [b]) => compareByUtf8(a, b))
    .map(([name, file]) => `    ${JSON.stringify(name)}: ${JSON.stringify(file)}`);
  const map = members.length === 0 ? "{}" : `{\n${members.join(",\n")}\n  }`;
  return `{\n  "metadata": {\n${metadata.join(",\n")}\n  },\n  "weight_map": ${map}\n}\n`;
}
