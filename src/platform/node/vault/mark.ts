import { createHash } from "node:crypto";
import { closeSync, constants, openSync, readSync } from "node:fs";
import { type FileHandle, open, stat } from "node:fs/promises";
import { type Bytes, concatBytes, equalBytes } from "../../../base/bytes.ts";
import { isTareError, SourceError } from "../../../base/errors.ts";
import type { Extent } from "../../../bytes/extents.ts";
import { sealOf } from "../../../formats/aerovault/cipher.ts";
import { HEADER_BYTES, vaultHeader } from "../../../formats/aerovault/layout.ts";
import type { SealOutput } from "../../../formats/aerovault/write/seal/worker.ts";
import type { ExpectedRun } from "../../../formats/aerovault/write/state.ts";
import { errnoOf, fileError } from "../errors.ts";
import { allocateBytes, readFully, writeFully } from "../files/reads.ts";

/** Bytes at each end of a manifest to check before every write: the first have the nonce, the last have the tag. */
const END_BYTES = 64;
/** Bytes that a digest of a manifest reads at once. */
const PIECE_BYTES = 1 << 20;

/**
 * Identifies one state of a vault. The header alone is not enough: it gives only place and length of the manifest, so
 * two states whose manifests differ in a name of the same length have equal headers.
 */
export interface VaultMark {
  readonly dev: bigint;
  readonly ino: bigint;
  /** Number of names of the file. */
  readonly links: bigint;
  readonly mode: number;
  readonly owner: { readonly uid: number; readonly gid: number };
  readonly byteLength: number;
  readonly header: Bytes;
  /** SHA-256 of the stored manifest; absent if the header names none. */
  readonly manifest: Bytes | undefined;
  /** Nonce and tag of the manifest, if there is one. */
  readonly manifestSeal: Bytes | undefined;
  /** The content that a writer must find in the file before every write. */
  readonly runs: readonly ExpectedRun[];
}

/**
 * Marks the current state of a vault. Call this before opening the vault, so that the mark is not newer than what is
 * read.
 */
export async function readVaultMark(path: string, label: string): Promise<VaultMark> {
  const handle = await open(path, "r").catch((error: unknown) => {
    throw fileError(error, `Cannot open "${label}"`, { source: label });
  });
  try {
    const { dev, ino, nlink, mode, size, uid, gid } = await handle.stat({ bigint: true });
    const byteLength = Number(size);
    const header = allocateBytes(Math.min(HEADER_BYTES, byteLength));
    await readFully(handle, header, { offset: 0, label });
    const extent = manifestOf(header, byteLength);
    const runs = [{ offset: 0, bytes: header }];
    for (const run of endsOf(extent)) {
      const bytes = allocateBytes(run.byteLength);
      await readFully(handle, bytes, { offset: run.offset, label });
      runs.push({ offset: run.offset, bytes });
    }
    const manifest = extent === undefined ? undefined : await digestOf(handle, extent, label);
    const ends = concatBytes(runs.slice(1).map(({ bytes }) => bytes));
    const seal = extent === undefined ? undefined : sealOf(ends);
    const facts = {
      dev,
      ino,
      links: nlink,
      mode: Number(mode) & 0o777,
      owner: { uid: Number(uid), gid: Number(gid) },
      byteLength,
    };
    return { ...facts, header, manifest, manifestSeal: seal, runs };
  } catch (error) {
    throw errnoOf(error) === undefined ? error : fileError(error, `Cannot read "${label}"`, { source: label });
  } finally {
    await handle.close();
  }
}

/** Undefined if the header is not that of a vault, or if its manifest is not in the file: opening reports that. */
function manifestOf(header: Bytes, byteLength: number): Extent | undefined {
  if (header.byteLength < HEADER_BYTES) return undefined;
  try {
    const { manifestOffset: offset, manifestLength } = vaultHeader.decode(header, { source: "vault", offset: 0 });
    const isInside = offset <= byteLength && manifestLength <= byteLength - offset;
    return isInside && manifestLength > 0 ? { offset, byteLength: manifestLength } : undefined;
  } catch (error) {
    if (isTareError(error)) return undefined;
    throw error;
  }
}

function endsOf(extent: Extent | undefined): readonly Extent[] {
  if (extent === undefined) return [];
  const { offset, byteLength } = extent;
  if (byteLength <= 2 * END_BYTES) return [extent];
  return [
    { offset, byteLength: END_BYTES },
    { offset: offset + byteLength - END_BYTES, byteLength: END_BYTES },
  ];
}

async function digestOf(handle: FileHandle, { offset, byteLength }: Extent, label: string): Promise<Bytes> {
  const hash = createHash("sha256");
  const piece = allocateBytes(Math.min(PIECE_BYTES, byteLength));
  for (let done = 0; done < byteLength; done += piece.byteLength) {
    const part = piece.subarray(0, Math.min(piece.byteLength, byteLength - done));
    await readFully(handle, part, { offset: offset + done, label });
    hash.update(part);
  }
  return new Uint8Array(hash.digest());
}

