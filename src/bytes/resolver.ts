import type { Bytes } from "../base/bytes.ts";
import { type Location, SourceError } from "../base/errors.ts";
import { printable } from "../base/text.ts";
import type { Source } from "./source.ts";

/**
 * Opens the siblings of a file by relative name: shards, parts, a tokenizer beside the weights. Never
 * reaches outside its root: names that are absolute, contain "..", NUL or a backslash, or lead elsewhere
 * through a link are refused with `source/resolver.escape`.
 */
export interface Resolver {
  /** The name of the file the resolver belongs to, without its folder: "model-00001-of-00003.gguf". */
  readonly name: string;
  /** The name of the folder that the file is in, if it has one: people name models by it. */
  readonly folder?: string | undefined;
  /** Rejects with `source/not-found` if there is no such sibling. */
  resolve(name: string, options?: ResolveOptions): Promise<Source>;
  /**
   * Opens a full http(s) address that the file names. Rejects with `source/resolver.origin` if it leads to another
   * origin than the file's own and that origin was not allowed. Absent if there is no network.
   */
  resolveUrl?(url: string, options?: ResolveOptions): Promise<Source>;
  /**
   * Present if the file is in a folder for files of its kind, "onnx/model.onnx": reaches the files beside that folder.
   * Only for names that we choose ourselves, such as "config.json"; never for a name that a file gives.
   */
  readonly above?: Resolver | undefined;
}

/** Files of one set whose headers are read at the same time: each takes a round trip. */
export const PARALLEL_FILES = 8;

/** Folders that models keep their weights in, apart from the configuration: Hugging Face's custom for ONNX exports. */
export function isFolderOfKind(folderName: string): boolean {
  return folderName === "onnx";
}

export interface ResolveOptions {
  readonly signal?: AbortSignal | undefined;
  /** What the index says about the file: lets a cache answer without asking the server. */
  readonly pinned?: PinnedFile | undefined;
  /** The address or path of the index. Resolvers set it: what one index states says nothing about another's files. */
  readonly namedBy?: string | undefined;
  /**
   * Throws to refuse an address that a redirect leads to. Resolvers set it for addresses that an index gives in full.
   */
  readonly onRedirect?: ((url: string) => void) | undefined;
}

/** What an index states about a file. It is a claim until the whole file was hashed. */
export interface PinnedFile {
  readonly byteLength: number;
  /** 64 lower-case hex digits over the whole file. */
  readonly sha256: string;
  /**
   * Present if the file is wanted whole: rejects if the bytes are not the pinned ones. A resolver that keeps bytes
   * calls it before it keeps or hands out any. Resolvers without a store may leave it to the caller.
   */
  readonly prove?: ((whole: Bytes) => Promise<void>) | undefined;
}

/** Names that Windows gives to devices, with or without an extension ("NUL.gguf"), in any case. */
const RESERVED_ON_WINDOWS =
  /^(con|prn|aux|nul|com[0-9\u00b9\u00b2\u00b3]|lpt[0-9\u00b9\u00b2\u00b3]|conin\$|conout\$)(\.|$)/i;

// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are exactly what is refused
const CONTROL = /[\u0000-\u001f\u007f]/;

/**
 * Refuses a name that could lead out of a folder, or that means something else on another system: absolute paths, drive
 * letters, "." and "..", empty segments, backslashes, control characters, device names. Resolvers and Outputs call it
 * on every name, because names come out of files that anyone may have written. `own` is the name of the file itself,
 * one component of a path that the caller opened. That file exists, whatever its name is, and so may files whose names
 * begin with it ("a:b.gguf.sig").
 */
export function checkRelativeName(name: string, at: Location, own?: string): void {
  const isOwn = own !== undefined && own !== "" && name.startsWith(own);
  const fault = findFault(isOwn ? `own${name.slice(own.length)}` : name);
  if (fault === undefined) return;
  throw escapeError(name, fault, at);
}

/** The error for a name that leaves its folder, by spelling or through a link. */
export function escapeError(name: string, reason: string, at: Location): SourceError {
  const message = `Cannot use "${printable(name)}" as the name of a file beside this one: ${reason}`;
  return new SourceError("source/resolver.escape", message, at, {
    hint: "Files may only refer to their own folder; this name was refused before anything was opened",
  });
}

function findFault(name: string): string | undefined {
  if (name === "") return "it is empty";
  if (CONTROL.test(name)) return "it contains a control character";
  if (name.includes("\\")) return "it contains a backslash";
  if (name.startsWith("/")) return "it is absolute";
  // Also refuses "https://…" and the alternate data streams of NTFS.
  if (name.includes(":")) return "it contains a colon";
  for (const segment of name.split("/")) {
    const fault = findSegmentFault(segment);
    if (fault !== undefined) return fault;
  }
  return undefined;
}

function findSegmentFault(segment: string): string | undefined {
  if (segment === "") return "it has an empty segment";
  if (segment === "." || segment === "..") return `it has a "${segment}" segment`;
  // Windows drops trailing dots and spaces, so ".. " would become "..".
  if (/[. ]$/.test(segment)) return "a segment ends in a dot or a space";
  if (RESERVED_ON_WINDOWS.test(segment)) return "it is the name of a device on Windows";
  return undefined;
}

/** Separates an archive from a path inside it. */
export const INNER_MARK = "::";

/** Splits "v.aerovault::a::b" into its places, outermost first. Within `[…]`, as in the address of an IPv6 host, nothing is split. */
export function splitInnerPaths(text: string): string[] {
  const parts: string[] = [];
  let depth = 0;
  let start = 0;
  for (let i = 0; i < text.length; i++) {
    if (text[i] === "[") depth++;
    else if (text[i] === "]" && depth > 0) depth--;
    else if (depth === 0 && text.startsWith(INNER_MARK, i)) {
      parts.push(text.slice(start, i));
      start = i + INNER_MARK.length;
      i++;
    }
  }
  parts.push(text.slice(start));
  return parts;
}
