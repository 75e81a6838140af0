import { isTareError } from "../base/errors.ts";
import type { LimitOverrides } from "../base/limits.ts";
import { encodeHex } from "../base/text.ts";
import type { Source } from "../bytes/source.ts";
import type { Container, Entry } from "../model/archive.ts";
import { type Finding, findingFromError } from "../model/finding.ts";
import type { Opened, VerifyLevel } from "../model/format.ts";
import type { Model } from "../model/model.ts";
import type { Tensor } from "../model/tensor.ts";
import type { DigestAlgorithm, Engine } from "../primitives/engine.ts";
import { carriesDigests, mapLayout } from "./map.ts";
import { mapTensors } from "./reading/concurrency.ts";
import { unclaimedFindings } from "./reading/unclaimed.ts";

/** Tensors below this are hashed at once: setting up a job would cost more than the hashing. */
const WHOLE_BYTES = 64 << 10;

export interface TensorDigest {
  readonly name: string;
  readonly algorithm: DigestAlgorithm;
  readonly hex: string;
}

export interface VerifyOptions {
  readonly level: VerifyLevel;
  /** "remote" checks what is possible without reading the weights, and notes what is left out: level "control". */
  readonly reach?: "remote" | undefined;
  readonly engine: Engine;
  /** Computes this digest of every tensor and reports it. */
  readonly digest?: DigestAlgorithm | undefined;
  /** Digests from an earlier run; every tensor is compared with its entry. */
  readonly expected?: readonly TensorDigest[] | undefined;
  /** Tensors hashed at once. */
  readonly concurrency?: number | undefined;
  readonly limits?: LimitOverrides | undefined;
  readonly signal?: AbortSignal | undefined;
  readonly onProgress?: ((byteLength: number) => void) | undefined;
  /** Called with each finding of the format as it arises; the report has all of them again. */
  readonly onFinding?: ((finding: Finding) => void) | undefined;
}

export interface Report {
  /** True if no finding is an error. */
  readonly ok: boolean;
  readonly level: VerifyLevel;
  /** Whether the weights were compared with digests: in the file, in a list, or in the vault that the file is in. */
  readonly weights: "compared" | "not-compared";
  /** Counts and bytes of what was checked. */
  readonly checked: Readonly<Record<string, number>>;
  readonly findings: readonly Finding[];
  readonly digests?: readonly TensorDigest[];
}

type Count = (what: string, by?: number) => void;

/** Collects findings instead of throwing, so that one damaged tensor does not hide the next. */
export async function verify(opened: Opened, options: VerifyOptions): Promise<Report> {
  const { container, format, reader, notes, stored } = opened;
  const checked: Record<string, number> = {};
  const count: Count = (what, by = 1) => {
    checked[what] = (checked[what] ?? 0) + by;
  };
  let findings: Finding[] = [];
  const level = options.reach === "remote" ? "control" : options.level;
  const context = { ...options, level, limits: options.limits ?? {}, count };
  const { verify: check, padding } = await format.verify();
  for await (const finding of check(container, context)) {
    findings.push(finding);
    options.onFinding?.(finding);
  }
  if (level === "full") {
    for (const finding of await idleFindings(opened, findings, { padding, signal: options.signal })) {
      findings.push(finding);
      options.onFinding?.(finding);
    }
  }
  if (level === "full" && !carriesDigests(reader, container)) {
    for (const finding of await unfilledFindings(opened, options.signal)) {
      findings.push(finding);
      options.onFinding?.(finding);
    }
  }
  const isStored = level === "full" && stored !== undefined;
  if (isStored) {
    for (const finding of await readStored(stored, context)) {
      findings.push(finding);
      options.onFinding?.(finding);
    }
  }
  if (options.reach === "remote") findings.push(...unchecked(container, findings));
  // A list, not arguments of a call: there may be more findings than a call can have arguments.
  findings = [...notes, ...unrepeated(container.warnings, findings), ...findings];
  let digests: TensorDigest[] | undefined;
  if (container.kind === "model" && (options.digest !== undefined || options.expected !== undefined)) {
    digests = await digestTensors(container, options, findings, count);
  }
  const ok = findings.every((finding) => finding.severity !== "error");
  const proven = level === "full" && (isStored || carriesDigests(reader, container));
  const compared = options.expected !== undefined || proven;
  const weights = compared ? "compared" : "not-compared";
  return { ok, level, weights, checked, findings, ...(digests === undefined ? {} : { digests }) };
}

