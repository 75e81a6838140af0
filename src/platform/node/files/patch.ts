import { createHash } from "node:crypto";
import { closeSync, fstatSync, fsyncSync, openSync, readSync, writeSync } from "node:fs";
import { realpath, unlink } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { type Bytes, equalBytes } from "../../../base/bytes.ts";
import { isTareError, SourceError } from "../../../base/errors.ts";
import { overlaidSource, overlayBytes } from "../../../bytes/derived.ts";
import type { Sink } from "../../../bytes/sink.ts";
import { errnoOf, fileError } from "../errors.ts";
import type { Environment } from "../http/proxy-environment.ts";
import { checkUnprotected, nameBeside, privacyOf, SECTOR_BYTES, syncFolder } from "./partial-files.ts";
import { readOwnFile } from "./reads.ts";
import { fileSink } from "./sink.ts";
import { openFile } from "./source.ts";
import { Sealer } from "./user-secret.ts";

/** Bytes of a file that are replaced by as many others. */
export interface FilePatch {
  readonly offset: number;
  readonly before: Bytes;
  readonly after: Bytes;
}

/** A longer journal is not ours: a stamp changes the head of a file, and the journal has it twice, as text. */
const MAX_JOURNAL_BYTES = 1 << 30;
/** The hex digits of a seal. */
const SEAL_DIGITS = 64;
/** In the place of a seal where no secret can be kept. No journal with it is trusted. */
const NO_SEAL = "0".repeat(SEAL_DIGITS);

interface Journal {
  readonly byteLength: number;
  readonly patches: readonly FilePatch[];
}

/**
 * Writes patches over a file so that a crash at any moment can be repaired. First the old and the new bytes go into a
 * journal beside the file, which `finishPatch` completes after a crash. The file must still have the bytes that the
 * patches replace. Nothing else may write to it meanwhile. The environment tells where the user's secret is kept.
 */
export async function patchFile(
  path: string,
  patches: readonly FilePatch[],
  environment: Environment = process.env,
): Promise<void> {
  if (!(await Sealer.open(environment)).canSeal) return replacePatched(path, patches);
  const place = await recordPatches(path, patches, environment);
  apply(place.file, path, patches);
  await removeJournal(place.journal);
}

/** Where no journal would be believed after a crash, a copy with the new bytes takes the place of the file. */
async function replacePatched(path: string, patches: readonly FilePatch[]): Promise<void> {
  const { file } = await locate(path);
  await checkUnprotected(file, path);
  checkBefore(file, path, patches);
  const source = await openFile(file, { label: path });
  try {
    const overlays = patches.map(({ offset, after }) => overlayBytes(offset, after));
    const patched = overlaidSource(source, source.byteLength, overlays);
    const sink = await fileSink(file, { overwrite: "replace", like: await privacyOf(file) });
    try {
      for await (const piece of patched.stream(0)) await sink.append(piece);
      await sink.commit();
    } catch (error) {
      await sink.abort();
      throw error;
    }
  } finally {
    await source.close();
  }
}

/** The first half: the journal is durable, and the file is as before. */
export async function recordPatches(
  path: string,
  patches: readonly FilePatch[],
  environment: Environment = process.env,
): Promise<Place> {
  const place = await locate(path);
  await checkUnprotected(place.file, path);
  const byteLength = checkBefore(place.file, path, patches);
  await writeJournal(place, encodeJournal({ byteLength, patches }, await Sealer.open(environment)), path);
  return place;
}

/** What is beside a file, for readers that do not change it. */
export interface InterruptedEdit {
  /** The patches that a crash prevented; empty if there are none. */
  readonly patches: readonly FilePatch[];
  /** The path of a journal that is not ours, or that does not fit the file: it is ignored. */
  readonly ignored?: string | undefined;
}

/** Looks for an edit that a crash interrupted; `real` is the real path of the file. */
export async function findInterruptedEdit(
  real: string,
  environment: Environment = process.env,
): Promise<InterruptedEdit> {
  const path = stampJournalPath(real);
  const bytes = await readJournal(path);
  if (bytes === undefined) return { patches: [] };
  const journal = decodeJournal(bytes, await Sealer.existing(environment));
  const isOurs = journal !== undefined && isInterrupted(real, real, journal);
  return isOurs ? { patches: journal.patches } : { patches: [], ignored: path };
}

