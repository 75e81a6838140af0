import { type Bytes, equalBytes } from "../../base/bytes.ts";
import { IntegrityError } from "../../base/errors.ts";
import { encodeHex } from "../../base/text.ts";
import { overlaidSource } from "../../bytes/derived.ts";
import type { Source } from "../../bytes/source.ts";
import type { Sidecar } from "../../formats/aerocorrect/sidecar.ts";
import {
  checkFileSidecar,
  type Examination,
  type ExamineContext,
  examineFile,
  protectedLength,
  summarise,
} from "./examine.ts";
import { type ShardPatch, type SurveyContext, surveyFile } from "./survey.ts";

/**
 * "intact": the file is the one that was protected. "damaged": it is not, and parity suffices. "lost": it is not, and
 * parity does not suffice, or is that of other content.
 */
export type FileState = "intact" | "damaged" | "lost";

/** What is wrong with a file, by its sidecar. */
export interface FileVerdict extends Examination {
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
  context: SurveyContext,
  expectSha256?: Bytes | undefined,
): Promise<FileRepair> {
  checkFileSidecar(sidecar);
  checkAnchor(sidecar, expectSha256);
  const byteLength = protectedLength(sidecar);
  const image = imageOf(source, byteLength);
  const survey = await surveyFile(image, sidecar, context);
  const verdict = { ...summarise(survey.windows), byteLength, sidecar };
  const nothing = { recoveredShards: 0, apply: async () => undefined };
  if (!equalBytes(survey.sha256, sidecar.contentSha256)) return { ...verdict, ...nothing, state: "lost" };
  const { patches } = survey;
  if (image !== source && expectSha256 === undefined) await checkSameFile(source, byteLength, patches);
  if (patches.length === 0) return { ...verdict, ...nothing, state: image === source ? "intact" : "damaged" };
  const apply = async (write: WritePatch): Promise<void> => {
    for (const { offset, read } of patches) await write({ offset, bytes: await read() });
  };
  return { ...verdict, state: "damaged", recoveredShards: patches.length, apply };
}

/**
 * A file of another length is healed only where at least half of it is what it was: the parity of a few shards can make its
 * file out of any other one. An empty file has nothing to lose.
 */
async function checkSameFile(source: Source, byteLength: number, patches: readonly ShardPatch[]): Promise<void> {
  const common = Math.min(source.byteLength, byteLength);
  let agreeing = common;
  for (const { offset, read } of patches.filter((patch) => patch.offset < common)) {
    const healed = await read();
    const found = await source.read(offset, Math.min(healed.byteLength, common - offset));
    agreeing -= found.reduce((count, byte, i) => (byte === healed[i] ? count : count + 1), 0);
  }
  if (source.byteLength === 0 || (common > 0 && 2 * agreeing >= common)) return;
  const message = `Cannot repair "${source.label}": it has ${source.byteLength} bytes instead of ${byteLength}, and hardly one of them is that of the file that was protected`;
  const hint =
    "It is another file, or was written anew; where the sidecar is the right one, confirm it by --expect-sha256";
  throw new IntegrityError("integrity/aerocorrect.other", message, { source: source.label }, { hint });
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
