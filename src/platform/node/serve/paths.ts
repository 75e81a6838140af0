import { type BigIntStats, constants } from "node:fs";
import { type FileHandle, open, realpath, stat } from "node:fs/promises";
import { join, relative, sep } from "node:path";
import { errnoOf } from "../errors.ts";
import { isInside } from "../files/directory.ts";

/** What the target of a request names, before any look at the disk. */
export type RequestPath =
  | {
      readonly kind: "path";
      /** Decoded names from the root on; no name is empty, hidden, "." or "..", or has a separator. */
      readonly segments: readonly string[];
      /** "folder" if the path ends in a slash. */
      readonly form: "file" | "folder";
    }
  | { readonly kind: "refused"; readonly status: 400 | 404; readonly reason: string };

/**
 * Splits a request target (RFC 9112 §3.2: origin-form or absolute-form). Each segment is decoded once, so that no
 * character of a name can become a separator. `hides` tells names that are never served. Never throws.
 */
export function parseRequestPath(target: string, hides: (name: string) => boolean = isHidden): RequestPath {
  const [path = ""] = target.replace(/^https?:\/\/[^/?#]*/i, "").split(/[?#]/, 1);
  if (path === "") return { kind: "path", segments: [], form: "folder" };
  if (!path.startsWith("/")) return refuse(400, "the path does not begin with a slash");
  const segments: string[] = [];
  for (const encoded of path.split("/")) {
    // Slashes in a row count as one, as in every file system.
    if (encoded === "") continue;
    const name = decodeSegment(encoded);
    if (name === undefined) return refuse(400, "the path is not percent-encoded UTF-8");
    const fault = findFault(name);
    if (fault !== undefined) return refuse(400, fault);
    if (hides(name)) return refuse(404, "no such file");
    segments.push(name);
  }
  return { kind: "path", segments, form: path.endsWith("/") ? "folder" : "file" };
}

/** Names that are never served or listed: ".git", ".env", ".ssh". */
export function isHidden(name: string): boolean {
  return name.startsWith(".");
}

/**
 * The path of a URL for these names. Everything but RFC 3986's unreserved characters is encoded, so that the URL
 * can be pasted into a shell as it is.
 */
export function encodePath(segments: readonly string[], form: "file" | "folder"): string {
  const path = `/${segments.map(encodeSegment).join("/")}`;
  return form === "folder" && segments.length > 0 ? `${path}/` : path;
}

function encodeSegment(name: string): string {
  // A name from a disk may hold half a surrogate pair, on which encodeURIComponent throws.
  return encodeURIComponent(name.replace(/\p{Surrogate}/gu, "\ufffd")).replace(/[!'()*]/g, (character) => {
    return `%${character.charCodeAt(0).toString(16).toUpperCase()}`;
  });
}

function decodeSegment(encoded: string): string | undefined {
  try {
    return decodeURIComponent(encoded);
  } catch {
    return undefined; // its URIError adds nothing
  }
}

function findFault(name: string): string | undefined {
  if (name.includes("\0")) return "the path contains a NUL";
  if (name.includes("/") || name.includes("\\")) return "a name in the path contains a separator";
  if (name === "." || name === "..") return `the path contains "${name}"`;
  return undefined;
}

function refuse(status: 400 | 404, reason: string): RequestPath {
  return { kind: "refused", status, reason };
}

/** What a path below the served folder leads to. The caller closes the handle. */
export type ServedPath =
  | { readonly kind: "file"; readonly path: string; readonly handle: FileHandle; readonly stats: BigIntStats }
  | { readonly kind: "folder"; readonly path: string }
  | { readonly kind: "missing" }
  | { readonly kind: "forbidden" }
  | { readonly kind: "busy" };

const MISSING: ServedPath = { kind: "missing" };

const BY_ERRNO: Readonly<Record<string, ServedPath>> = {
  ENOENT: MISSING,
  ENOTDIR: MISSING,
  ELOOP: MISSING,
  ENAMETOOLONG: MISSING,
  EINVAL: MISSING, // a name that the file system cannot hold
  ENXIO: MISSING, // a socket
  EACCES: { kind: "forbidden" },
  EPERM: { kind: "forbidden" },
  EMFILE: { kind: "busy" },
  ENFILE: { kind: "busy" },
};

/** The real path of what these names lead to; undefined if it is hidden or outside of `root`, a real path. */
export async function findServed(root: string, segments: readonly string[]): Promise<string | undefined> {
  const real = await realpath(join(root, ...segments));
  // A link inside the folder may still lead to a hidden name.
  const isServed = isInside(root, real) && !relative(root, real).split(sep).some(isHidden);
  return isServed ? real : undefined;
}

/** Opens the file that these names lead to. Throws only unexpected errors of the file system. */
export async function openServed(root: string, segments: readonly string[]): Promise<ServedPath> {
  try {
    const path = await findServed(root, segments);
    if (path === undefined) return MISSING;
    const found = await stat(path);
    if (found.isDirectory()) return { kind: "folder", path };
    // Opening a device can do something to it.
    return found.isFile() ? await openRegular(path) : MISSING;
  } catch (error) {
    const errno = errnoOf(error);
    const known = errno !== undefined && Object.hasOwn(BY_ERRNO, errno) ? BY_ERRNO[errno] : undefined;
    if (known === undefined) throw error;
    return known;
  }
}

/** Since the stat, the file may have become a link, which must not be followed, or a pipe, which must not block. */
async function openRegular(path: string): Promise<ServedPath> {
  const handle = await open(path, constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0));
  try {
    const stats = await handle.stat({ bigint: true });
    if (stats.isFile()) return { kind: "file", path, handle, stats };
  } catch (error) {
    await handle.close();
    throw error;
  }
  await handle.close();
  return MISSING;
}
