import { type Bytes, startsWith } from "../base/bytes.ts";
import { FormatError, type Location } from "../base/errors.ts";
import { printable } from "../base/text.ts";
import { parentOf } from "./aerovault/paths.ts";

/** What a vault of version 2 begins with. */
export const V2_MAGIC = "AEROVAULT2";
/** The entry by which a ZIP is known to be a vault of version 1. */
export const V1_META_NAME = "__aerovault_meta.json";

const V2_BYTES = asciiOf(V2_MAGIC);
const META_BYTES = asciiOf(V1_META_NAME);
/** Signatures of a ZIP's local header and of a row of its directory, with where the name stands behind them. */
const LOCAL = { signature: [0x50, 0x4b, 0x03, 0x04], nameLength: 26, name: 30 } as const;
const CENTRAL = { signature: [0x50, 0x4b, 0x01, 0x02], nameLength: 28, name: 46 } as const;

/** Which older version of AeroVault the first bytes of a file show; undefined for everything else. */
export function legacyVersion(head: Bytes): 1 | 2 | undefined {
  if (startsWith(head, V2_BYTES)) return 2;
  return startsWith(head, LOCAL.signature) && hasMetaEntry(head) ? 1 : undefined;
}

/** The first entry of every such vault that is known; anywhere else in the first bytes it counts too. */
function hasMetaEntry(head: Bytes): boolean {
  for (let at = head.indexOf(META_BYTES[0] as number); at >= 0; at = head.indexOf(META_BYTES[0] as number, at + 1)) {
    if (startsWith(head, META_BYTES, at) && (isNameOf(head, at, LOCAL) || isNameOf(head, at, CENTRAL))) return true;
  }
  return false;
}

function isNameOf(head: Bytes, at: number, record: typeof LOCAL | typeof CENTRAL): boolean {
  const start = at - record.name;
  if (start < 0 || !startsWith(head, record.signature, start)) return false;
  return startsWith(head, [META_BYTES.length, 0], start + record.nameLength);
}

function asciiOf(text: string): readonly number[] {
  return [...text].map((character) => character.charCodeAt(0));
}

/** Deeper than any file system goes; looking at each folder of a path must stay cheap. */
const MAX_COMPONENTS = 1000;

/** A path as an older vault has it. */
export interface StoredPath {
  readonly path: string;
  readonly type: "file" | "directory";
}

/**
 * Refuses the whole vault for a path that leads out of it, that stands there twice, or that is a file and the folder of
 * another entry: nobody can tell what else its writer did. `place` says where a path stands.
 */
export function checkStoredPaths(
  entries: readonly StoredPath[],
  code: `format/${string}`,
  place: (index: number) => Location,
): void {
  const known = new Map<string, StoredPath["type"]>();
  for (const [i, { path, type }] of entries.entries()) {
    const fault = findUnsafePath(path) ?? (known.has(path) ? "it is there twice" : undefined);
    if (fault !== undefined) throw badPath(path, fault, code, place(i));
    known.set(path, type);
  }
  const folders = new Set<string>();
  for (const [i, { path }] of entries.entries()) {
    for (let folder = parentOf(path); folder !== undefined && !folders.has(folder); folder = parentOf(folder)) {
      folders.add(folder);
      if (known.get(folder) !== "file") continue;
      throw badPath(path, `"${printable(folder)}" is a file, not its folder`, code, place(i));
    }
  }
}

/**
 * What no file system could hold below a folder, or would hold elsewhere. Less than version 3 refuses: backslashes, drive
 * letters and outer white space are names on some systems, and older programs stored them.
 */
export function findUnsafePath(path: string): string | undefined {
  if (path === "") return "it is empty";
  if (path.includes("\0")) return "it contains NUL";
  if (path.startsWith("/")) return "it begins with a slash";
  const parts = path.split("/");
  if (parts.length > MAX_COMPONENTS) return `it has more than ${MAX_COMPONENTS} components`;
  const bad = parts.find((part) => part === "" || part === "." || part === "..");
  if (bad === undefined) return undefined;
  return bad === "" ? "it has an empty component" : `it has a "${bad}" component`;
}

function badPath(path: string, fault: string, code: `format/${string}`, at: Location): FormatError {
  return new FormatError(code, `Cannot accept the path "${printable(path)}" in a vault: ${fault}`, at);
}
