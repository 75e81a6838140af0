import { type Bytes, equalBytes } from "../base/bytes.ts";
import { IntegrityError } from "../base/errors.ts";
import { encodeHex } from "../base/text.ts";
import { LinkedAbort } from "../bytes/abort.ts";
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
import { windowParity } from "./correct/worker.ts";

/** Makes payloads of windows, possibly on other threads. */
export interface ParityRunner {
  /** Number of windows to run at a time. */
  readonly width: number;
  run(segment: PlannedSegment): Promise<Bytes>;
}

export interface GenerateOptions {
  readonly engine: Engine;
  readonly grid: ParityGrid;
  /** On this thread if absent. */
  readonly runner?: ParityRunner | undefined;
  /** 64 MiB if absent; tests use shorter ones. */
  readonly windowBytes?: number | undefined;
  readonly signal?: AbortSignal | undefined;
  readonly onProgress?: ((byteLength: number) => void) | undefined;
}

/**
 * Writes the sidecar of a file to a sink that supports writing at any offset; the caller commits it. The file is read
 * twice from start to end: for its digest and for its parity. Only a few windows of parity are in memory, for any
 * length of file.
 */
export async function generateSidecar(source: Source, sink: Sink, options: GenerateOptions): Promise<SidecarPlan> {
  const { engine, grid, signal, onProgress } = options;
  const plan = planFileSidecar(source.byteLength, grid, options.windowBytes);
  const runner = options.runner ?? localRunner(source, options);
  sink.reserve?.(plan.byteLength);
  const ending = new LinkedAbort(signal);
  const whole = { offset: 0, byteLength: source.byteLength, signal: ending.signal };
  const digest = engine.digestRange("sha256", source, whole);
  digest.catch(() => undefined); // awaited below, but it may fail while windows are under way
  let next = 0;
  const work = async (): Promise<void> => {
    while (next < plan.segments.length) {
      const segment = plan.segments[next++] as PlannedSegment;
      if (segment.windowLength === 0) continue;
      await sink.fill?.(segment.offset, await runner.run(segment));
      onProgress?.(segment.windowLength);
    }
  };
  const working = Array.from({ length: runner.width }, work);
  try {
    await Promise.all(working);
    await sink.fill?.(0, await encodeFront(engine, plan, await digest));
    return plan;
  } catch (error) {
    // What else is under way reads the file, or writes to the sink, which the caller ends now.
    ending.abort(error);
    next = plan.segments.length;
    await Promise.allSettled([digest, ...working]);
    throw error;
  } finally {
    ending.release();
  }
}

function localRunner(source: Source, { engine, grid, signal }: GenerateOptions): ParityRunner {
  return {
    width: 1,
    run: ({ windowOffset: offset, windowLength: byteLength }) =>
      windowParity(source, { offset, byteLength, grid }, { engine, signal }),
  };
}

/**
 * "intact": the file is the protected one. "damaged": it is not, and parity suffices. "lost": it is not, and parity
 * does not suffice, or belongs to other content.
 */
export type FileState = "intact" | "damaged" | "lost";

/** The damage of a file, according to its sidecar. */
export interface FileVerdict extends Examination {
  readonly state: FileState;
  /** Length of the protected file. */
  readonly byteLength: number;
  readonly sidecar: Sidecar;
}

/** Bytes that replace others in a file. */
export interface Patch {
  readonly offset: number;
  readonly bytes: Bytes;
}

/** Takes a patch; the next one comes after this one has resolved. */
export type WritePatch = (patch: Patch) => Promise<void>;

/** A planned repair. It is proven before the first byte is written. */
export interface FileRepair extends FileVerdict {
  /** Data shards that parity restores. */
  readonly recoveredShards: number;
  /** Passes the patches to `write`, in order. Afterwards the file must have `byteLength` bytes. */
  apply(write: WritePatch): Promise<void>;
}

/** Compares a file with its sidecar: the digest of the whole decides; shards tell the place and extent of damage. */
export async function verifyFile(source: Source, sidecar: Sidecar, context: ExamineContext): Promise<FileVerdict> {
  checkFileSidecar(sidecar);
  const byteLength = protectedLength(sidecar);
  const image = imageOf(source, byteLength);
  const digest = source.byteLength === byteLength ? hashWhole(source, context) : undefined;
  digest?.catch(() => undefined); // reported below, unless the examination fails first
  const { health, longestBurst } = await examineFile(image, sidecar, context);
  const isIntact = digest !== undefined && equalBytes(await digest, sidecar.contentSha256);
  const canHeal = health.unrecoverableGroups === 0 && (image !== source || health.damagedDataShards > 0);
  return { state: isIntact ? "intact" : canHeal ? "damaged" : "lost", byteLength, sidecar, health, longestBurst };
}

/**
 * Finds out how to heal a file, and whether that restores exactly the protected file: SHA-256 of the healed bytes is
 * compared before anything is written. A file that was cut short or grew is treated as if it had its length.
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
 * A file of another length is healed only if at least half of it is unchanged: the parity of a few shards can turn any
 * other file into the protected one. An empty file has nothing to lose.
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
    "It is another file, or was written again; if the sidecar is the right one, confirm it by the option expectSha256";
  throw new IntegrityError("integrity/aerocorrect.other", message, { source: source.label }, { hint });
}

/** A sidecar states what a file was. Only a digest from the user can confirm that the sidecar is the right one. */
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

/** The damage of a file according to its sidecar, and the damage of the sidecar itself. */
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

/**
 * If the digest shows that the file is intact, a shard that differs from its checksum means that the checksum is
 * damaged.
 */
function parityFindings({ state, sidecar, health }: FileVerdict): Finding[] {
  const damaged = health.damagedParityShards + (state === "intact" ? health.damagedDataShards : 0);
  if (damaged === 0) return [];
  const message = `Parity in "${sidecar.label}" is damaged, in ${damaged} ${damaged === 1 ? "place" : "places"}`;
  const hint = "Make it again while the file is whole: tare correct generate, with the option force";
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
