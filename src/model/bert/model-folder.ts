import { isTareError } from "../../base/errors.ts";
import type { Resolver } from "../../bytes/resolver.ts";
import type { Container } from "../archive.ts";
import { isConfiguration, type ModelFolder, ownConfiguration } from "../configuration.ts";
import { findingFromError } from "../finding.ts";
import { Metadata } from "../metadata.ts";
import { Sidecars } from "./sidecars.ts";

/** The `config.json` of a folder that a user named as the model. */

/** Reads the configuration beside the weights. A file that cannot be read is told, and takes nothing else away. */
async function readModelFolder(
  name: string,
  beside: Resolver | undefined,
  signal?: AbortSignal | undefined,
): Promise<ModelFolder> {
  try {
    const entries = await new Sidecars(beside, signal).configuration();
    const configuration = entries === undefined ? undefined : new Metadata(entries);
    return { name, configuration: configuration && isConfiguration(configuration) ? configuration : undefined };
  } catch (error) {
    signal?.throwIfAborted();
    if (isTareError(error)) return { name, problem: findingFromError(error, "warning") };
    throw error;
  }
}

/** What was opened, by the name of its folder or of a file. */
interface OpenedFolder {
  readonly container: Container;
  /** Where a folder was named. */
  readonly folder?: string | undefined;
  readonly siblings?: Resolver | undefined;
}

/** What the folder says of its model: read where a folder was named. A file that holds a configuration has its own. */
export async function folderOf(
  { container, folder, siblings }: OpenedFolder,
  signal?: AbortSignal | undefined,
): Promise<ModelFolder | undefined> {
  if (container.kind !== "model") return undefined;
  const own = ownConfiguration(container.metadata);
  if (own !== undefined) return { name: folder, configuration: own };
  return folder === undefined ? undefined : readModelFolder(folder, siblings, signal);
}
