import { isTareError, SourceError } from "../base/errors.ts";
import { checkRelativeName, isFolderOfKind, type Resolver } from "../bytes/resolver.ts";
import type { Archive } from "./archive.ts";

/** Reaches the entries beside one of an archive: the shards of a model whose index lies in a vault. */
export function archiveResolver(archive: Archive, path: string): Resolver {
  const folder = path.slice(0, path.lastIndexOf("/") + 1);
  const beside = folderResolver(archive, path, folder);
  const [, above = "", name = ""] = /^(.*?)([^/]*)\/$/.exec(folder) ?? [];
  return isFolderOfKind(name) ? { ...beside, above: folderResolver(archive, path, above) } : beside;
}

/** Reaches what stands in a folder, for the sake of a file in it or below it. */
function folderResolver(archive: Archive, path: string, folder: string): Resolver {
  const label = archive.parts[0]?.label ?? archive.format;
  const own = path.slice(path.lastIndexOf("/") + 1);
  return {
    name: own,
    async resolve(name) {
      checkRelativeName(name, { source: `${label}::${path}` }, own);
      try {
        return archive.entry(folder + name).source();
      } catch (error) {
        if (!isTareError(error) || !error.code.startsWith("usage/")) throw error;
        const message = `Cannot find "${name}" beside "${path}" in the archive`;
        throw new SourceError("source/not-found", message, { source: `${label}::${folder}${name}` }, { cause: error });
      }
    },
  };
}
