import { type Bytes, equalBytes } from "../base/bytes.ts";
import { IntegrityError } from "../base/errors.ts";
import { encodeHex } from "../base/text.ts";
import { overlaidSource } from "../bytes/derived.ts";
import type { Sink } from "../bytes/sink.ts";
import type { Source } from "../bytes/source.ts";
import {
  encodeFront,
  type PlannedSegment,
  planFileSidecar,
  type Sidecar,
  type SidecarPlan,
} from "../formats/aerocorrect/sidecar.ts";
import type { Finding } from "../model/finding.ts";
import type { ParityGrid } from "../model/parity/avec.ts";
import type { Engine } from "../primitives/engine.ts";
import {
  checkFileSidecar,
  type Examination,
  type ExamineContext,
  examineFile,
  protectedLength,
  summarise,
} from "./correct/examine.ts";
import { type ShardPatch, type SurveyContext, surveyFile } from "./correct/heal.ts";
import { windowParity } from "./correct/jobs.ts";

/** Makes payloads of windows, perhaps on other threads. */
export interface ParityRunner {
  /** Windows that are worth having under way at a time. */
  readonly width: number;
  run(segment: PlannedSegment): Promise<Bytes>;
}

export interface GenerateOptions {
  readonly engine: Engine;
  readonly grid: ParityGrid;
  /** On this thread where absent. */
  readonly runner?: ParityRunner | undefined;
  /** 64 MiB where absent; tests use shorter ones. */
  readonly windowBytes?: number | undefined;
  readonly signal?: AbortSignal | undefined;
  readonly onProgress?: ((byteLength: number) => void) | undefined;
}

/**
 * Writes the sidecar of a file to a sink that can go back, which the caller commits. The file is read twice, each time once
 * through: for its digest and for its parity. A few windows of parity are in memory, whatever the file's length.
 */
export async function generateSidecar(source: Source, sink: Sink, options: GenerateOptions): Promise<SidecarPlan> {
  const { engine, grid, signal, onProgress } = options;
  const plan = planFileSidecar(source.byteLength, grid, options.windowBytes);
  const runner = options.runner ?? localRunner(source, options);
  sink.reserve?.(plan.byteLength);
  const digest = engine.digestRange("sha256", source, { offset: 0, byteLength: source.byteLength, signal });
  // A window that fails is the error; the digest is then of no use, and nobody waits for it.
  digest.catch(() => undefined);
  let next = 0;
  const work = async (): Promise<void> => {
    while (next < plan.segments.length) {
      const segment = plan.segments[next++] as PlannedSegment;
      if (segment.windowLength === 0) continue;
      await sink.fill?.(segment.offset, await runner.run(segment));
      onProgress?.(segment.windowLength);
    }
  };
  await Promise.all(Array.from({ length: runner.width }, work));
  await sink.fill?.(0, await encodeFront(engine, plan, await digest));
  return plan;
}

function localRunner(source: Source, { engine, grid, signal }: GenerateOptions): ParityRunner {
  return {
    width: 1,
    run: ({ windowOffset: offset, windowLength: byteLength }) =>
      windowParity(source, { offset, byteLength, grid }, { engine, signal }),
  };
}

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

/** What is wrong with a file by its sidecar, and with the sidecar itself. */
export function correctFindings(label: string, verdict: FileVerdict): readonly Finding[] {
  return [...fileFindings(label, verdict), ...verdict.sidecar.findings, ...parityFindings(verdict)];
}

function fileFindings(label: string, { state, sidecar, health }: FileVerdict): Finding[] {
  if (state === "intact") return [];
  const at = { source: label };
  const message = `"${label}" is not the file that "${sidecar.label}" was made of: ${healthText(health)}`;
  if (state === "damaged") {
    const hint = "Parity suffices to heal it: tare correct repair";
    return [{ severity: "error", code: "integrity/aerocorrect.damaged", message, at, hint }];
  }
  const hint = "That is more than parity can heal, or the sidecar is of another file; get another copy of the file";
  return [{ severity: "error", code: "integrity/aerocorrect.lost", message, at, hint }];
}

/** Where the digest says that the file is whole, a shard that differs from its checksum is damage of the checksum. */
function parityFindings({ state, sidecar, health }: FileVerdict): Finding[] {
  const damaged = health.damagedParityShards + (state === "intact" ? health.damagedDataShards : 0);
  if (damaged === 0) return [];
  const message = `Parity in "${sidecar.label}" is damaged, in ${damaged} ${damaged === 1 ? "place" : "places"}`;
  const hint = "Make it again while the file is whole: tare correct gen --force";
  const at = { source: sidecar.label };
  return [{ severity: "warning", code: "integrity/aerocorrect.parity", message, at, hint }];
}

/** "3 of 977 data shards and 1 of 154 parity shards damaged". */
export function healthText({
  dataShards,
  damagedDataShards,
  parityShards,
  damagedParityShards,
}: FileVerdict["health"]): string {
  return `${damagedDataShards} of ${dataShards} data shards and ${damagedParityShards} of ${parityShards} parity shards damaged`;
}
