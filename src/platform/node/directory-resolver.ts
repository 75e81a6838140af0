import { realpath, stat } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { SourceError } from "../../base/errors.ts";
import { checkRelativeName, escapeError, isFolderOfKind, type Resolver } from "../../bytes/resolver.ts";
import type { Source } from "../../bytes/source.ts";
import { isInside } from "./directory-output.ts";
import { errnoOf, fileError } from "./errors.ts";
import { openFile } from "./file-source.ts";

/**
 * Resolver for the siblings of a file. Links are followed while they stay in its folder. The one exception is
 * the cache of the Hugging Face tools, where every file of a model is a link into one folder of blobs: where
 * the primary file is such a link, its siblings may be links into that same folder.
 */
export function directoryResolver(filePath: string): Resolver {
  const folder = dirname(filePath);
  const whole = resolve(folder);
  const beside = folderResolver(filePath, folder);
  return isFolderOfKind(basename(whole)) ? { ...beside, above: folderResolver(filePath, dirname(whole)) } : beside;
}

/** Reaches what stands in a folder, for the sake of a file in it or below it. */
function folderResolver(filePath: string, folder: string): Resolver {
  return {
    name: basename(filePath),
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
  if (stats.isFile() || stats.isDirectory()) return; // openFile has better words for folders
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
