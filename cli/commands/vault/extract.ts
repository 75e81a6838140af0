import { printable } from "../../../src/base/text.ts";
import { VaultArchive, type VaultEntry } from "../../../src/formats/aerovault/vault-archive.ts";
import type { Archive, Entry } from "../../../src/model/archive.ts";
import { parseTarget } from "../../../src/platform/node/target.ts";
import { defineCommand } from "../../command.ts";
import type { Context } from "../../context.ts";
import { EXIT, type ExitCode } from "../../exit-codes.ts";
import { overwriteOf, requireOutput } from "../../output-target.ts";
import { formatSize, plural } from "../../render/sizes.ts";
import { entryGlobs, selectByName } from "../../select-tensors.ts";
import { openArchive } from "./open-vault.ts";

export const vaultExtractCommand = defineCommand({
  positionals: { names: ["VAULT", "GLOB"], min: 1, max: Number.MAX_SAFE_INTEGER },
  flags: {},
  details: [
    "Writes entries below -o DIR, which is made where it is missing: all of them, or those that match a GLOB, in which * crosses slashes; a directory that matches comes with all in it. Times are those that were stored; so are permissions, but for what the umask takes away and set-user-id and the like.",
    "No file is visible before it is complete, and nothing that exists is replaced without --force. Links inside DIR are never followed: one that stands where a folder is needed stops the command, and one in the place of a file is replaced with --force, not written through. Entries that would take the place of the vault itself, or of its sidecar, lock or journal, are refused.",
  ],
  examples: [
    { command: "tare vault extract models.aerovault -o out", says: "everything" },
    { command: 'tare vault extract models.aerovault "llama/*" -o out', says: "some of it" },
  ],
  output: "data",
  async run(context, { positionals }) {
    const root = requireOutput(context, "a directory");
    const [target = "", ...globs] = positionals;
    // Threads start while the password is being turned into a key.
    await context.expectHashing(target);
    const { container, label } = await openArchive(context, target);
    return extractArchive(context, container, { target, root, globs, label });
  },
});

export interface Extraction {
  /** The vault as the user named it. */
  readonly target: string;
  readonly root: string;
  readonly globs: readonly string[];
  readonly label: string;
}

/** Writes entries of a vault to disk, and reports it. */
export async function extractArchive(
  context: Context,
  archive: Archive,
  { target, root, globs, label }: Extraction,
): Promise<ExitCode> {
  const entries = select(archive.entries, globs, label);
  const { checkBesideVault } = await import("../../../src/platform/node/extract-places.ts");
  for (const vault of filesOf(target)) {
    checkBesideVault(
      vault,
      root,
      entries.map(({ path }) => path),
    );
  }
  const files = entries.filter(({ type }) => type === "file");
  const byteLength = files.reduce((sum, { size }) => sum + size, 0);
  const dryRun = context.flags["dry-run"] === true;
  if (!dryRun) {
    const progress = context.progress({ label: "extracting", total: byteLength });
    await write(context, archive, { root, entries, files: files.length, byteLength, progress });
    progress.end();
  }
  const counts = { files: files.length, directories: entries.length - files.length, byteLength };
  await context.show({
    json: () => ({ directory: root, dryRun, ...counts }),
    text: () => {
      const verb = dryRun ? "would write" : "wrote";
      return `${verb} ${plural(counts.files, "file")}, ${formatSize(byteLength)}, to ${printable(root)}`;
    },
  });
  return EXIT.success;
}

/** The file on disk that a target is read from: the text as it stands, or the outermost vault of one inside another. */
function filesOf(target: string): readonly string[] {
  const { outer, kind } = parseTarget(target);
  return kind === "path" ? [...new Set([target, outer])] : [];
}

interface Writing {
  readonly root: string;
  readonly entries: readonly Entry[];
  readonly files: number;
  readonly byteLength: number;
  readonly progress: { add(byteLength: number): void };
}

/** Version 3 by jobs that other threads can do; older ones file by file. */
async function write(context: Context, archive: Archive, work: Writing): Promise<void> {
  const { root, entries, files, byteLength, progress } = work;
  const { signal } = context;
  const onProgress = (done: number): void => progress.add(done);
  const options = { root, overwrite: overwriteOf(context), signal, onProgress };
  if (!(archive instanceof VaultArchive)) {
    const { extractArchiveEntries } = await import("../../../src/platform/node/archive-extract.ts");
    await extractArchiveEntries(entries, options);
    return;
  }
  const [{ extractEntries }, { extractRunner, isWorthWorkers }] = await Promise.all([
    import("../../../src/platform/node/vault-extract.ts"),
    import("../../../src/platform/node/vault-runner.ts"),
  ]);
  const engine = await context.engine();
  const jobs = { engine, byteLength, files, signal, onProgress };
  if (isWorthWorkers(jobs)) engine.expect?.(Number.MAX_SAFE_INTEGER);
  const records = entries.map((entry) => (entry as VaultEntry).record);
  await extractEntries(archive.vault, records, { ...options, engine, ...extractRunner(jobs) });
}

/** Entries that match, and all that lies in directories that do, whether these are entries themselves or not. */
function select(entries: readonly Entry[], globs: readonly string[], label: string): readonly Entry[] {
  return selectByName(entries, entryGlobs(globs), { namesOf: ({ path }) => pathsTo(path), what: "entry", label });
}

/** A path and those of the directories that it lies in. */
function pathsTo(path: string): readonly string[] {
  const paths = [path];
  for (let slash = path.lastIndexOf("/"); slash > 0; slash = path.lastIndexOf("/", slash - 1)) {
    paths.push(path.slice(0, slash));
  }
  return paths;
}
