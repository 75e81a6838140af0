import { SourceError, UsageError } from "../../base/errors.ts";
import { untilAborted } from "../abort.ts";
import { blobSource } from "../blob.ts";
import { checkRelativeName, type Resolver } from "../resolver.ts";
import type { Source } from "../source.ts";
import { type DirectoryHandle, handleError, isMissing } from "./handle.ts";

/** Reading folders that the user picked: apart from single files, because few pages open folders. */

/** The names in a folder that do not begin with a dot. */
export async function namesIn(folder: DirectoryHandle): Promise<readonly string[]> {
  if (folder.keys === undefined) {
    const message = "Cannot look into the directory handle: it cannot list its names";
    throw new UsageError("usage/input", message, { source: folder.name }, { hint: "Pass the handle of a file in it" });
  }
  const names: string[] = [];
  try {
    for await (const name of folder.keys()) if (!name.startsWith(".")) names.push(name);
  } catch (cause) {
    throw handleError(`Cannot read "${folder.name}"`, folder.name, cause);
  }
  return names;
}

/** Opens the files of a folder by name, until an abort; `name` is the file that it belongs to. */
export function handleResolver(folder: DirectoryHandle, name: string, signal?: AbortSignal): Resolver {
  return {
    name,
    folder: folder.name === "" ? undefined : folder.name,
    async resolve(wanted) {
      const source = await untilAborted(peekIn(folder, wanted), signal);
      if (source !== undefined) return source;
      const at = { source: folder.name };
      throw new SourceError("source/not-found", `Cannot find "${wanted}" beside "${name}"`, at);
    },
  };
}

/** The folder of that name; undefined if it is a file, or gone. */
export async function folderIn(folder: DirectoryHandle, name: string): Promise<DirectoryHandle | undefined> {
  try {
    return await folder.getDirectoryHandle(name);
  } catch (error) {
    if (isMissing(error) || (error instanceof Error && error.name === "TypeMismatchError")) return undefined;
    throw handleError(`Cannot read "${name}"`, folder.name, error);
  }
}

/** The file of that name, which must be there. */
export async function fileIn(folder: DirectoryHandle, name: string): Promise<Source> {
  const found = await peekIn(folder, name);
  if (found !== undefined) return found;
  throw new SourceError("source/not-found", `Cannot find "${name}" in the folder`, { source: folder.name });
}

/** The file of that name; undefined if there is none. */
export async function peekIn(folder: DirectoryHandle, name: string): Promise<Source | undefined> {
  checkRelativeName(name, { source: folder.name });
  const steps = name.split("/");
  const last = steps.pop() as string;
  try {
    let place = folder;
    for (const step of steps) place = await place.getDirectoryHandle(step);
    return blobSource(await (await place.getFileHandle(last)).getFile(), name);
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw handleError(`Cannot read "${name}"`, folder.name, error);
  }
}
