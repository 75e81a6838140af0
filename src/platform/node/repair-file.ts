import { constants } from "node:fs";
import { copyFile, type FileHandle, open } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import type { Source } from "../../bytes/source.ts";
import type { WritePatch } from "../../operations/correct.ts";
import { errnoOf, fileError } from "./errors.ts";
import { changedError, hasFileChanged } from "./file-source.ts";
import { createPartial, publishExclusive, publishReplacing, removePartial, syncFolder } from "./partial-files.ts";
import { existsError } from "./vault-target.ts";

/** What is to become of a file: every byte of it was proven before. */
export interface ProvenPatches {
  /** Of the file afterwards. */
  readonly byteLength: number;
  apply(write: WritePatch): Promise<void>;
}

/**
 * Writes healed bytes over a file. No copy is made: what is written over is damaged, and every byte that is written is the
 * right one, so that whatever interrupts this leaves a file that is less damaged than before, and the next run heals the
 * rest. `source` is the file as it was examined; one that was changed since is refused.
 */
export async function repairInPlace(path: string, source: Source, repair: ProvenPatches): Promise<void> {
  if (await hasFileChanged(source)) throw changedError(source.label);
  try {
    const handle = await open(path, "r+");
    try {
      await writePatches(handle, repair);
    } finally {
      await handle.close();
    }
  } catch (error) {
    if (errnoOf(error) === undefined) throw error;
    throw fileError(error, `Cannot write "${source.label}"`, { source: source.label });
  }
}

export interface CopyOptions {
  readonly output: string;
  readonly overwrite: "refuse" | "replace";
}

/** Writes a healed copy, which has its name only when it is complete; the damaged file stays as it is. */
export async function repairCopy(
  path: string,
  source: Source,
  repair: ProvenPatches,
  { output, overwrite }: CopyOptions,
): Promise<void> {
  const destination = resolve(output);
  try {
    const partial = await createPartial({ path: destination });
    await partial.handle.close();
    try {
      await copyFile(path, partial.path, constants.COPYFILE_FICLONE);
      const handle = await open(partial.path, "r+");
      try {
        await writePatches(handle, repair);
      } finally {
        await handle.close();
      }
      if (await hasFileChanged(source)) throw changedError(source.label);
      await (overwrite === "replace" ? publishReplacing : publishExclusive)(partial.path, destination);
      await syncFolder(dirname(destination));
    } catch (error) {
      await removePartial(partial.path);
      throw error;
    }
  } catch (error) {
    if (errnoOf(error) === undefined) throw error;
    if (errnoOf(error) === "EEXIST") throw existsError(output);
    throw fileError(error, `Cannot write "${output}"`, { source: output });
  }
}

async function writePatches(handle: FileHandle, { byteLength, apply }: ProvenPatches): Promise<void> {
  await apply(async ({ offset, bytes }) => {
    for (let done = 0; done < bytes.byteLength; ) {
      done += (await handle.write(bytes, done, bytes.byteLength - done, offset + done)).bytesWritten;
    }
  });
  await handle.truncate(byteLength);
  await handle.sync();
}
