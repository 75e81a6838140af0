import type { Format, FormatReader, Head } from "../model/format.ts";
import { aero } from "./aero/index.ts";
import { aeroset } from "./aeroset/index.ts";
import { aerovault } from "./aerovault/index.ts";
import { aerovault1 } from "./aerovault1/index.ts";
import { aerovault2 } from "./aerovault2/index.ts";
import { apr } from "./apr/index.ts";
import { embd } from "./embd/index.ts";
import { gguf } from "./gguf/index.ts";
import { onnx } from "./onnx/index.ts";
import { candidatesAmong, formatNamed, openingBytesAmong, sniffFormats } from "./recognise.ts";
import { safetensors } from "./safetensors/index.ts";

/**
 * The one list of formats. Content decides which format opens a file. Order matters only if two formats are sure: a
 * vault begins with the four letters of AERO, and a manifest of APR shards can have the key by which SafeTensors
 * recognises its index.
 */
export const FORMATS: readonly Format[] = [
  aerovault,
  aerovault2,
  aerovault1,
  apr,
  gguf,
  safetensors,
  aero,
  aeroset,
  embd,
  onnx,
];

/** What is said of files that none of them can open, and of limits that they do not have. */
export const explain = () => import("./explain.ts");

/** The format that is sure of a file by its first bytes. */
export async function sniffFormat(head: Head): Promise<Format | undefined> {
  return (await sniffFormats(head, FORMATS)).sure;
}

export function formatById(id: string): Format | undefined {
  return FORMATS.find((format) => format.id === id);
}

/** By extension, for outputs whose format the user did not name. The longest extension wins. */
export function formatForName(fileName: string): Format | undefined {
  return formatNamed(fileName, FORMATS);
}

/** The readers of these formats; unknown ids are ignored. */
export function readersOf(ids: readonly string[]): Promise<readonly FormatReader[]> {
  return Promise.all(FORMATS.filter(({ id }) => ids.includes(id)).map((format) => format.read()));
}

/** The number of bytes to read first from a file of this name, before its content shows the format. */
export function openingBytesFor(fileName: string): number {
  return openingBytesAmong(fileName, FORMATS);
}

/** The whole models among the names: an index represents its shards, a first part represents the later ones. */
export function chooseCandidates(names: readonly string[]): string[] {
  return candidatesAmong(names, FORMATS);
}

/** A format, as `doctor` lists it. */
export interface FormatInfo {
  readonly id: string;
  /** As people write it: "SafeTensors". */
  readonly name: string;
  /** With the dot, lower case, the usual one first. */
  readonly extensions: readonly string[];
  readonly read: true;
  readonly write: boolean;
}

/** Every format that is read, and whether files of it are written too. */
export const formats: readonly FormatInfo[] = /* @__PURE__ */ FORMATS.map(formatInfo);

function formatInfo({ id, name, extensions, access }: Format): FormatInfo {
  // Vaults have no writer of models, but verbs of their own write them.
  return { id, name, extensions, read: true, write: access !== "read" };
}
