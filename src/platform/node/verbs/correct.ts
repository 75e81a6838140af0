import { realpath, stat } from "node:fs/promises";
import { type Request, requestOf } from "../../../api/host.ts";
import {
  COMMON_RULES,
  type CommonOptions,
  type OptionRule,
  type OptionRules,
  textRule,
  WRITE_RULES,
  type WriteOptions,
} from "../../../api/options.ts";
import { startProgress } from "../../../api/progress.ts";
import type { Parity } from "../../../api/vault/options.ts";
import type { Bytes } from "../../../base/bytes.ts";
import { IntegrityError } from "../../../base/errors.ts";
import { decodeHex } from "../../../base/text.ts";
import { withReason } from "../../../bytes/abort.ts";
import type { Source } from "../../../bytes/source.ts";
import { SIDECAR_SUFFIX } from "../../../formats/aerocorrect/layout.ts";
import { readSidecar } from "../../../formats/aerocorrect/read.ts";
import { planFileSidecar, type Sidecar, type SidecarPlan } from "../../../formats/aerocorrect/sidecar.ts";
import type { Finding } from "../../../model/finding.ts";
import { longestBurst, PARITY_LEVELS, type ParityGrid, parityGrid } from "../../../model/parity/avec.ts";
import type { ShardHealth } from "../../../model/parity/damage.ts";
import {
  correctFindings,
  type FileRepair,
  type FileState,
  type FileVerdict,
  generateSidecar,
  healthText,
  planFileRepair,
  verifyFile,
} from "../../../operations/correct.ts";
import type { Engine } from "../../../primitives/engine.ts";
import { checkFilePlace, type FileRules } from "../destinations.ts";
import { groupHealer, parityRunner } from "../engine/correct-runner.ts";
import { fileError } from "../errors.ts";
import type { InputFile } from "../files/output-place.ts";
import { privacyOf } from "../files/partial-files.ts";
import { repairCopy, repairInPlace } from "../files/repair.ts";
import { fileSink } from "../files/sink.ts";
import { changedError, hasFileChanged, openFile, openSidecarFile } from "../files/source.ts";
import { type NodeHost, nodeHost, tellDoubt } from "../host.ts";
import { checkPath, withPaths } from "../paths.ts";

/** Options of `correct.generate`: the command's flags. */
export interface CorrectGenerateOptions extends WriteOptions {
  /** "medium", which is 15%, if absent. */
  readonly parity?: Parity | undefined;
  /** Path of the sidecar; FILE.aerocorrect if absent. */
  readonly output?: string | undefined;
}

/** Options of `correct.verify`: the command's flags. */
export interface CorrectVerifyOptions extends CommonOptions {
  /** Path of the sidecar; FILE.aerocorrect if absent. */
  readonly sidecar?: string | undefined;
}

/** Options of `correct.repair`: the command's flags. */
export interface CorrectRepairOptions extends WriteOptions {
  /** Path of the sidecar; FILE.aerocorrect if absent. */
  readonly sidecar?: string | undefined;
  /** 64 hex digits. Refuses a sidecar that is not for this content. */
  readonly expectSha256?: string | undefined;
  /** Where the healed copy goes; if absent, the file is healed in place. */
  readonly output?: string | undefined;
}

/** What `tare correct generate --json` prints. */
export interface CorrectGenerateResult {
  readonly file: string;
  readonly sidecar: string;
  readonly dryRun: boolean;
  readonly byteLength: number;
  readonly sidecarByteLength: number;
  readonly parityPercent: number;
  readonly segments: number;
  readonly dataShards: number;
  readonly parityShards: number;
  /** Damaged bytes in a row that can be healed at any position. */
  readonly longestBurst: number;
}

/** The damage of a file, according to its sidecar. */
export interface CorrectHealth {
  readonly sidecarVersion: 1 | 2;
  readonly segments: number;
  readonly health: ShardHealth;
  /** Damaged bytes in a row that can be healed at any position. */
  readonly longestBurst: number;
}

