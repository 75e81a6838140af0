import type { Bytes } from "../../../base/bytes.ts";
import { FormatError, type Location } from "../../../base/errors.ts";
import { checkLimit } from "../../../base/limits.ts";
import { printable } from "../../../base/text.ts";
import type { Shape } from "../../../model/shape.ts";
import { JsonScanner } from "../../../struct/json-scanner.ts";
import { decodeJsonText, type JsonNode, readNode } from "../../../struct/strict-json.ts";
import { fits, namedType } from "./dtypes.ts";
import type { WildLimits } from "./limits.ts";
import type { WildEntry } from "./stored-tensors.ts";

export interface JsonIndexOptions {
  readonly source: string;
  readonly offset: number;
  readonly limits: WildLimits;
}

/** The index of APR1 and of realizar's JSON files: an array of {name, dtype, shape, offset, size}. */
export function decodeJsonIndex(bytes: Bytes, options: JsonIndexOptions): readonly WildEntry[] {
  const { source, offset, limits } = options;
  const place = { source, offset, what: "APR index" };
  const scanner = new JsonScanner(decodeJsonText(bytes, place), place);
  scanner.skipSpace();
  if (scanner.peek() !== 0x5b) throw indexError("must be a JSON array", scanner.locate(scanner.position, "index"));
  const entries: WildEntry[] = [];
  scanner.readArray(() => {
    const at = { source, offset, path: `index[${entries.length}]` };
    entries.push(entryOf(readNode(scanner, limits.metadataValues), at, limits));
  });
  scanner.expectEnd();
  return entries;
}

function entryOf(node: JsonNode, at: Location, limits: WildLimits): WildEntry {
  if (node.type !== "object") throw indexError(`an entry must be an object, found ${node.type}`, at);
  const fields = new Map(node.entries);
  const name = textOf(fields.get("name"), "name", at);
  const storedType = textOf(fields.get("dtype"), "dtype", at);
  const shape = shapeOf(fields.get("shape"), name, { at, limits });
  const offset = integerOf(fields.get("offset"), "offset", at);
  const byteLength = integerOf(fields.get("size"), "size", at);
  const entry = { name, storedType, shape, offset, byteLength, at };
  // A whole model as one JSON text: a run of bytes as far as tensors go.
  const dtype = storedType === "json" ? "U8" : namedType(storedType);
  // The type has a name and no number here; 255 stands for "none of the list".
  if (dtype === undefined) return { ...entry, dtype: "UNKNOWN_255", trust: "unknown" };
  const fine = fits(dtype, entry, at);
  return fine ? { ...entry, dtype, trust: "known" } : { ...entry, dtype: "UNKNOWN_255", trust: "mislabelled" };
}

function textOf(node: JsonNode | undefined, key: string, at: Location): string {
  if (node?.type === "string") return node.value;
  throw indexError(`"${key}" must be a string, found ${node?.type ?? "nothing"}`, at);
}

function integerOf(node: JsonNode | undefined, key: string, at: Location): number {
  const text = node?.type === "number" ? node.text : undefined;
  const value = text !== undefined && /^(0|[1-9][0-9]*)$/.test(text) ? Number(text) : Number.NaN;
  if (Number.isSafeInteger(value)) return value;
  throw indexError(`"${key}" must be a whole number of at most 2^53 - 1, found ${text ?? node?.type ?? "nothing"}`, at);
}

function shapeOf(
  node: JsonNode | undefined,
  name: string,
  { at, limits }: { readonly at: Location; readonly limits: WildLimits },
): Shape {
  if (node?.type !== "array") throw indexError(`"shape" must be an array, found ${node?.type ?? "nothing"}`, at);
  const what = `dimensions of "${printable(name)}"`;
  checkLimit(node.items.length, limits.dimensions, what, "limit/apr.dimensions", at);
  return node.items.map((item, d) => integerOf(item, `shape[${d}]`, at));
}

function indexError(problem: string, at: Location): FormatError {
  return new FormatError("format/apr.index", `Cannot read APR index: ${problem}`, at);
}