/** Fewer zeros at the end of a file are no sign of anything. */
const UNFILLED_BYTES = 1 << 20;
/** A number before the zeros may end in some of its own. */
const NUMBER_BYTES = 8;

/**
 * Files that are zero from somewhere within a tensor on: a download that was interrupted after its room was reserved.
 * A tensor that is zero as a whole may be meant so.
 */
async function unfilledFindings(opened: Opened, signal: AbortSignal | undefined): Promise<readonly Finding[]> {
  const { container } = opened;
  if (container.kind !== "model") return [];
  const found: Finding[] = [];
  const rows = mapLayout(opened);
  for (const [part, { source, label, byteLength }] of container.parts.entries()) {
    const start = await startOfZeros(source, signal).catch((error: unknown) => {
      if (!isTareError(error)) throw error;
      return byteLength; // what cannot be read is told by the format
    });
    const isInTensor = rows.some(
      (row) =>
        row.part === part &&
        row.kind === "tensor" &&
        row.offset + NUMBER_BYTES < start &&
        start < row.offset + row.byteLength,
    );
    if (byteLength - start < UNFILLED_BYTES || !isInTensor) continue;
    const message = `The last ${byteLength - start} bytes are all zero, and they begin in the middle of a tensor`;
    const hint = "If a download was interrupted after its room was reserved, get the file again";
    const at = { source: label, offset: start, byteLength: byteLength - start };
    found.push({ severity: "warning", code: "format/zeros", message, at, hint });
  }
  return found;
}

/** Where the zeros at the end of a source begin. Reads from the end, and stops at the first other byte. */
async function startOfZeros(source: Source, signal: AbortSignal | undefined): Promise<number> {
  for (let end = source.byteLength; end > 0; ) {
    const start = Math.max(0, end - UNFILLED_BYTES);
    const bytes = await source.read(start, end - start, { signal });
    let last = bytes.byteLength;
    while (last > 0 && bytes[last - 1] === 0) last--;
    if (last > 0) return start + last;
    end = start;
  }
  return 0;
}

/** Bytes that nothing claims. Files that cannot be opened or read were told by the format. */
async function idleFindings(
  opened: Opened,
  findings: readonly Finding[],
  options: Parameters<typeof unclaimedFindings>[2],
): Promise<readonly Finding[]> {
  const { container } = opened;
  const found: Finding[] = [];
  try {
    if (container.kind === "model") await container.openParts?.();
    for await (const finding of unclaimedFindings(opened, [...container.warnings, ...findings], options)) {
      found.push(finding);
    }
  } catch (error) {
    if (!isTareError(error)) throw error;
  }
  return found;
}

/**
 * Reads files of an archive whole, because most formats carry no digest of their weights, and the archive has one of
 * every block. One finding for each file that cannot be proven.
 */
async function readStored(
  entries: ReadonlySet<Entry>,
  { signal, count, onProgress }: Pick<VerifyOptions, "signal" | "onProgress"> & { readonly count: Count },
): Promise<Finding[]> {
  const findings: Finding[] = [];
  for (const entry of entries) {
    try {
      for await (const { byteLength } of entry.source().stream(0, { signal })) {
        count("vaultBytes", byteLength);
        onProgress?.(byteLength);
      }
    } catch (error) {
      // A password that is missing or wrong is not a fault of the file, and neither is a change of the vault.
      if (!isTareError(error) || error.code.startsWith("usage/") || error.code === "source/changed") throw error;
      findings.push({ ...findingFromError(error), name: entry.path });
    }
  }
  return findings;
}

