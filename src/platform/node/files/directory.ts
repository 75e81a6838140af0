import { lstat, realpath, stat, unlink } from "node:fs/promises";
import { basename, dirname, join, relative, resolve, sep } from "node:path";
import { SourceError } from "../../../base/errors.ts";
import { checkRelativeName, escapeError, isFolderOfKind, type Resolver } from "../../../bytes/resolver.ts";
import type { Output, Sink } from "../../../bytes/sink.ts";
import type { Source } from "../../../bytes/source.ts";
import { errnoOf, fileError, fullPath, ifMissing } from "../errors.ts";
import { makeFolder } from "./own-folder.ts";
import { WrittenFiles } from "./partial-files.ts";
import { fileSink, type Overwrite } from "./sink.ts";
import { openFile } from "./source.ts";

export interface DirectoryOptions {
  readonly overwrite: Overwrite;
  /** Called with the path of each file before it is made; throwing refuses it. */
  readonly check?: ((path: string) => Promise<void>) | undefined;
  /** "replace" if the user did not type the name: then a link is replaced like those under the other names. */
  readonly links?: "replace" | undefined;
  /** "replace" for notes of our own, which are replaced even if they are write-protected. */
  readonly readOnly?: "replace" | undefined;
}

/** An Output that can do all that an Output may be able to do. */
type DirectoryOutput = Required<Output>;

/**
 * An Output that writes files into one folder, which is made if it is missing. A link in the place of a file is followed
 * only if the user typed its name (`name`): the other names come from files. A link in the place of a folder must not
 * lead out of the folder.
 */
export function directoryOutput(directory: string, name: string, options: DirectoryOptions): DirectoryOutput {
  const label = join(directory, name);
  const written = new WrittenFiles();
  const open = async (relativeName: string, overwrite: Overwrite): Promise<Sink> => {
    const path = join(directory, relativeName);
    if (relativeName !== name) checkRelativeName(relativeName, { source: label });
    const links = relativeName === name ? (options.links ?? "follow") : "replace";
    await options.check?.(path);
    await makeFolderInside(directory, dirname(path), relativeName);
    return fileSink(path, { overwrite, links, readOnly: options.readOnly, written });
  };
  /** The path to read for a name. A link may lead out of the folder, so it is followed only if the user named it. */
  const place = async (relativeName: string): Promise<string> => {
    const path = join(directory, relativeName);
    if (relativeName === name && options.links !== "replace") return (await lookAt(path)) ?? path;
    checkRelativeName(relativeName, { source: label });
    const [root, folder] = await Promise.all([directory, dirname(path)].map(lookAt));
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

/** True if `path` is `root` or below it; both are real paths. */
export function isInside(root: string, path: string): boolean {
  const way = relative(root, path);
  return way !== ".." && !way.startsWith(`..${sep}`) && resolve(root, way) === path;
}

/** Makes the folders on the way to the file `name`, and refuses a path that leads out of the root through a link. */
export async function makeFolderInside(root: string, folder: string, name: string): Promise<void> {
  try {
    await makeFolder(root);
    const realRoot = await realpath(root);
    let existing = fullPath(folder);
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
  return realpath(path).catch(ifMissing);
}

async function lookAt(path: string): Promise<string | undefined> {
  return realpathIfAny(path).catch((error: unknown) => {
    throw fileError(error, `Cannot look at "${path}"`, { source: path });
  });
}

/**
 * Resolver for the siblings of a file. Links are followed while they stay in its folder. The one exception is the cache
 * of the Hugging Face tools, where every file of a model is a link into one folder of blobs: if the primary file is
 * such a link, its siblings may be links into that same folder.
 */
export function directoryResolver(filePath: string): Resolver {
  const folder = dirname(filePath);
  const whole = fullPath(folder);
  const beside = folderResolver(filePath, folder);
  return isFolderOfKind(basename(whole)) ? { ...beside, above: folderResolver(filePath, dirname(whole)) } : beside;
}

/** The tools of the Hugging Face Hub keep a model in `models--OWNER--NAME/snapshots/COMMIT`. */
function folderName(folder: string): string | undefined {
  const hub = /(?:^|[\\/])models--[^\\/]*?--([^\\/]+)[\\/]snapshots[\\/][^\\/]+$/.exec(folder);
  return hub?.[1] ?? (basename(folder) || undefined);
}

/** Opens files of a folder for a file in it or below it. */
function folderResolver(filePath: string, folder: string): Resolver {
  return {
    name: basename(filePath),
    folder: folderName(fullPath(folder)),
    async resolve(name: string, options: { readonly signal?: AbortSignal | undefined } = {}): Promise<Source> {
      const at = { source: filePath };
      checkRelativeName(name, at, basename(filePath));
      const label = join(folder, name);
      const real = await findReal(label);
      if (!(await isAllowed(filePath, folder, real))) throw escapeError(name, "a link leads out of its folder", at);
      await checkRegular(real, label);
      return openFile(real, { label, signal: options.signal });
    },
  };
}

async function isAllowed(filePath: string, folder: string, real: string): Promise<boolean> {
  if (isInside(await findReal(folder), real)) return true;
  const primary = await realpath(filePath).catch(() => undefined);
  const isLink = primary !== undefined && primary !== resolve(await findReal(dirname(filePath)), basename(filePath));
  return isLink && dirname(primary) === dirname(real);
}

/** A pipe or device beside the file would block or never end: only files count as siblings. */
async function checkRegular(real: string, label: string): Promise<void> {
  const stats = await stat(real).catch((error: unknown) => {
    throw fileError(error, `Cannot open "${label}"`, { source: label });
  });
  if (stats.isFile() || stats.isDirectory()) return; // openFile has a better message for folders
  const message = `Cannot open "${label}": it is a device, pipe or socket, not a file`;
  throw new SourceError("source/not-a-file", message, { source: label });
}

async function findReal(path: string): Promise<string> {
  try {
    return await realpath(path);
  } catch (error) {
    if (errnoOf(error) === undefined) throw error;
    throw fileError(error, `Cannot open "${path}"`, { source: path });
  }
}
