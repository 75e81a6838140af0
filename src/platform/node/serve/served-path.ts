import type { BigIntStats } from "node:fs";
import { constants } from "node:fs";
import { type FileHandle, open, realpath, stat } from "node:fs/promises";
import { join, relative, sep } from "node:path";
import { isInside } from "../directory-output.ts";
import { errnoOf } from "../errors.ts";
import { isHidden } from "./request-path.ts";

/** What a path below the served folder leads to. Whoever gets a handle closes it. */
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

/** The real path of what these names lead to; undefined where that is hidden or outside of `root`, a real path. */
export async function findServed(root: string, segments: readonly string[]): Promise<string | undefined> {
  const real = await realpath(join(root, ...segments));
  // A link inside the folder may still lead to a hidden name.
  const isServed = isInside(root, real) && !relative(root, real).split(sep).some(isHidden);
  return isServed ? real : undefined;
}

/** Opens the file that these names lead to. Throws only what the file system does unexpectedly. */
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

/** What was a file a moment ago may have become a link, which is not followed, or a pipe, which must not block. */
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