/** What `tare correct verify --json` prints. */
export interface CorrectVerifyResult extends CorrectHealth {
  readonly file: string;
  readonly sidecar: string;
  readonly ok: boolean;
  readonly state: FileState;
  readonly byteLength: number;
  readonly expectedByteLength: number;
  readonly findings: readonly Finding[];
}

/** What `tare correct repair --json` prints. */
export interface CorrectRepairResult extends CorrectHealth {
  readonly file: string;
  readonly sidecar: string;
  readonly dryRun: boolean;
  readonly state: FileState;
  readonly repaired: boolean;
  readonly recoveredShards: number;
  readonly byteLength: number;
  /** Null if the file was healed in place. */
  readonly output: string | null;
  readonly findings: readonly Finding[];
}

const parityRule: OptionRule = {
  must: '"5%" to "50%", "low", "medium", "quartile" or "high"',
  test: (value) => percentOf(value) !== undefined,
};
const sha256Rule: OptionRule = { must: "64 hex digits", test: (value) => digestOf(value) !== undefined };

const GENERATE_RULES: OptionRules = { ...WRITE_RULES, parity: parityRule, output: textRule };
const VERIFY_RULES: OptionRules = { ...COMMON_RULES, sidecar: textRule };
const REPAIR_RULES: OptionRules = {
  ...WRITE_RULES,
  sidecar: textRule,
  expectSha256: sha256Rule,
  output: textRule,
};

/** "15%" or the name of a level → percent; undefined for anything else. */
function percentOf(value: unknown): number | undefined {
  if (typeof value !== "string") return undefined;
  if (Object.hasOwn(PARITY_LEVELS, value)) return PARITY_LEVELS[value as keyof typeof PARITY_LEVELS];
  const percent = /^\d{1,2}%$/.test(value) ? Number.parseInt(value, 10) : 0;
  return percent >= 5 && percent <= 50 ? percent : undefined;
}

function digestOf(value: unknown): Bytes | undefined {
  const bytes = typeof value === "string" ? decodeHex(value.toLowerCase()) : undefined;
  return bytes?.byteLength === 32 ? bytes : undefined;
}

/** Parity for any file, beside it. */
export function generate(file: string | URL, options?: CorrectGenerateOptions): Promise<CorrectGenerateResult> {
  return generateOn(nodeHost(), file, options);
}

/** Whether a file is still the one that was protected. */
export function verify(file: string | URL, options?: CorrectVerifyOptions): Promise<CorrectVerifyResult> {
  return verifyOn(nodeHost(), file, options);
}

/** Heals a file from its parity, or leaves it alone. */
export function repair(file: string | URL, options?: CorrectRepairOptions): Promise<CorrectRepairResult> {
  return repairOn(nodeHost(), file, options);
}

export async function generateOn(
  host: NodeHost,
  named: string | URL,
  given: CorrectGenerateOptions = {},
): Promise<CorrectGenerateResult> {
  const request = await requestOf(host, "correct.generate", given, GENERATE_RULES);
  const options = withPaths(given, "output");
  const file = checkPath("correct.generate", "file", named);
  const sidecar = options.output ?? `${file}${SIDECAR_SUFFIX}`;
  const rules = {
    overwrite: options.force === true ? "replace" : "refuse",
    // If the caller did not give the sidecar's name, a link in its place is replaced, not followed.
    links: options.output === undefined ? "replace" : undefined,
    sidecars: "written",
  } as const;
  await checkFilePlace(sidecar, inputsWith(host, file), rules);
  const parityPercent = percentOf(options.parity) ?? PARITY_LEVELS.medium;
  const job = { sidecar, grid: parityGrid(parityPercent), rules };
  const { plan, byteLength } = await withReason(options.signal, () => makeSidecar(host, file, job, request));
  const bursts = plan.segments.map((segment) => longestBurst(segment.plan));
  return {
    file,
    sidecar,
    dryRun: options.dryRun === true,
    byteLength,
    sidecarByteLength: plan.byteLength,
    parityPercent,
    segments: plan.segments.length,
    ...countShards(plan),
    longestBurst: byteLength === 0 ? 0 : bursts.reduce((least, burst) => Math.min(least, burst)),
  };
}

