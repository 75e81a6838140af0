import type { Metadata, MetadataEntry, MetadataValue } from "../../src/model/metadata.ts";
import type { MetadataLine } from "../shared/protocol.ts";

/** Positions from the top down: the third key, its hundredth element. */
export type MetadataPath = readonly number[];

export interface MetadataNode extends MetadataLine {
  readonly path: MetadataPath;
}

interface NodesRequest {
  readonly path: MetadataPath;
  readonly start: number;
  readonly end: number;
}

/** Most results of a search; users would not read more. */
const MAX_MATCHES = 200;
/** Elements of a list that are decoded at a time. */
const RUN = 8192;

/**
 * Members `start` … `end` of the value at `path`. A vocabulary is decoded only as far as it is shown. A text is given
 * completely.
 */
export function metadataNodes(metadata: Metadata, { path, start, end }: NodesRequest): readonly MetadataNode[] {
  if (path.length === 0) return metadata.entries.slice(start, end).map(nodeOf([], start));
  const value = valueAt(metadata, path);
  if (value?.type === "array") {
    return value.slice(start, end).map((item, i) => elementNode(item, path, start + i));
  }
  if (value?.type === "map") return value.entries.slice(start, end).map(nodeOf(path, start));
  if (value?.type === "string") return [{ key: "", path, type: "string", text: value.value }];
  return [];
}

function nodeOf(path: MetadataPath, start: number): (entry: MetadataEntry, index: number) => MetadataNode {
  return ({ key, value }, index) => ({ key, path: [...path, start + index], ...describeValue(value) });
}

function elementNode(item: MetadataValue, path: MetadataPath, index: number): MetadataNode {
  return { key: String(index), path: [...path, index], ...describeValue(item) };
}

function valueAt(metadata: Metadata, path: MetadataPath): MetadataValue | undefined {
  const [first, ...rest] = path;
  let value = first === undefined ? undefined : metadata.entries[first]?.value;
  for (const index of rest) {
    if (value?.type === "array") [value] = value.slice(index, index + 1);
    else if (value?.type === "map") value = value.entries[index]?.value;
    else return undefined;
  }
  return value;
}

/** Keys and values that contain the text, ignoring case, including the elements of lists. */
export async function searchMetadata(
  metadata: Metadata,
  text: string,
  signal: AbortSignal,
): Promise<{ readonly nodes: readonly MetadataNode[]; readonly more: number }> {
  const search = new Search(text.toLowerCase(), signal);
  await search.entries(metadata.entries, [], "");
  return { nodes: search.found, more: search.count - search.found.length };
}

class Search {
  readonly found: MetadataNode[] = [];
  count = 0;
  readonly #text: string;
  readonly #signal: AbortSignal;

  constructor(text: string, signal: AbortSignal) {
    this.#text = text;
    this.#signal = signal;
  }

  async entries(entries: readonly MetadataEntry[], path: MetadataPath, before: string): Promise<void> {
    for (const [index, { key, value }] of entries.entries()) {
      await this.#look(value, [...path, index], before === "" ? key : `${before}.${key}`);
    }
  }

  async #look(value: MetadataValue, path: MetadataPath, key: string): Promise<void> {
    if (this.#has(key) || this.#has(plainText(value))) this.#take(value, path, key);
    if (value.type === "map") await this.entries(value.entries, path, key);
    if (value.type !== "array") return;
    for (let start = 0; start < value.length; start += RUN) {
      for (const [i, item] of value.slice(start, start + RUN).entries()) {
        // A promise for each of 128 000 tokens would cost more than the search.
        if (item.type === "array" || item.type === "map") {
          await this.#look(item, [...path, start + i], `${key}[${start + i}]`);
        } else if (this.#has(plainText(item))) this.#take(item, [...path, start + i], `${key}[${start + i}]`);
      }
      // Lets a cancel message through.
      await new Promise((resolve) => setTimeout(resolve, 0));
      this.#signal.throwIfAborted();
    }
  }

  #has(text: string): boolean {
    return text.toLowerCase().includes(this.#text);
  }

  #take(value: MetadataValue, path: MetadataPath, key: string): void {
    this.count++;
    if (this.found.length < MAX_MATCHES) this.found.push({ key, path, ...describeValue(value) });
  }
}

/** Empty for values that are not scalars. */
function plainText(value: MetadataValue): string {
  if (value.type === "string") return value.value;
  return "value" in value && value.type !== "bytes" ? String(value.value) : "";
}

/** Characters of a text that are shown before it is opened. */
const SHORT_TEXT = 160;
/** Elements of a list that are shown before it is opened. */
const SHORT_LIST = 6;

/** A value in one line: its type, and a short form of it. */
export function describeValue(value: MetadataValue): Omit<MetadataLine, "key"> {
  switch (value.type) {
    case "null":
      return { type: "null", text: "null" };
    case "string":
      return { type: "string", text: shorten(value.value) };
    case "bytes":
      return { type: "bytes", text: `${value.value.byteLength} bytes` };
    case "array": {
      const shown = value.slice(0, SHORT_LIST).map((item) => describeValue(item).text);
      const rest = value.length > shown.length ? ", …" : "";
      const of = value.elementType === undefined ? "list" : `${value.elementType}[]`;
      return { type: of, text: shorten(`[${shown.join(", ")}${rest}]`), length: value.length };
    }
    case "map":
      return {
        type: "map",
        text: shorten(value.entries.map(({ key }) => key).join(", ")),
        length: value.entries.length,
      };
    default:
      return { type: value.type, text: String(value.value) };
  }
}

function shorten(text: string): string {
  return text.length > SHORT_TEXT ? `${text.slice(0, SHORT_TEXT)}…` : text;
}
