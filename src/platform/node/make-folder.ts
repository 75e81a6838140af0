import { mkdirSync, statSync } from "node:fs";
import { mkdir, stat } from "node:fs/promises";
import { dirname } from "node:path";
import { errnoOf } from "./errors.ts";

/**
 * Makes a folder and those above it that are missing; true where it was not there. Node's own `recursive` answers ENOENT
 * for most of what can go wrong (a read-only file system, a used up quota) and never ends below /proc: this throws what
 * the system said.
 */
export async function makeFolder(path: string, mode?: number): Promise<boolean> {
  const make = async (): Promise<boolean> => {
    try {
      await mkdir(path, mode);
      return true;
    } catch (error) {
      // EEXIST mostly; for folders like "/" and on read-only file systems others come first.
      const facts = await stat(path).catch((other: unknown) => {
        throw errnoOf(other) === "ENOENT" ? error : other;
      });
      if (facts.isDirectory()) return false;
      throw error;
    }
  };
  return make().catch(async (error: unknown) => {
    if (errnoOf(error) !== "ENOENT" || dirname(path) === path) throw error;
    await makeFolder(dirname(path), mode);
    return make();
  });
}

/** The same at once. */
export function makeFolderSync(path: string, mode?: number): boolean {
  const make = (): boolean => {
    try {
      mkdirSync(path, mode);
      return true;
    } catch (error) {
      if (statSync(path, { throwIfNoEntry: false })?.isDirectory() === true) return false;
      throw error;
    }
  };
  try {
    return make();
  } catch (error) {
    if (errnoOf(error) !== "ENOENT" || dirname(path) === path) throw error;
    makeFolderSync(dirname(path), mode);
    return make();
  }
}