/** Completes a write that a crash interrupted; false if there is nothing to do. */
export async function finishPatch(path: string, environment: Environment = process.env): Promise<boolean> {
  const place = await locate(path).catch((error: unknown) => {
    if (isTareError(error) && error.code === "source/not-found") return undefined;
    throw error;
  });
  const bytes = place === undefined ? undefined : await readJournal(place.journal);
  if (place === undefined || bytes === undefined) return false;
  const journal = decodeJournal(bytes, await Sealer.existing(environment));
  if (journal === undefined || !isInterrupted(place.file, path, journal)) throw foreignJournal(path, place.journal);
  apply(place.file, path, journal.patches);
  await removeJournal(place.journal);
  return true;
}

/** A file and its journal. */
export interface Place {
  /** The file itself, with links followed. */
  readonly file: string;
  readonly journal: string;
}

async function locate(path: string): Promise<Place> {
  const file = await realpath(path).catch((error: unknown) => {
    throw fileError(error, `Cannot open "${path}"`, { source: path });
  });
  return { file, journal: stampJournalPath(file) };
}

/** The journal is beside the file; `file` is its real path. */
export function stampJournalPath(file: string): string {
  return join(dirname(file), nameBeside(basename(file), ".tare-stamp", "."));
}

/** Exclusive: an existing journal belongs to another process, or to a crash since the last check. */
async function writeJournal({ file, journal: path }: Place, journal: Bytes, label: string): Promise<void> {
  let sink: Sink | undefined;
  try {
    // It holds bytes of the file: as private as that.
    sink = await fileSink(path, { overwrite: "refuse", like: await privacyOf(file) });
    await sink.append(journal);
    await sink.commit();
  } catch (error) {
    await sink?.abort();
    throw isTareError(error) && error.code === "usage/exists" ? locked(label, path) : error;
  }
}

function readJournal(path: string): Promise<Bytes | undefined> {
  return readOwnFile(path, MAX_JOURNAL_BYTES);
}

async function removeJournal(path: string): Promise<void> {
  await unlink(path).catch((error: unknown) => {
    if (errnoOf(error) !== "ENOENT") throw fileError(error, `Cannot remove "${path}"`, { source: path });
  });
  await syncFolder(dirname(path));
}

/** Does not await in between, so that only a crash can come between two writes. */
function apply(file: string, label: string, patches: readonly FilePatch[]): void {
  withFile(file, "r+", label, (descriptor) => {
    for (const { offset, after } of patches) {
      for (let done = 0; done < after.byteLength; ) {
        done += writeSync(descriptor, after, done, after.byteLength - done, offset + done);
      }
    }
    fsyncSync(descriptor);
  });
}

/** The file's length; throws if it does not have the bytes to be replaced. */
function checkBefore(file: string, label: string, patches: readonly FilePatch[]): number {
  return withFile(file, "r+", label, (descriptor) => {
    for (const { offset, before } of patches) {
      if (!equalBytes(readAt(descriptor, offset, before.byteLength), before)) throw changed(label, offset);
    }
    return fstatSync(descriptor).size;
  });
}

/** True if every sector is old or new: no other program has written to the file since. */
function isInterrupted(file: string, label: string, { byteLength, patches }: Journal): boolean {
  return withFile(file, "r", label, (descriptor) => {
    if (fstatSync(descriptor).size !== byteLength) return false;
    return patches.every(({ offset, before, after }) => {
      const now = readAt(descriptor, offset, after.byteLength);
      if (now.byteLength !== after.byteLength) return false;
      for (let start = 0; start < now.byteLength; ) {
        const end = Math.min(now.byteLength, start + SECTOR_BYTES - ((offset + start) % SECTOR_BYTES));
        const sector = now.subarray(start, end);
        if (!equalBytes(sector, before.subarray(start, end)) && !equalBytes(sector, after.subarray(start, end))) {
          return false;
        }
        start = end;
      }
      return true;
    });
  });
}

