import { createHash, createHmac } from "node:crypto";
import { lstat, open, realpath, unlink } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { type Bytes, concatBytes, equalBytes } from "../../../base/bytes.ts";
import { isTareError } from "../../../base/errors.ts";
import { resolveLimits } from "../../../base/limits.ts";
import { encodeUtf8 } from "../../../base/text.ts";
import { checkSections, decodeHeader } from "../../../formats/aerovault/header.ts";
import { plainKeys, type VaultKeys, wipeKeys } from "../../../formats/aerovault/keys.ts";
import { HEADER_BYTES, PLAINTEXT_FLAG, withoutMac } from "../../../formats/aerovault/layout.ts";
import { AEROVAULT_LIMITS, type AerovaultLimits } from "../../../formats/aerovault/limits.ts";
import type { Finding } from "../../../model/finding.ts";
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

/** The journal beside a vault, as far as it is believed. */
interface FoundJournal {
  /** Undefined if there is none, or if it was not completely written: then the header was not touched. */
  readonly journal: HeaderJournal | undefined;
  /** Why the file there is not believed; then it is left alone. */
  readonly problem: string | undefined;
}

export async function readHeaderJournal(vault: string): Promise<HeaderJournal | undefined> {
  return (await findJournal(vault)).journal;
}

async function findJournal(vault: string): Promise<FoundJournal> {
  const byteLength = MAGIC.byteLength + DIGEST_BYTES + 2 * HEADER_BYTES;
  const { bytes: whole, problem } = await readFileBeside(journalPath(vault), vault, byteLength);
  const nothing = { journal: undefined, problem };
  if (whole?.byteLength !== byteLength) return nothing;
  const headers = whole.subarray(MAGIC.byteLength + DIGEST_BYTES);
  const digest = whole.subarray(MAGIC.byteLength, MAGIC.byteLength + DIGEST_BYTES);
  if (!equalBytes(whole.subarray(0, MAGIC.byteLength), MAGIC) || !equalBytes(digest, digestOf(headers))) return nothing;
  return { ...nothing, journal: { before: headers.slice(0, HEADER_BYTES), after: headers.slice(HEADER_BYTES) } };
}

/** Says so if there is a journal that is not believed: another user can have put it there. */
export async function findForeignJournal(real: string): Promise<Finding | undefined> {
  const { problem } = await lookBeside(real);
  return problem === undefined ? undefined : foreignJournalDoubt(real, journalPath(real), problem);
}

/** True if something is in the way of a journal, so that no header can be written in place. */
export function isJournalTaken(real: string): Promise<boolean> {
  return lstat(journalPath(real)).then(
    () => true,
    () => false,
  );
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
  return (await lookBeside(real)).mended;
}

interface Beside extends FoundJournal {
  readonly mended?: Bytes | undefined;
  /** The header that the vault has; undefined if there is no journal. */
  readonly found?: Bytes | undefined;
}

/** Compares the header of a vault with the journal beside it. `keys` gives those of the vault, if they are known. */
async function lookBeside(real: string, keys?: () => VaultKeys): Promise<Beside> {
  const beside = await findJournal(real);
  const { journal } = beside;
  const head = journal === undefined ? undefined : await readHead(real);
  const mended = journal === undefined || head === undefined ? undefined : mendedHeader(head.header, journal);
  const found = head?.header;
  if (head === undefined || mended === undefined) return { ...beside, found };
  const fault = findFault(mended, head.byteLength, keys);
  if (fault === undefined) return { ...beside, found, mended };
  return { journal: undefined, found, problem: `completes the header to one that does not fit the vault (${fault})` };
}

/**
 * Why a header is not one that a writer of this vault made; undefined if it may be one. Without the keys, only the MAC of
 * a vault that has no encryption can be compared.
 */
function findFault(header: Bytes, byteLength: number, keys: (() => VaultKeys) | undefined): string | undefined {
  const at = { source: "vault", offset: 0 };
  let known: VaultKeys | undefined;
  try {
    const values = decodeHeader(header, at);
    checkSections(values, byteLength, UNLIMITED, at);
    known = (values.flags & PLAINTEXT_FLAG) === 0 ? keys?.() : plainKeys();
    if (known === undefined) return undefined;
    const mac = createHmac("sha512", known.mac).update(withoutMac(header)).digest();
    return equalBytes(new Uint8Array(mac), values.mac) ? undefined : "its HMAC does not match";
  } catch (error) {
    if (isTareError(error)) return error.message;
    throw error;
  } finally {
    if (known !== undefined) wipeKeys(known);
  }
}

/** Opening has limits; whether a header fits its file does not depend on them. */
const UNLIMITED: AerovaultLimits = {
  ...resolveLimits("aerovault", AEROVAULT_LIMITS),
  manifestBytes: Number.MAX_SAFE_INTEGER,
  directoryBytes: Number.MAX_SAFE_INTEGER,
};

interface Head {
  readonly header: Bytes;
  /** Length of the file. */
  readonly byteLength: number;
}

async function readHead(real: string): Promise<Head | undefined> {
  const handle = await open(real, "r");
  try {
    const { size: byteLength } = await handle.stat();
    if (byteLength < HEADER_BYTES) return undefined;
    const header = allocateBytes(HEADER_BYTES);
    await readFully(handle, header, { offset: 0, label: real });
    return { header, byteLength };
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

/** Who hears of a completed header, and the keys of the vault if they are known. */
export interface CompletionContext {
  readonly onNote: (text: string) => void;
  /** Gets the warning about a journal that is not believed; a note if absent. */
  readonly onWarning?: ((finding: Finding) => void) | undefined;
  /** Copies of them, which are wiped. */
  readonly keys?: (() => VaultKeys) | undefined;
}

/**
 * Completes a header that a crash tore, and removes the journal. The caller holds the lock. A journal that is not
 * believed stays, because its owner may need it; writers copy the vault as long as it is there.
 */
export async function completeHeader(
  real: string,
  { onNote, onWarning = ({ message }) => onNote(message), keys }: CompletionContext,
): Promise<void> {
  const { journal, found, mended, problem } = await lookBeside(real, keys);
  if (problem !== undefined) {
    onWarning(foreignJournalDoubt(real, journalPath(real), problem));
    return;
  }
  if (journal !== undefined && found !== undefined) {
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

/** The warning about a journal that is not believed. `file` is what it is beside. */
function foreignJournalDoubt(file: string, journal: string, problem: string): Finding {
  const message = `"${file}" is used as it is, without "${journal}", which may say how an interrupted write of it ends: the file there ${problem}`;
  const hint =
    "Have its owner open the file, which finishes what was interrupted; remove it only if the file opens and is right without it";
  return { severity: "warning", code: "source/journal.foreign", message, at: { source: file }, hint };
}
