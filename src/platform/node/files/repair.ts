import type { Stats } from "node:fs";
import { type FileHandle, open, stat } from "node:fs/promises";
import { dirname } from "node:path";
import { existsError } from "../../../bytes/sink.ts";
import type { Source } from "../../../bytes/source.ts";
import type { WritePatch } from "../../../operations/correct.ts";
import { errnoOf, fileError, fullPath } from "../errors.ts";
import {
  checkUnprotected,
  createPartial,
  type Destination,
  newCopy,
  type Privacy,
  privacyOf,
  publishExclusive,
  publishReplacing,
  removePartial,
  syncFolder,
  withoutGroup,
} from "./partial-files.ts";
import { copyBytes, writeAll } from "./reads.ts";
import { changedError, hasFileChanged } from "./source.ts";

/** The changes of a file: every byte of it was proven before. */
export interface ProvenPatches {
  /** Length of the repaired file. */
  readonly byteLength: number;
  apply(write: WritePatch): Promise<void>;
}

/**
 * Writes healed bytes over a file. No copy is needed: the overwritten bytes are damaged, and every written byte is
 * right. So an interruption leaves a file that is less damaged than before, and the next run heals the rest. `source`
 * is the file as it was examined; a file that changed since is refused.
 */
export async function repairInPlace(path: string, source: Source, repair: ProvenPatches): Promise<void> {
  if (await hasFileChanged(source)) throw changedError(source.label);
  try {
    await checkUnprotected(path, source.label);
    const handle = await open(path, "r+");
    try {
      await writePatches(handle, repair);
    } finally {
      await handle.close();
    }
  } catch (error) {
    throw fileError(error, `Cannot write "${source.label}"`, { source: source.label });
  }
}

export interface CopyOptions {
  readonly output: string;
  readonly overwrite: "refuse" | "replace";
}

/** Writes a healed copy, which gets its name only when it is complete; the damaged file stays as it is. */
export async function repairCopy(
  path: string,
  source: Source,
  repair: ProvenPatches,
  { output, overwrite }: CopyOptions,
): Promise<void> {
  const destination = fullPath(output);
  try {
    // The copy is as private as the file, and as what it replaces.
    if (overwrite === "replace") await checkUnprotected(destination, output);
    const like = await privacyOf(path);
    const replaced = overwrite === "replace" ? await stat(destination).catch(() => undefined) : undefined;
    const partial = await createPartial({ path: destination, ...copyPermissions(like, replaced) });
    try {
      try {
        // The system's own copy would have all bits of the file for a moment.
        await copyBytes(path, partial.handle, (await stat(path)).size);
        await writePatches(partial.handle, repair);
      } finally {
        await partial.handle.close();
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

/** Those of the file, and of what the copy replaces: its group stays, and gets bits only if the file gives it some. */
function copyPermissions(like: Privacy, replaced: Stats | undefined): Omit<Destination, "path"> {
  const copy = newCopy(like);
  if (replaced === undefined) return copy;
  const { uid, gid } = replaced;
  const most = gid === like.owner.gid ? like.mode : withoutGroup(like.mode);
  return { mode: most & (replaced.mode | 0o600), owner: { uid, gid }, like: like.path };
}

async function writePatches(handle: FileHandle, { byteLength, apply }: ProvenPatches): Promise<void> {
  await apply(async ({ offset, bytes }) => {
    await writeAll(handle, bytes, offset);
  });
  await handle.truncate(byteLength);
  await handle.sync();
}
