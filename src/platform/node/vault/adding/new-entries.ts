import type { EntryData, NewEntry } from "../../../../api/vault/options.ts";
import { type Bytes, plainBytes } from "../../../../base/bytes.ts";
import { UsageError } from "../../../../base/errors.ts";
import { encodeUtf8, printable } from "../../../../base/text.ts";
import { blobSource } from "../../../../bytes/blob.ts";
import { foreignSource } from "../../../../bytes/layers/foreign.ts";
import { memorySource } from "../../../../bytes/memory.ts";
import type { Source } from "../../../../bytes/source.ts";
import { streamError } from "../../../../bytes/stream.ts";
import { matchGlob } from "../../../../operations/reading/glob.ts";
import type { AddInput, InputFacts, StreamInput } from "../../../../operations/vault/inputs.ts";
import { entryPath } from "../../../../operations/vault/tree.ts";
import { findTensors, formatTime, type InputOptions } from "./inputs.ts";

export interface NewEntriesOptions extends InputOptions {
  /** Directory inside the vault; "" is its top. */
  readonly to: string;
  readonly include: readonly string[];
  readonly exclude: readonly string[];
  /** Names the caller in errors. */
  readonly source: string;
  /** How a stream that may be a model is kept until its end. */
  keeping(label: string): StreamInput["keep"];
}

/** Data of a program as inputs of a vault. */
export function newInputs(entries: readonly NewEntry[], options: NewEntriesOptions): AddInput[] {
  const { to, include, exclude, source } = options;
  return entries.flatMap((entry) => {
    const path = entryPath(to === "" ? entry.path : `${to}/${entry.path}`, source);
    if (include.length > 0 && !include.some((glob) => matchGlob(glob, path))) return [];
    if (exclude.some((glob) => isBelow(glob, path))) return [];
    return [inputOf(entry, { path, label: path, mtime: timeOf(entry, source), mode: entry.mode }, options)];
  });
}

/** A glob that matches a directory leaves out all below it. */
function isBelow(glob: string, path: string): boolean {
  for (let end = path.length; end > 0; end = path.lastIndexOf("/", end - 1)) {
    if (matchGlob(glob, path.slice(0, end))) return true;
  }
  return false;
}

function timeOf({ path, modified }: NewEntry, source: string): string | undefined {
  if (modified === undefined) return undefined;
  const time = formatTime(BigInt(Math.trunc(Number(modified))) * 1_000_000n);
  if (time !== undefined) return time;
  const message = `Cannot store the time of "${printable(path)}": it must be one of the years 0 to 9999`;
  throw new UsageError("usage/option-value", message, { source, path: "modified" });
}

function inputOf({ data }: NewEntry, facts: InputFacts, options: NewEntriesOptions): AddInput {
  const { label } = facts;
  const source = sourceOf(data, label);
  if (source === undefined) {
    const pieces = (): AsyncIterable<Bytes> => piecesOf(data as AsyncIterable<unknown>, label);
    return { kind: "stream", ...facts, pieces, keep: options.keeping(label) };
  }
  return {
    kind: "file",
    ...facts,
    size: source.byteLength,
    open: async () => ({
      source,
      tensors: options.tensors === "cut" ? await findTensors(source, options) : [],
      checkUnchanged: async () => undefined,
      close: async () => undefined, // it is the caller's
    }),
  };
}

/** The bytes, if their length is known; undefined for streams. */
function sourceOf(data: EntryData, label: string): Source | undefined {
  if (typeof data === "string") return memorySource(encodeUtf8(data), label);
  if (data instanceof ArrayBuffer || data instanceof Uint8Array) return memorySource(plainBytes(data), label);
  if (data instanceof Blob) return blobSource(data, label);
  if (typeof data === "object" && "read" in data && "byteLength" in data) return foreignSource(data);
  return undefined;
}

async function* piecesOf(data: AsyncIterable<unknown>, label: string): AsyncGenerator<Bytes> {
  try {
    for await (const piece of data) {
      if (piece instanceof Uint8Array) yield plainBytes(piece);
      else {
        const message = `Cannot store "${printable(label)}": each piece of its data must be a Uint8Array, found ${piece === null ? "null" : typeof piece}`;
        throw new UsageError("usage/option-value", message, { source: label, path: "data" });
      }
    }
  } catch (error) {
    throw streamError(`Cannot read the stream for "${printable(label)}"`, error);
  }
}