/**
 * Throws `source/vault.changed` if another state is at the path by now. With "same file" also if another file with
 * equal contents is there, for writers whose bytes are in the first one.
 */
export async function checkFresh(
  path: string,
  label: string,
  mark: VaultMark,
  demand: "same state" | "same file" = "same state",
): Promise<void> {
  const found = await readVaultMark(path, label);
  const isSameFile = found.dev === mark.dev && found.ino === mark.ino;
  if (demand === "same file" && !isSameFile) throw changedMeanwhile(label);
  if (!equalBytes(found.header, mark.header) || !isEqualManifest(found.manifest, mark.manifest)) {
    throw changedMeanwhile(label);
  }
}

/**
 * A lock that was removed by hand lets another writer put a file in the place of the one that was written to. Then no
 * one can say whether the change is in it.
 */
export async function checkKept(path: string, label: string, mark: VaultMark): Promise<void> {
  const facts = await stat(path, { bigint: true }).catch(() => undefined); // gone, or in a folder that is
  if (facts !== undefined && facts.dev === mark.dev && facts.ino === mark.ino) return;
  const message = `The change of "${label}" was written, but another file, or none, has that name by now`;
  const hint = "Look whether the change is in the file that has the name; if it is not, make it again";
  throw new SourceError("source/vault.displaced", message, { source: label }, { hint });
}

/**
 * True if the file at the path is the marked one, in the marked state as far as header and both ends of its manifest
 * tell: every writer gives the manifest another nonce. Bytes that were appended do not count.
 */
export async function holdsMark(path: string, mark: VaultMark): Promise<boolean> {
  if (mark.manifestSeal === undefined) return false;
  const handle = await open(path, "r").catch(() => undefined); // opening the vault reports it
  if (handle === undefined) return false;
  try {
    const { dev, ino } = await handle.stat({ bigint: true });
    if (dev !== mark.dev || ino !== mark.ino) return false;
    checkRuns(handle.fd, mark.runs, path);
    return true;
  } catch (error) {
    if (isTareError(error)) return false;
    throw error;
  } finally {
    await handle.close();
  }
}

function isEqualManifest(a: Bytes | undefined, b: Bytes | undefined): boolean {
  return a === undefined || b === undefined ? a === b : equalBytes(a, b);
}

/** Throws `source/vault.changed` if a file is not as expected in these places. Uses blocking calls, for any thread. */
export function checkRuns(descriptor: number, runs: readonly ExpectedRun[], label: string): void {
  for (const { file, offset, bytes } of runs) {
    if (file !== undefined) {
      checkLockFile(file, bytes, label);
      continue;
    }
    const found = allocateBytes(bytes.byteLength);
    const count = naming(`Cannot read "${label}"`, label, () =>
      readSync(descriptor, found, 0, found.byteLength, offset),
    );
    if (count !== bytes.byteLength || !equalBytes(found, bytes)) throw changedMeanwhile(label);
  }
}

/** The lock beside a vault must hold our own line and nothing else. */
function checkLockFile(path: string, line: Bytes, label: string): void {
  const found = allocateBytes(line.byteLength + 1);
  let count = 0;
  try {
    // Do not wait for a writer, if there is a pipe in its place.
    const flags = constants.O_RDONLY | (constants.O_NONBLOCK ?? 0) | (constants.O_NOFOLLOW ?? 0);
    const descriptor = openSync(path, flags);
    try {
      count = readSync(descriptor, found, 0, found.byteLength, 0);
    } finally {
      closeSync(descriptor);
    }
  } catch (cause) {
    throw lockLost(label, cause);
  }
  if (!equalBytes(found.subarray(0, count), line)) throw lockLost(label);
}

/** Writes blocks to a file that still has the expected content. Uses blocking calls, for any thread. */
export function writeExpecting({ descriptor, expected, label }: SealOutput, bytes: Bytes, offset: number): void {
  checkRuns(descriptor, expected, label);
  naming(`Cannot write "${label}"`, label, () => writeFully(descriptor, bytes, offset));
}

/** The system does not know the name of a descriptor's file, so the caller gives it for errors. */
function naming<T>(action: string, label: string, call: () => T): T {
  try {
    return call();
  } catch (error) {
    throw fileError(error, action, { source: label });
  }
}

function lockLost(label: string, cause?: unknown): SourceError {
  const message = `Cannot write to "${label}": the lock beside it is no longer that of this process`;
  const hint =
    "Nothing of this change was kept. Remove a lock only if its process has ended; then run the command again";
  return new SourceError("source/vault.lock-lost", message, { source: label }, { hint, cause });
}

export function changedMeanwhile(label: string): SourceError {
  return new SourceError(
    "source/vault.changed",
    `Cannot write to "${label}": something else changed it meanwhile`,
    { source: label, offset: 0 },
    { hint: "Nothing of this change was kept; run the command again" },
  );
}
