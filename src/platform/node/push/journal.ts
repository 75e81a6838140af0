import { createHash } from "node:crypto";
import { constants } from "node:fs";
import { appendFile, rm, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { encodePushEntry, type PushJournal, type PushRecord, parsePushRecord } from "../../../operations/push.ts";
import { cacheFolder } from "../cache/folder.ts";
import { errnoOf, fileError } from "../errors.ts";
import { foreignFolder, foreignness, makeFolder } from "../files/own-folder.ts";
import { readOwnFile } from "../files/reads.ts";
import type { Environment } from "../http/proxy-environment.ts";

/** Ten thousand parts take a few megabytes; a longer journal is not ours. */
const MAX_JOURNAL_BYTES = 64 << 20;
/** Do not wait for a reader, if there is a pipe in its place. */
const APPEND_FLAGS = constants.O_WRONLY | constants.O_APPEND | constants.O_CREAT | (constants.O_NONBLOCK ?? 0);

/** Where uploads record their progress: beside the cache, where `tare cache clear` does not remove it. */
export function pushJournalFolder(environment: Environment): string {
  return join(cacheFolder(environment), "push");
}

/**
 * The journal of one object: a file of lines in `folder`, named after the destination. Lines are only added, so a
 * process that is killed loses at most the line that it was writing.
 */
export function filePushJournal(folder: string, destination: readonly string[]): PushJournal {
  const name = createHash("sha256").update(JSON.stringify(destination)).digest("hex").slice(0, 32);
  const path = join(folder, `${name}.jsonl`);
  const at = { source: path };
  // A journal from another user could make us skip parts that were never sent, so it is ignored.
  const isOurs = async (): Promise<boolean> =>
    (await foreignFolder(folder)) === undefined && (await foreignFolder(dirname(folder))) === undefined;
  return {
    async read(): Promise<PushRecord> {
      try {
        const isKnown = (await isOurs()) && foreignness(await stat(path)) === undefined;
        const bytes = isKnown ? await readOwnFile(path, MAX_JOURNAL_BYTES) : undefined;
        return bytes === undefined ? { parts: new Map(), writes: [] } : parsePushRecord(Buffer.from(bytes).toString());
      } catch (error) {
        if (errnoOf(error) === "ENOENT") return { parts: new Map(), writes: [] };
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
