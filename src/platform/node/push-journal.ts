import { createHash } from "node:crypto";
import { constants } from "node:fs";
import { appendFile, rm, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { encodePushEntry, type PushJournal, type PushRecord, parsePushRecord } from "../../operations/push.ts";
import { cacheFolder } from "./cache-place.ts";
import { errnoOf, fileError } from "./errors.ts";
import { readFileBeside } from "./file-reads.ts";
import { makeFolder } from "./make-folder.ts";
import { foreignFolder, foreignness } from "./own-folder.ts";
import type { Environment } from "./proxy-environment.ts";

/** Ten thousand parts take a few megabytes; a longer one is not ours. */
const MAX_JOURNAL_BYTES = 64 << 20;
/** Without waiting for a reader, where somebody put a pipe there. */
const APPEND_FLAGS = constants.O_WRONLY | constants.O_APPEND | constants.O_CREAT | (constants.O_NONBLOCK ?? 0);

/** Where uploads write down how far they got: beside the cache, which `tare cache clear` leaves alone. */
export function pushJournalFolder(environment: Environment): string {
  return join(cacheFolder(environment), "push");
}

/**
 * The journal of one object, a file of lines in `folder`, named after what identifies the destination. Lines are only
 * ever added, so a process that is killed loses at most the one it was writing.
 */
export function filePushJournal(folder: string, destination: readonly string[]): PushJournal {
  const name = createHash("sha256").update(JSON.stringify(destination)).digest("hex").slice(0, 32);
  const path = join(folder, `${name}.jsonl`);
  const at = { source: path };
  // A journal that somebody else may have written would have parts skipped that were never sent: it says nothing then.
  const isOurs = async (): Promise<boolean> =>
    (await foreignFolder(folder)) === undefined && (await foreignFolder(dirname(folder))) === undefined;
  return {
    async read(): Promise<PushRecord> {
      try {
        const isKnown = (await isOurs()) && foreignness(await stat(path)) === undefined;
        const bytes = isKnown ? await readFileBeside(path, MAX_JOURNAL_BYTES) : undefined;
        return bytes === undefined ? { parts: new Map() } : parsePushRecord(Buffer.from(bytes).toString());
      } catch (error) {
        if (errnoOf(error) === "ENOENT") return { parts: new Map() };
        throw fileError(error, `Cannot read the journal "${path}"`, at);
      }
    },
    async add(entry): Promise<void> {
      try {
        if (!(await isOurs())) return;
        await makeFolder(folder, 0o700);
        await appendFile(path, encodePushEntry(entry), { mode: 0o600, flag: APPEND_FLAGS });
      } catch (error) {
        throw fileError(error, `Cannot write the journal "${path}"`, at);
      }
    },
    async clear(): Promise<void> {
      await rm(path, { force: true });
    },
  };
}