interface SidecarJob {
  readonly sidecar: string;
  readonly grid: ParityGrid;
  readonly rules: FileRules;
}

async function makeSidecar(
  host: NodeHost,
  file: string,
  { sidecar, grid, rules }: SidecarJob,
  { engine, dryRun, signal, onProgress }: Request<CorrectGenerateOptions>,
): Promise<{ readonly plan: SidecarPlan; readonly byteLength: number }> {
  await expectHashing(file, engine);
  const source = await openFile(file, { signal });
  try {
    const { byteLength } = source;
    if (dryRun === true) return { plan: planFileSidecar(byteLength, grid), byteLength };
    const like = await privacyOf(file);
    await checkFilePlace(sidecar, inputsWith(host, file), rules);
    const { overwrite, links } = rules;
    // Before there is a file: its first event may throw.
    const progress = startProgress({ label: "computing parity", total: byteLength }, onProgress);
    const sink = await fileSink(sidecar, { overwrite, links, like });
    try {
      const runner = parityRunner(source, { engine, grid, signal });
      const tell = (done: number): void => progress.add(done);
      const plan = await generateSidecar(source, sink, { engine, grid, runner, signal, onProgress: tell });
      if (await hasFileChanged(source)) throw changedError(file);
      signal?.throwIfAborted();
      await sink.commit();
      progress.end();
      return { plan, byteLength };
    } catch (error) {
      await sink.abort();
      throw error;
    }
  } finally {
    await source.close();
  }
}

function countShards({ segments }: SidecarPlan): { readonly dataShards: number; readonly parityShards: number } {
  let dataShards = 0;
  let parityShards = 0;
  for (const { plan } of segments) {
    dataShards += plan.shardCount;
    parityShards += plan.groupCount * plan.grid.parityShards;
  }
  return { dataShards, parityShards };
}

export async function verifyOn(
  host: NodeHost,
  named: string | URL,
  given: CorrectVerifyOptions = {},
): Promise<CorrectVerifyResult> {
  const request = await requestOf(host, "correct.verify", given, VERIFY_RULES);
  const options = withPaths(given, "sidecar");
  const path = checkPath("correct.verify", "file", named);
  const beside = options.sidecar ?? `${path}${SIDECAR_SUFFIX}`;
  return withReason(options.signal, async () => {
    const { file, sidecar, close } = await openProtected(path, beside, request);
    try {
      const { engine, signal, onProgress } = request;
      const progress = startProgress({ label: "verifying", total: file.byteLength }, onProgress);
      const verdict = await verifyFile(file, sidecar, { engine, signal, onProgress: (done) => progress.add(done) });
      progress.end();
      const findings = correctFindings(path, verdict);
      tellWarnings(host, findings, options);
      const { state, byteLength: expectedByteLength } = verdict;
      const lengths = { byteLength: file.byteLength, expectedByteLength };
      return {
        file: path,
        sidecar: beside,
        ok: state === "intact",
        state,
        ...lengths,
        ...healthFacts(verdict),
        findings,
      };
    } finally {
      await close();
    }
  });
}

