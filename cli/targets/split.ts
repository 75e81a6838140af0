import { stat } from "node:fs/promises";
import { splitInnerPaths } from "../../src/bytes/resolver.ts";

export interface TargetsAndGlobs {
  readonly targets: readonly string[];
  readonly globs: readonly string[];
}

/**
 * Tells TARGETs from GLOBs, as `ls` takes them: the first argument is a TARGET, and so is each other one that exists as a
 * file, that is inside one (`vault::path`), or that is an address. A folder in its place must end in a slash, because
 * folders of a vault have such names too.
 */
export async function splitTargets([first = "", ...others]: readonly string[]): Promise<TargetsAndGlobs> {
  const targets = [first];
  const globs: string[] = [];
  for (const text of others) ((await isTarget(text)) ? targets : globs).push(text);
  return { targets, globs };
}

async function isTarget(text: string): Promise<boolean> {
  if (/^[a-z][a-z0-9+.-]+:\/\//i.test(text)) return true;
  const [outer = ""] = splitInnerPaths(text);
  const facts = (await stat(text).catch(() => undefined)) ?? (await stat(outer).catch(() => undefined));
  return facts?.isDirectory() === true ? /[\\/]$/.test(text) : facts !== undefined;
}
