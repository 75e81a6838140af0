import { lstat, realpath, unlink } from "node:fs/promises";
import { dirname, join, relative, resolve, sep } from "node:path";
import type { SourceError } from "../../base/errors.ts";
import { checkRelativeName, escapeError } from "../../bytes/resolver.ts";
import type { Output, Sink } from "../../bytes/sink.ts";
import type { Source } from "../../bytes/source.ts";
import { errnoOf, fileError } from "./errors.ts";
import { fileSink, type Overwrite } from "./file-sink.ts";
import { openFile } from "./file-source.ts";
import { makeFolder } from "./make-folder.ts";

/**
 * An Output that writes files into one folder, which is made where it is missing. A link is followed only
 * where the user named it (`name`) or it stays in the folder: the other names come out of files.
 */
export function directoryOutput(directory: string, name: string, options: { readonly overwrite: Overwrite }): Output {
  const label = join(directory, name);
  const open = async (relativeName: string, overwrite: Overwrite): Promise<Sink> => {
    const path = join(directory, relativeName);
    if (relativeName !== name) checkRelativeName(relativeName, { source: label });
    const links = relativeName === name ? "follow" : "replace";
    await makeFolders(directory, dirname(path), relativeName);
    return fileSink(path, { overwrite, links });
  };
  /** What is there under a name: a link may lead to somebody else's bytes, unless the user named it. */
  const place = async (relativeName: string): Promise<string> => {
    const path = join(directory, relativeName);
    if (relativeName === name) return (await realpathIfAny(path)) ?? path;
    checkRelativeName(relativeName, { source: label });
    const [root, folder] = await Promise.all([directory, dirname(path)].map(realpathIfAny));
    if (root !== undefined && folder !== undefined && !isInside(root, folder)) throw linkError(relativeName, label);
    return path;
  };
  return {
    label,
    name,
    create: (relativeName) => open(relativeName, options.overwrite),
    async peek(relativeName) {
      return peekFile(await place(relativeName));
    },
    async replace(relativeName, bytes) {
      const sink = await open(relativeName, "replace");
      try {
        await sink.append(bytes);
        await sink.commit();
      } catch (error) {
        await sink.abort();
        throw error;
      }
    },
    async remove(relativeName) {
      await removeFile(await place(relativeName));
    },
  };
}

async function peekFile(path: string): Promise<Source | undefined> {
  const facts = await lstat(path).catch(() => undefined);
  return facts?.isFile() === true ? openFile(path) : undefined;
}

async function removeFile(path: string): Promise<void> {
  try {
    await unlink(path);
  } catch (error) {
    if (errnoOf(error) !== "ENOENT") throw fileError(error, `Cannot remove "${path}"`, { source: path });
  }
}

/** True where `path` is `root` or lies below it; both are real paths. */
export function isInside(root: string, path: string): boolean {
  const way = relative(root, path);
  return way !== ".." && !way.startsWith(`..${sep}`) && resolve(root, way) === path;
}

/** Makes the folders on the way to a file, and refuses a way that a link leads out of the root. */
async function makeFolders(root: string, folder: string, name: string): Promise<void> {
  try {
    await makeFolder(root);
    const realRoot = await realpath(root);
    let existing = resolve(folder);
    let real = await realpathIfAny(existing);
    while (real === undefined) {
      existing = dirname(existing);
      real = await realpathIfAny(existing);
    }
    if (!isInside(realRoot, real)) throw linkError(name, root);
    await makeFolder(folder);
  } catch (error) {
    throw errnoOf(error) !== undefined
      ? fileError(error, `Cannot make the folder "${folder}"`, { source: root })
      : error;
  }
}

function linkError(name: string, label: string): SourceError {
  return escapeError(name, "a link leads out of the folder", { source: label });
}

async function realpathIfAny(path: string): Promise<string | undefined> {
  return realpath(path).catch((error: unknown) => {
    if (errnoOf(error) === "ENOENT") return undefined;
    throw error;
  });
}
