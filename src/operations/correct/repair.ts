import { type Bytes, equalBytes } from "../../base/bytes.ts";
import { IntegrityError } from "../../base/errors.ts";
import { encodeHex } from "../../base/hex.ts";
import { overlaidSource } from "../../bytes/overlaid.ts";
import type { Source } from "../../bytes/source.ts";
import type { Sidecar } from "../../formats/aerocorrect/sidecar.ts";
import { checkFileSidecar, type Examination, type ExamineContext, examineFile, protectedLength } from "./examine.ts";

/**
 * "intact": the file is the one that was protected. "damaged": it is not, and parity suffices. "lost": it is not, and
 * parity does not suffice, or is that of other content.
 */
export type FileState = "intact" | "damaged" | "lost";

/** What is wrong with a file, by its sidecar. */
export interface FileVerdict extends Omit<Examination, "windows"> {
  readonly state: FileState;
  /** Of the protected file. */
  readonly byteLength: number;
  readonly sidecar: Sidecar;
}

/** Bytes of a file to be written over others. */
export interface Patch {
  readonly offset: number;
  readonly bytes: Bytes;
}

/** Takes a patch; the next one comes when it was taken. */
export type WritePatch = (patch: Patch) => Promise<void>;

/** What a repair will do, proven before the first byte is written. */
export interface FileRepair extends FileVerdict {
  /** Data shards that parity gives back. */
  readonly recoveredShards: number;
  /** Hands out what is to be written, in order; afterwards the file must have `byteLength` bytes. */
  apply(write: WritePatch): Promise<void>;
}

/** Compares a file with its sidecar: the digest of the whole decides, shards tell where and how much. */
export async function verifyFile(source: Source, sidecar: Sidecar, context: ExamineContext): Promise<FileVerdict> {
  checkFileSidecar(sidecar);
  const byteLength = protectedLength(sidecar);
  const image = imageOf(source, byteLength);
  const digest = source.byteLength === byteLength ? hashWhole(source, context) : undefined;
  digest?.catch(() => undefined); // told below, where the examination does not fail first
  const { health, longestBurst } = await examineFile(image, sidecar, context);
  const isIntact = digest !== undefined && equalBytes(await digest, sidecar.contentSha256);
  const canHeal = health.unrecoverableGroups === 0 && (image !== source || health.damagedDataShards > 0);
  return { state: isIntact ? "intact" : canHeal ? "damaged" : "lost", byteLength, sidecar, health, longestBurst };
}

/**
 * Finds out how to heal a file, and whether that gives the very file that was protected: SHA-256 of the healed bytes is
 * compared before anything is written. A file that was cut short or grew is taken as if it had its length.
 */
export async function planFileRepair(
  source: Source,
  sidecar: Sidecar,
  context: ExamineContext,
  expectSha256?: Bytes | undefined,
): Promise<FileRepair> {
  checkFileSidecar(sidecar);
  checkAnchor(sidecar, expectSha256);
  const byteLength = protectedLength(sidecar);
  const image = imageOf(source, byteLength);
  const examination = await examineFile(image, sidecar, context);
  const { health, longestBurst } = examination;
  const verdict = { byteLength, sidecar, health, longestBurst };
  // Checksums in the sidecar may be damaged where the file is not: then healing, or leaving it alone, gives the digest.
  const canHeal = health.unrecoverableGroups === 0 && health.damagedDataShards > 0;
  const healed = canHeal ? await hashHealed(image, examination, context) : await hashWhole(image, context);
  const isRight = equalBytes(healed, sidecar.contentSha256);
  const nothing = { recoveredShards: 0, apply: async () => undefined };
  if (!isRight) return { ...verdict, ...nothing, state: "lost" };
  let recoveredShards = 0;
  if (canHeal) {
    await applyHealed(image, examination, async () => {
      recoveredShards++;
    });
  }
  if (recoveredShards === 0) return { ...verdict, ...nothing, state: image === source ? "intact" : "damaged" };
  return { ...verdict, state: "damaged", recoveredShards, apply: (write) => applyHealed(image, examination, write) };
}

/** A sidecar says what a file was; only somebody who knows what it should be can say that it is the right one. */
function checkAnchor({ contentSha256, label }: Sidecar, expectSha256: Bytes | undefined): void {
  if (expectSha256 === undefined || equalBytes(contentSha256, expectSha256)) return;
  const message = `Cannot use "${label}": it must be for a file of SHA-256 ${encodeHex(expectSha256)}, found ${encodeHex(contentSha256)}`;
  const hint = "The sidecar belongs to other content; nothing was written";
  throw new IntegrityError("integrity/aerocorrect.anchor", message, { source: label }, { hint });
}

function imageOf(source: Source, byteLength: number): Source {
  return source.byteLength === byteLength ? source : overlaidSource(source, byteLength, []);
}

function hashWhole(file: Source, { engine, signal }: ExamineContext): Promise<Bytes> {
  return engine.digestRange("sha256", file, { offset: 0, byteLength: file.byteLength, signal });
}

/** Shards to be written, by their place in the file. */
interface HealedRun {
  readonly offset: number;
  readonly byteLength: number;
  read(): Promise<Bytes>;
}

function healedRuns({ windows }: Examination): HealedRun[] {
  return windows.flatMap(({ segment, reader }) =>
    (reader?.healable() ?? []).map(({ offset, byteLength }) => ({
      offset: segment.windowOffset + offset,
      byteLength,
      read: async () => (await reader?.read(offset, byteLength)) as Bytes,
    })),
  );
}

async function hashHealed(file: Source, examination: Examination, context: ExamineContext): Promise<Bytes> {
  const hasher = await context.engine.hasher("sha256");
  let position = 0;
  const copy = async (end: number): Promise<void> => {
    if (end === position) return;
    for await (const piece of file.stream(position, { byteLength: end - position, signal: context.signal })) {
      hasher.update(piece);
    }
    position = end;
  };
  for (const run of healedRuns(examination)) {
    await copy(run.offset);
    hasher.update(await run.read());
    position += run.byteLength;
  }
  await copy(file.byteLength);
  return hasher.digest();
}

/** Shards that are as they should be, because only their checksums are damaged, are left alone. */
async function applyHealed(file: Source, examination: Examination, write: WritePatch): Promise<void> {
  for (const run of healedRuns(examination)) {
    const bytes = await run.read();
    const found = await file.read(run.offset, run.byteLength);
    if (!equalBytes(bytes, found)) await write({ offset: run.offset, bytes });
  }
}