function withFile<T>(file: string, mode: "r" | "r+", label: string, use: (descriptor: number) => T): T {
  let descriptor: number | undefined;
  try {
    descriptor = openSync(file, mode);
    return use(descriptor);
  } catch (error) {
    throw isTareError(error) ? error : fileError(error, `Cannot write "${label}"`, { source: label });
  } finally {
    if (descriptor !== undefined) closeSync(descriptor);
  }
}

/** Shorter than `byteLength` if the file ends. */
function readAt(descriptor: number, offset: number, byteLength: number): Bytes {
  const bytes = new Uint8Array(byteLength);
  let done = 0;
  while (done < byteLength) {
    const count = readSync(descriptor, bytes, done, byteLength - done, offset + done);
    if (count === 0) break;
    done += count;
  }
  return bytes.subarray(0, done);
}

/**
 * JSON after a seal. A folder of models may come from anyone, and a journal decides which bytes readers see: only one that
 * this user wrote counts. The seal covers the bytes before and after, so a journal fits no file but one with these bytes.
 * A journal that was not completely written does not match its seal.
 */
function encodeJournal({ byteLength, patches }: Journal, sealer: Sealer): Bytes {
  const rows = patches.map(({ offset, before, after }) => [offset, base64(before), base64(after)]);
  const text = Buffer.from(JSON.stringify({ tareStamp: 1, byteLength, patches: rows }));
  return new Uint8Array(Buffer.concat([Buffer.from(`${sealOf(text, sealer) ?? NO_SEAL}\n`), text]));
}

function sealOf(text: Bytes, sealer: Sealer): string | undefined {
  return sealer.seal(["stamp journal", createHash("sha256").update(text).digest("hex")]);
}

/** Undefined for a journal that is not ours, or is damaged. */
function decodeJournal(bytes: Bytes, sealer: Sealer): Journal | undefined {
  const text = bytes.subarray(SEAL_DIGITS + 1);
  const seal = sealOf(text, sealer);
  if (seal === undefined || Buffer.from(bytes.subarray(0, SEAL_DIGITS + 1)).toString() !== `${seal}\n`)
    return undefined;
  try {
    return journalOf(JSON.parse(Buffer.from(text).toString()));
  } catch {
    return undefined; // no JSON, or more of it than a string can hold
  }
}

/** Checks every value before it is used as a length or an offset. */
function journalOf(value: unknown): Journal | undefined {
  if (typeof value !== "object" || value === null) return undefined;
  const { byteLength, patches: rows } = value as Readonly<Record<string, unknown>>;
  if (!isLength(byteLength) || !Array.isArray(rows)) return undefined;
  const patches: FilePatch[] = [];
  for (const row of rows) {
    if (!Array.isArray(row) || row.length !== 3) return undefined;
    const [offset, before, after] = [row[0] as unknown, bytesOf(row[1]), bytesOf(row[2])];
    if (before === undefined || after === undefined || before.byteLength !== after.byteLength) return undefined;
    if (!isLength(offset) || offset > byteLength || after.byteLength > byteLength - offset) return undefined;
    patches.push({ offset, before, after });
  }
  return { byteLength, patches };
}

function isLength(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

function base64(bytes: Bytes): string {
  return Buffer.from(bytes).toString("base64");
}

/** Undefined for what is no base64: Node passes over other letters. */
function bytesOf(value: unknown): Bytes | undefined {
  if (typeof value !== "string") return undefined;
  const bytes = new Uint8Array(Buffer.from(value, "base64"));
  return base64(bytes) === value ? bytes : undefined;
}

function changed(label: string, offset: number): SourceError {
  const message = `Cannot write "${label}" in place: it was changed by something else meanwhile`;
  return new SourceError("source/stamp.changed", message, { source: label, offset }, { hint: "Run the command again" });
}

function locked(label: string, journal: string): SourceError {
  const message = `Cannot write "${label}" in place: another process is editing it`;
  const hint = `Wait until it has ended; if there is none, run the command again, which finishes "${journal}"`;
  return new SourceError("source/stamp.locked", message, { source: label }, { hint });
}

function foreignJournal(label: string, journal: string): SourceError {
  const message = `Cannot finish the edit of "${label}" that was interrupted: the file was changed since, or its journal is damaged`;
  const hint = `Check the file with tare verify; if it is sound, remove "${journal}"`;
  return new SourceError("source/stamp.journal", message, { source: label }, { hint });
}
