import { createHash } from "node:crypto";
import { open, realpath, unlink } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { type Bytes, concatBytes, equalBytes } from "../../../base/bytes.ts";
import { isTareError } from "../../../base/errors.ts";
import { encodeUtf8 } from "../../../base/text.ts";
import { HEADER_BYTES } from "../../../formats/aerovault/layout.ts";
import { errnoOf, fileError } from "../errors.ts";
import {
  adoptPermissions,
  type Destination,
  nameBeside,
  SECTOR_BYTES,
  syncFolder,
  withoutAccessList,
} from "../files/partial-files.ts";
import { allocateBytes, readFileBeside, readFully, writeAll } from "../files/reads.ts";
import { lockVault } from "./lock.ts";
import { isWritable } from "./writable.ts";

/** First bytes of a journal; a digest, the old header and the new one follow. */
const MAGIC = encodeUtf8("tare vault header journal 1\n");
const DIGEST_BYTES = 32;

/** The headers before and after an interrupted change. */
export interface HeaderJournal {
  readonly before: Bytes;
  readonly after: Bytes;
}

/** The journal is beside the vault; `vault` is its real path. */
export function journalPath(vault: string): string {
  return join(dirname(vault), nameBeside(basename(vault), ".tare-header", "."));
}

/**
 * Writes both headers beside the vault and makes them durable: from now on a torn header can be completed. `mode` is
 * that of the vault, whose readers need the journal as well.
 */
export async function writeHeaderJournal(
  vault: string,
  { before, after }: HeaderJournal,
  { mode, owner }: Pick<Destination, "mode" | "owner"> = {},
): Promise<void> {
  const path = journalPath(vault);
  const headers = concatBytes([before, after]);
  // Exclusive: an existing journal belongs to another writer.
  const handle = await open(path, "wx", 0o600);
  try {
    await adoptPermissions({ handle, path }, await withoutAccessList(mode ?? 0o600, vault), owner);
    await handle.writeFile(concatBytes([MAGIC, digestOf(headers), headers]));
    await handle.sync();
    await syncFolder(dirname(path));
  } catch (error) {
    await unlink(path);
    throw error;
  } finally {
    await handle.close();
  }
}

/** Removes the journal, if there is one. */
export async function removeHeaderJournal(vault: string): Promise<void> {
  const path = journalPath(vault);
  await unlink(path).catch((error: unknown) => {
    if (errnoOf(error) !== "ENOENT") throw fileError(error, `Cannot remove "${path}"`, { source: path });
  });
}

/** Undefined if there is none, or if it was not completely written: then the header was not touched. */
export async function readHeaderJournal(vault: string): Promise<HeaderJournal | undefined> {
  const byteLength = MAGIC.byteLength + DIGEST_BYTES + 2 * HEADER_BYTES;
  const whole = await readFileBeside(journalPath(vault), byteLength);
  if (whole?.byteLength !== byteLength) return undefined;
  const headers = whole.subarray(MAGIC.byteLength + DIGEST_BYTES);
  const digest = whole.subarray(MAGIC.byteLength, MAGIC.byteLength + DIGEST_BYTES);
  if (!equalBytes(whole.subarray(0, MAGIC.byteLength), MAGIC) || !equalBytes(digest, digestOf(headers)))
    return undefined;
  return { before: headers.slice(0, HEADER_BYTES), after: headers.slice(HEADER_BYTES) };
}

/**
 * The header that a vault should have if a crash tore it; undefined if it is whole, or if it does not match the
 * journal. Everything that the new header refers to was durable before the journal was written.
 */
export function mendedHeader(found: Bytes, { before, after }: HeaderJournal): Bytes | undefined {
  if (equalBytes(found, before) || equalBytes(found, after)) return undefined;
  for (let start = 0; start < HEADER_BYTES; start += SECTOR_BYTES) {
    const sector = found.subarray(start, start + SECTOR_BYTES);
    const isOld = equalBytes(sector, before.subarray(start, start + SECTOR_BYTES));
    if (!isOld && !equalBytes(sector, after.subarray(start, start + SECTOR_BYTES))) return undefined;
  }
  return after;
}

/** The header that the vault should have; undefined if its header is whole. */
export async function findMendedHeader(real: string): Promise<Bytes | undefined> {
  const journal = await readHeaderJournal(real);
  const found = journal === undefined ? undefined : await readHeaderBytes(real);
  return journal === undefined || found === undefined ? undefined : mendedHeader(found, journal);
}

async function readHeaderBytes(real: string): Promise<Bytes | undefined> {
  const handle = await open(real, "r");
  try {
    if ((await handle.stat()).size < HEADER_BYTES) return undefined;
    const header = allocateBytes(HEADER_BYTES);
    await readFully(handle, header, { offset: 0, label: real });
    return header;
  } finally {
    await handle.close();
  }
}

/** How long a reader waits for a writer that is about to complete its header. */
const READER_WAIT_MS = 1000;

/**
 * For readers: completes a header that a crash tore, and touches nothing else. True if there was something to complete.
 * Does nothing if it cannot, on a read-only disk or while another process holds the lock: opening then takes the header
 * from the journal.
 */
export async function completeTornHeader(path: string, signal?: AbortSignal): Promise<boolean> {
  try {
    const real = await realpath(path);
    if ((await findMendedHeader(real)) === undefined || !(await isWritable(real))) return false;
    const lock = await lockVault(real, { signal, waitMs: READER_WAIT_MS });
    try {
      // The writer has ended by now; its header is whole, or stays torn.
      const mended = await findMendedHeader(real);
      if (mended !== undefined) await writeHeaderBytes(real, mended);
      return mended !== undefined;
    } finally {
      await lock.release();
    }
  } catch (error) {
    if (isTareError(error) || errnoOf(error) !== undefined) return false;
    throw error;
  }
}

/** Completes a header that a crash tore. The caller holds the lock. */
export async function completeHeader(real: string, onNote: (text: string) => void): Promise<void> {
  const journal = await readHeaderJournal(real);
  const found = journal === undefined ? undefined : await readHeaderBytes(real);
  if (journal !== undefined && found !== undefined) {
    const mended = mendedHeader(found, journal);
    const isWhole = equalBytes(found, journal.before) || equalBytes(found, journal.after);
    // A whole header may be in memory alone, where its writer could not make it durable. Until it is, the journal is
    // needed; and the system may take pages for written that it failed to write, so they are written again.
    if (mended !== undefined || isWhole) await writeHeaderBytes(real, mended ?? found);
    if (mended !== undefined) onNote("completed a change of the vault that had been interrupted");
  }
  await removeHeaderJournal(real);
}

async function writeHeaderBytes(real: string, header: Bytes): Promise<void> {
  const handle = await open(real, "r+");
  try {
    await writeAll(handle, header, 0);
    await handle.sync();
  } catch (error) {
    throw fileError(error, `Cannot write "${real}"`, { source: real });
  } finally {
    await handle.close();
  }
}

function digestOf(bytes: Bytes): Bytes {
  return new Uint8Array(createHash("sha256").update(bytes).digest());
}