/** What opening tolerated, except for what verifying reports as an error: each fault is reported once. */
function unrepeated(warnings: readonly Finding[], findings: readonly Finding[]): readonly Finding[] {
  const keyOf = ({ code, message, at }: Finding): string => JSON.stringify([code, message, at]);
  const errors = new Set(findings.filter(({ severity }) => severity === "error").map(keyOf));
  return errors.size === 0 ? warnings : warnings.filter((warning) => !errors.has(keyOf(warning)));
}

/** For formats that did not report themselves what they left out. */
function unchecked(container: Container, findings: readonly Finding[]): Finding[] {
  if (findings.some((finding) => finding.code === "integrity/not-checked")) return [];
  const byteLength = container.parts.reduce((sum, part) => sum + part.byteLength, 0);
  const message = `The weights were not checked: that needs all ${byteLength} bytes`;
  const at = { source: container.parts[0]?.label ?? container.format };
  return [{ severity: "note", code: "integrity/not-checked", message, at }];
}

async function digestTensors(
  model: Model,
  options: VerifyOptions,
  findings: Finding[],
  count: Count,
): Promise<TensorDigest[]> {
  const expected = new Map(options.expected?.map((digest) => [digest.name, digest]));
  const together = { concurrency: options.concurrency ?? 4, signal: options.signal };
  const digests = await mapTensors(model.tensors, together, async (tensor) => {
    const algorithm = expected.get(tensor.name)?.algorithm ?? options.digest ?? "sha256";
    const hex = await digestTensor(tensor, algorithm, options, findings);
    if (hex === undefined) return undefined;
    count("digests");
    count("digestBytes", tensor.byteLength);
    return { name: tensor.name, algorithm, hex };
  });
  const made = digests.filter((digest): digest is TensorDigest => digest !== undefined);
  if (options.expected !== undefined) {
    for (const finding of compareDigests(model, made, expected)) findings.push(finding);
  }
  return made;
}

/** Undefined, with a finding, if the tensor cannot be read. */
async function digestTensor(
  tensor: Tensor,
  algorithm: DigestAlgorithm,
  options: VerifyOptions,
  findings: Finding[],
): Promise<string | undefined> {
  try {
    const { engine, signal, onProgress } = options;
    const range = { offset: 0, byteLength: tensor.byteLength, signal, onProgress };
    if (tensor.byteLength >= WHOLE_BYTES) return encodeHex(await engine.digestRange(algorithm, tensor.source(), range));
    const digest = await engine.digest(algorithm, await tensor.bytes({ signal }));
    onProgress?.(tensor.byteLength);
    return encodeHex(digest);
  } catch (error) {
    if (!isTareError(error)) throw error;
    findings.push({ ...findingFromError(error), name: tensor.name });
    return undefined;
  }
}

function compareDigests(
  model: Model,
  made: readonly TensorDigest[],
  expected: ReadonlyMap<string, TensorDigest>,
): Finding[] {
  const findings: Finding[] = [];
  const label = model.parts[0]?.label ?? model.format;
  for (const digest of made) {
    const wanted = expected.get(digest.name);
    const tensor = model.tensor(digest.name);
    const at = { source: tensor.file ?? label, offset: tensor.offset, path: digest.name };
    if (wanted === undefined) {
      const message = `Cannot check "${digest.name}": the list of digests does not name it`;
      findings.push({ severity: "warning", code: "integrity/digest-unlisted", message, at, name: digest.name });
    } else if (wanted.hex.toLowerCase() !== digest.hex) {
      const where = `bytes ${tensor.offset} to ${tensor.offset + tensor.storedByteLength}`;
      const message = `Tensor "${digest.name}" is damaged: ${digest.algorithm} of ${where} must be ${wanted.hex}, found ${digest.hex}`;
      findings.push({ severity: "error", code: "integrity/digest-mismatch", message, at, name: digest.name });
    }
  }
  const present = new Set(model.tensors.map((tensor) => tensor.name));
  for (const name of expected.keys()) {
    if (present.has(name)) continue;
    const message = `Tensor "${name}" is missing: the list of digests names it`;
    findings.push({
      severity: "error",
      code: "integrity/digest-missing",
      message,
      at: { source: label, path: name },
      name,
    });
  }
  return findings;
}