export async function repairOn(
  host: NodeHost,
  named: string | URL,
  given: CorrectRepairOptions = {},
): Promise<CorrectRepairResult> {
  const request = await requestOf(host, "correct.repair", given, REPAIR_RULES);
  const options = withPaths(given, "sidecar", "output");
  const path = checkPath("correct.repair", "file", named);
  const { output, dryRun = false, signal } = options;
  const beside = options.sidecar ?? `${path}${SIDECAR_SUFFIX}`;
  const overwrite = options.force === true ? "replace" : "refuse";
  if (output !== undefined) await checkFilePlace(output, inputsWith(host, path, options.sidecar), { overwrite });
  return withReason(signal, async () => {
    const opened = await openProtected(path, beside, request);
    try {
      const planned = await planRepair(opened, request);
      const findings = correctFindings(path, planned);
      tellWarnings(host, findings, options);
      const { state, recoveredShards, byteLength } = planned;
      if (state === "lost") throw lost(path, planned);
      const isWritten = !dryRun && (state === "damaged" || output !== undefined);
      signal?.throwIfAborted();
      if (isWritten && output === undefined) await repairInPlace(await realPathOf(path), opened.file, planned);
      if (isWritten && output !== undefined) await repairCopy(path, opened.file, planned, { output, overwrite });
      const repaired = isWritten && state === "damaged";
      return {
        file: path,
        sidecar: beside,
        dryRun,
        state,
        repaired,
        recoveredShards,
        byteLength,
        output: output ?? null,
        ...healthFacts(planned),
        findings,
      };
    } finally {
      await opened.close();
    }
  });
}

async function planRepair(
  { file, sidecar }: ProtectedFile,
  { engine, signal, onProgress, expectSha256 }: Request<CorrectRepairOptions>,
): Promise<FileRepair> {
  const progress = startProgress({ label: "examining", total: file.byteLength }, onProgress);
  const healer = groupHealer(file, sidecar.source, { engine, signal });
  const context = { engine, healer, signal, onProgress: (done: number) => progress.add(done) };
  const planned = await planFileRepair(file, sidecar, context, digestOf(expectSha256));
  progress.end();
  return planned;
}

/** A file and its sidecar; the caller closes them. */
interface ProtectedFile {
  readonly file: Source;
  readonly sidecar: Sidecar;
  close(): Promise<void>;
}

async function openProtected(
  path: string,
  beside: string,
  { engine, signal }: Request<CommonOptions>,
): Promise<ProtectedFile> {
  await expectHashing(path, engine);
  const opened: Source[] = [];
  const close = async (): Promise<void> => {
    for (const source of opened) await source.close();
  };
  try {
    const file = await openFile(path, { signal });
    opened.push(file);
    const origin = beside === `${path}${SIDECAR_SUFFIX}` ? "beside" : "named";
    const source = await openSidecarFile(beside, origin, signal);
    opened.push(source);
    return { file, sidecar: await readSidecar(source, engine), close };
  } catch (error) {
    await close();
    throw error;
  }
}

/** Workers for a big file start while it is opened. */
async function expectHashing(path: string, engine: Engine): Promise<void> {
  const found = await stat(path).catch(() => undefined); // opening reports what is wrong with it
  if (found?.isFile() === true) engine.expect?.(found.size);
}

function inputsWith(host: NodeHost, ...paths: readonly (string | undefined)[]): readonly InputFile[] {
  const [file, ...others] = paths;
  const kept = others.filter((path) => path !== undefined).map((path) => ({ path, kind: "kept" as const }));
  return [...host.inputs, ...(file === undefined ? [] : [{ path: file, kind: "plain" as const }]), ...kept];
}

function healthFacts({ health, longestBurst: burst, sidecar }: FileVerdict): CorrectHealth {
  return { sidecarVersion: sidecar.version, segments: sidecar.segments.length, health, longestBurst: burst };
}

/** What is wrong with the sidecar itself: the file may still be intact. */
function tellWarnings(host: NodeHost, findings: readonly Finding[], options: CommonOptions): void {
  for (const finding of findings) if (finding.severity === "warning") tellDoubt(host, finding, options);
}

function realPathOf(path: string): Promise<string> {
  return realpath(path).catch((error: unknown) => {
    throw fileError(error, `Cannot repair "${path}"`, { source: path });
  });
}

function lost(path: string, { health, sidecar }: FileRepair): IntegrityError {
  const message = `Cannot repair "${path}": ${healthText(health)}, which is more than the parity of "${sidecar.label}" can heal, or it is of another file`;
  const hint = "The file is unchanged; get another copy of it";
  return new IntegrityError("integrity/aerocorrect.lost", message, { source: path }, { hint });
}
