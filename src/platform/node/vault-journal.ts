import { createHash } from "node:crypto";
import { open, realpath, unlink } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { type Bytes, concatBytes, equalBytes } from "../../base/bytes.ts";
import { isTareError } from "../../base/errors.ts";
import { encodeUtf8 } from "../../base/text.ts";
import { HEADER_BYTES } from "../../formats/aerovault/layout.ts";
import { errnoOf, fileError } from "./errors.ts";
import { allocateBytes, readFileBeside, readFully } from "./file-reads.ts";
import { nameBeside, syncFolder } from "./partial-files.ts";
import { lockVault } from "./vault-lock.ts";

/** First bytes of a journal; what follows is a digest, the old header and the new one. */
const MAGIC = encodeUtf8("tare vault header journal 1\n");
const DIGEST_BYTES = 32;
/** What disks write in one piece: a crash leaves each of these runs old or new, never mixed. */
const SECTOR_BYTES = 512;

/** The two headers between which an interrupted change stands. */
export interface HeaderJournal {
  readonly before: Bytes;
  readonly after: Bytes;
}

/** Beside the vault, whose real path this takes. */
export function journalPath(vault: string): string {
  return join(dirname(vault), nameBeside(basename(vault), ".tare-header", "."));
}

/**
 * Puts both headers beside the vault and makes that durable: from now on a torn header can be completed. `mode` is that of
 * the vault, whose readers need the journal as well.
 */
export async function writeHeaderJournal(vault: string, { before, after }: HeaderJournal, mode = 0o600): Promise<void> {
  const path = journalPath(vault);
  const headers = concatBytes([before, after]);
  // Exclusively: one that is there already is that of another writer.
  const handle = await open(path, "wx", 0o600);
  try {
    await handle.chmod(mode);
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

/** Removes the journal, where there is one. */
export async function removeHeaderJournal(vault: string): Promise<void> {
  const path = journalPath(vault);
  await unlink(path).catch((error: unknown) => {
    if (errnoOf(error) !== "ENOENT") throw fileError(error, `Cannot remove "${path}"`, { source: path });
  });
}

/** Undefined where there is none, or one that was not written to its end: the header was not touched then. */
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
 * The header that a vault should have where a crash tore it, undefined where it is whole or is not what the journal speaks
 * of. Everything that the new header refers to was durable before the journal was written.
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

/** The header that the vault should have; undefined where it has one that is whole. */
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
 * For readers: completes a header that a crash tore while it was written, and touches nothing else. True where there was
 * something to complete. Where that cannot be done, on a disk that may not be written to or while another process has the
 * lock, nothing is: opening then takes the header from the journal.
 */
export async function completeTornHeader(path: string, signal?: AbortSignal): Promise<boolean> {
  try {
    const real = await realpath(path);
    if ((await findMendedHeader(real)) === undefined) return false;
    const lock = await lockVault(real, { signal, waitMs: READER_WAIT_MS });
    try {
      // Whoever was writing has ended by now; what it left is whole, or torn for good.
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

/** Completes a header that a crash tore while it was written. The caller holds the lock. */
export async function completeHeader(real: string, onNote: (text: string) => void): Promise<void> {
  const mended = await findMendedHeader(real);
  if (mended !== undefined) {
    await writeHeaderBytes(real, mended);
    onNote("note: completed a change of the vault that had been interrupted");
  }
  await removeHeaderJournal(real);
}

async function writeHeaderBytes(real: string, header: Bytes): Promise<void> {
  const handle = await open(real, "r+");
  try {
    for (let done = 0; done < header.byteLength; ) {
      done += (await handle.write(header, done, header.byteLength - done, done)).bytesWritten;
    }
    await handle.sync();
  } finally {
    await handle.close();
  }
}

function digestOf(bytes: Bytes): Bytes {
  return new Uint8Array(createHash("sha256").update(bytes).digest());
}
