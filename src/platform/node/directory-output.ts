import { mkdir, realpath } from "node:fs/promises";
import { dirname, join, relative, resolve, sep } from "node:path";
import { checkRelativeName, escapeError } from "../../bytes/relative-name.ts";
import type { Output, Sink } from "../../bytes/sink.ts";
import { errnoOf, fileError } from "./errors.ts";
import { fileSink, type Overwrite } from "./file-sink.ts";

/**
 * An Output that writes files into one folder, which is made where it is missing. A link is followed only
 * where the user named it (`name`) or it stays in the folder: the other names come out of files.
 */
export function directoryOutput(directory: string, name: string, options: { readonly overwrite: Overwrite }): Output {
  const label = join(directory, name);
  return {
    label,
    name,
    async create(relativeName: string): Promise<Sink> {
      const path = join(directory, relativeName);
      if (relativeName !== name) checkRelativeName(relativeName, { source: label });
      const links = relativeName === name ? "follow" : "replace";
      await makeFolders(directory, dirname(path), relativeName);
      return fileSink(path, { ...options, links });
    },
  };
}

/** True where `path` is `root` or lies below it; both are real paths. */
export function isInside(root: string, path: string): boolean {
  const way = relative(root, path);
  return way !== ".." && !way.startsWith(`..${sep}`) && resolve(root, way) === path;
}

/** Makes the folders on the way to a file, and refuses a way that a link leads out of the root. */
async function makeFolders(root: string, folder: string, name: string): Promise<void> {
  try {
    await mkdir(root, { recursive: true });
    const realRoot = await realpath(root);
    let existing = resolve(folder);
    let real = await realpathIfAny(existing);
    while (real === undefined) {
      existing = dirname(existing);
      real = await realpathIfAny(existing);
    }
    if (!isInside(realRoot, real)) throw escapeError(name, "a link leads out of the folder", { source: root });
    await mkdir(folder, { recursive: true });
  } catch (error) {
    throw errnoOf(error) !== undefined
      ? fileError(error, `Cannot make the folder "${folder}"`, { source: root })
      : error;
  }
}

async function realpathIfAny(path: string): Promise<string | undefined> {
  return realpath(path).catch((error: unknown) => {
    if (errnoOf(error) === "ENOENT") return undefined;
    throw error;
  });
}
