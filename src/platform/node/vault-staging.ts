import { closeSync, lstatSync, mkdtempSync, openSync, readdirSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { errnoOf, fileError } from "./errors.ts";
import { makeFolderSync } from "./make-folder.ts";
import { syncDescriptor } from "./vault-folders.ts";
import { existsError, publish } from "./vault-target.ts";

/**
 * For systems where folders cannot be reached by their descriptors: extracts into a fresh folder that only this user may
 * enter, then moves what is complete into the root. Folders that exist in both are joined; links in the root are never
 * followed. Between looking at a folder of the root and moving into it, somebody who may write there could exchange it.
 */
export async function stageExtraction<O extends StagedOptions, R>(
  options: O,
  extract: (staged: O) => Promise<R>,
): Promise<R> {
  const { root } = options;
  const label = options.label ?? root;
  let staging: string | undefined;
  try {
    makeFolderSync(root);
    // mkdtemp gives mode 0700.
    staging = mkdtempSync(join(root, ".tare-extract-"));
    const report = await extract({ ...options, root: staging, label });
    moveInto(staging, root, { label, overwrite: options.overwrite });
    return report;
  } finally {
    if (staging !== undefined) rmSync(staging, { recursive: true, force: true });
  }
}

export interface StagedOptions {
  readonly root: string;
  readonly label?: string | undefined;
  readonly overwrite: "refuse" | "replace";
}

interface MoveOptions {
  readonly label: string;
  readonly overwrite: "refuse" | "replace";
}

function moveInto(from: string, to: string, { label, overwrite }: MoveOptions): void {
  const folder = openSync(to, "r");
  try {
    moveEntries(from, to, { label, overwrite });
    syncDescriptor(folder);
  } finally {
    closeSync(folder);
  }
}

function moveEntries(from: string, to: string, { label, overwrite }: MoveOptions): void {
  for (const entry of readdirSync(from, { withFileTypes: true })) {
    const source = join(from, entry.name);
    const target = join(to, entry.name);
    const shown = join(label, entry.name);
    const existing = lstatSync(target, { throwIfNoEntry: false });
    if (entry.isDirectory() && existing?.isDirectory() === true) {
      moveInto(source, target, { label: shown, overwrite });
      continue;
    }
    if (existing !== undefined && (overwrite === "refuse" || entry.isDirectory())) throw existsError(shown);
    try {
      if (entry.isDirectory()) renameSync(source, target);
      else publish(source, target, overwrite);
    } catch (error) {
      if (errnoOf(error) === "EEXIST") throw existsError(shown);
      throw fileError(error, `Cannot extract to "${shown}"`, { source: shown });
    }
  }
}
