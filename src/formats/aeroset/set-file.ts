import type { Bytes } from "../../base/bytes.ts";
import { FormatError, type Location } from "../../base/errors.ts";
import { checkLimit } from "../../base/limits.ts";
import { encodeUtf8 } from "../../base/text.ts";
import type { Steps } from "../../base/turns.ts";
import type { Finding } from "../../model/finding.ts";
import { JsonScanner } from "../../struct/json-scanner.ts";
import { type JsonNode, readNodeSteps } from "../../struct/strict-json.ts";
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

/** A parsed set file, with what was tolerated in it. */
export interface ParsedSetFile extends SetFile {
  readonly warnings: readonly Finding[];
  /** Paths of keys that the specification does not name: readers skip them, and a newly written set lacks them. */
  readonly further: readonly string[];
  /**
   * Where a text first appears in the JSON, for messages about `path`; the JSON's beginning if it is escaped
   * differently.
   */
  readonly locate: (text: string, path: string) => Location;
}

/** Parses the JSON of a set. Skips unknown keys, as the reference does; refuses duplicate keys. */
export function parseSetFile(text: string, label: string, limits: AerosetLimits): Steps<ParsedSetFile> {
  return new SetFileReader(text, label, limits).read();
}

/** The JSON of a set as the reference writes it; the fields in use decide the version. */
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

/** Escapes what Python's `ensure_ascii` escapes: everything outside space … tilde. */
function escapeNonAscii(json: string): string {
  return json.replace(/[\u007f-\uffff]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

type ObjectNode = Extract<JsonNode, { type: "object" }>;

/** The keys of every file in the JSON. */
const ENTRY_KEYS: readonly string[] = ["path", "sha256", "size_bytes"];

/** JSON values of the whole document: at about 60 bytes each, what 64 MiB of text may become. */
const MAX_VALUES = 2_000_000;

/** Reads one set file; every error names the key as the specification spells it, and its byte. */
class SetFileReader {
  readonly #scanner: JsonScanner;
  readonly #limits: AerosetLimits;
  readonly #warnings: Finding[] = [];
  readonly #further: string[] = [];
  /** Where the paths of files are: searching the text for each would take too long. */
  readonly #places = new Map<string, number>();
  #shardCount = 0;

  constructor(text: string, label: string, limits: AerosetLimits) {
    this.#scanner = new JsonScanner(text, { source: label, offset: 0, what: "AEROSET index" });
    this.#limits = limits;
  }

  *read(): Steps<ParsedSetFile> {
    this.#scanner.skipSpace();
    const node = yield* readNodeSteps(this.#scanner, MAX_VALUES);
    this.#scanner.expectEnd();
    const root = this.#object(node, "the document");
    this.#look(root, "", ["format", "model", "base_url", "parts", "global_tidx", "cache"]);
    const baseUrl = this.#text(root, "base_url");
    const cache = this.#cache(root);
    return {
      version: this.#version(root),
      model: this.#model(root),
      // The reference treats an empty base_url as none.
      ...(baseUrl === undefined || baseUrl === "" ? {} : { baseUrl }),
      parts: yield* this.#parts(root),
      globalIndex: this.#globalIndex(root),
      ...(cache === undefined ? {} : { cache }),
      warnings: this.#warnings,
      further: this.#further,
      locate: (text, path) => {
        const found = this.#places.get(text) ?? this.#scanner.text.indexOf(JSON.stringify(text));
        return this.#scanner.locate(Math.max(found, 0), path);
      },
    };
  }

  /** The reference never reads `format`, so sets without it, or with another version, exist and are read. */
  #version(root: ObjectNode): readonly [number, number] {
    const format = find(root, "format");
    if (format?.type === "object") this.#look(format, "format", ["name", "version"]);
    const name = format?.type === "object" ? find(format, "name") : undefined;
    if (name?.type !== "string" || name.value !== "AEROSET") {
      this.#warn("format.name", 'must be "AEROSET"', (name ?? format ?? root).start);
    }
    const version = format?.type === "object" ? find(format, "version") : undefined;
    const numbers = version?.type === "array" ? version.items.map(wholeNumber) : [];
    const [major, minor] = numbers;
    if (numbers.length === 2 && major === 0 && (minor === 1 || minor === 2)) return [major, minor];
    this.#warn("format.version", "must be [0, 1] or [0, 2]", (version ?? format ?? root).start);
    return [0, 2]; // v0.2 reads everything that v0.1 allows
  }

  /** Notes unknown keys. */
  #look(node: ObjectNode, path: string, known: readonly string[]): void {
    for (const [key] of node.entries) {
      if (!known.includes(key)) this.#further.push(path === "" ? key : `${path}.${key}`);
    }
  }

  #model(root: ObjectNode): { readonly name?: string; readonly architecture?: string } {
    const node = find(root, "model");
    if (node?.type !== "object") {
      if (!isAbsent(node)) this.#further.push("model");
      return {};
    }
    this.#look(node, "model", ["name", "architecture"]);
    const name = this.#text(node, "name", "model");
    const architecture = this.#text(node, "architecture", "model");
    return { ...(name === undefined ? {} : { name }), ...(architecture === undefined ? {} : { architecture }) };
  }

  #globalIndex(root: ObjectNode): SetEntry {
    const node = this.#object(this.#need(root, "global_tidx"), "global_tidx");
    this.#look(node, "global_tidx", ENTRY_KEYS);
    return this.#entry(node, "global_tidx");
  }

  *#parts(root: ObjectNode): Steps<SetPart[]> {
    const node = this.#need(root, "parts");
    if (node.type !== "array") throw this.#error("parts must be an array", node.start, "parts");
    const at = this.#scanner.locate(node.start, "parts");
    checkLimit(node.items.length, this.#limits.parts, "an AEROSET of this many parts", "limit/aeroset.parts", at);
    const parts: SetPart[] = [];
    for (const [i, item] of node.items.entries()) {
      const path = `parts[${i}]`;
      const part = this.#object(item, path);
      this.#look(part, path, [...ENTRY_KEYS, "shards"]);
      const shards = this.#shards(part, path);
      parts.push({ ...this.#entry(part, path), shards });
      yield 1 + shards.length;
    }
    return parts;
  }

  #shards(part: ObjectNode, path: string): number[] {
    const node = this.#need(part, "shards", path);
    const field = `${path}.shards`;
    if (node.type !== "array") throw this.#error(`${field} must be an array`, node.start, field);
    this.#shardCount += node.items.length;
    if (this.#shardCount > this.#limits.shards) {
      const at = this.#scanner.locate(node.start, field);
      checkLimit(this.#shardCount, this.#limits.shards, "an AEROSET of this many shards", "limit/aeroset.shards", at);
    }
    return node.items.map((item, i) => this.#count(item, `${field}[${i}]`));
  }

  #entry(node: ObjectNode, path: string): SetEntry {
    const where = this.#need(node, "path", path);
    if (where.type !== "string" || where.value === "") {
      throw this.#error(`${path}.path must be a file name or an address`, where.start, `${path}.path`);
    }
    if (!this.#places.has(where.value)) this.#places.set(where.value, where.start);
    const size = find(node, "size_bytes");
    const sizeBytes = isAbsent(size) ? undefined : this.#count(size, `${path}.size_bytes`);
    const sha256 = this.#sha256(node, path);
    return {
      path: where.value,
      ...(sha256 === undefined ? {} : { sha256 }),
      ...(sizeBytes === undefined ? {} : { sizeBytes }),
    };
  }

  /** An invalid digest cannot be compared: the weights stay readable, and `verify` reports it. */
  #sha256(node: ObjectNode, path: string): string | undefined {
    const value = find(node, "sha256");
    if (isAbsent(value)) return undefined;
    if (value.type === "string" && /^[0-9a-fA-F]{64}$/.test(value.value)) return value.value.toLowerCase();
    this.#warnings.push({
      severity: "warning",
      code: "format/aeroset.sha256",
      message: `${path}.sha256 must be 64 hex digits: the file cannot be compared with it`,
      at: this.#scanner.locate(value.start, `${path}.sha256`),
    });
    return undefined;
  }

  #cache(root: ObjectNode): SetCache | undefined {
    const node = find(root, "cache");
    if (node?.type !== "object") {
      if (!isAbsent(node)) this.#further.push("cache");
      return undefined;
    }
    this.#look(node, "cache", ["enabled", "recommended"]);
    const enabled = find(node, "enabled");
    const recommended = find(node, "recommended");
    for (const [key, value] of Object.entries({ enabled, recommended })) {
      if (!isAbsent(value) && value.type !== "bool") this.#further.push(`cache.${key}`);
    }
    return {
      ...(enabled?.type === "bool" ? { enabled: enabled.value } : {}),
      ...(recommended?.type === "bool" ? { recommended: recommended.value } : {}),
    };
  }

  /** Undefined if the key is absent or null; refuses another type. */
  #text(node: ObjectNode, key: string, parent?: string): string | undefined {
    const value = find(node, key);
    if (isAbsent(value)) return undefined;
    if (value.type === "string") return value.value;
    const path = parent === undefined ? key : `${parent}.${key}`;
    throw this.#error(`${path} must be a string`, value.start, path);
  }

  #count(node: JsonNode, path: string): number {
    const value = wholeNumber(node);
    if (value !== undefined) return value;
    throw this.#error(`${path} must be a whole number from 0 to 2^53 - 1`, node.start, path);
  }

  #object(node: JsonNode, path: string): ObjectNode {
    if (node.type === "object") return node;
    throw this.#error(`${path} must be an object`, node.start, path);
  }

  #need(node: ObjectNode, key: string, parent?: string): JsonNode {
    const found = find(node, key);
    if (found !== undefined) return found;
    const path = parent === undefined ? key : `${parent}.${key}`;
    throw this.#error(`must have the key "${path}", found none`, node.start, path);
  }

  #error(problem: string, index: number, path: string): FormatError {
    const message = `Cannot read AEROSET index: ${problem}`;
    return new FormatError("format/aeroset.index", message, this.#scanner.locate(index, path));
  }

  #warn(path: string, problem: string, index: number): void {
    this.#warnings.push({
      severity: "warning",
      code: "format/aeroset.format",
      message: `${path} of the set ${problem}; it is read as v0.2`,
      at: this.#scanner.locate(index, path),
    });
  }
}

function find(node: ObjectNode, key: string): JsonNode | undefined {
  return node.entries.find(([name]) => name === key)?.[1];
}

function isAbsent(node: JsonNode | undefined): node is undefined | Extract<JsonNode, { type: "null" }> {
  return node === undefined || node.type === "null";
}

/** Only digits: some readers accept a shard 1.0 or 1e0, others do not. */
function wholeNumber(node: JsonNode): number | undefined {
  if (node.type !== "number" || !/^[0-9]+$/.test(node.text)) return undefined;
  const value = Number(node.text);
  return Number.isSafeInteger(value) ? value : undefined;
}
