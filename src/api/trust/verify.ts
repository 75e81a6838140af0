import { isTareError, type TareError, UsageError } from "../../base/errors.ts";
import type { Warned } from "../../model/finding.ts";
import { type Finding, findingFromError } from "../../model/finding.ts";
import type { VerifyLevel } from "../../model/format.ts";
import { type SignatureDemands, verifySignature } from "../../operations/sign.ts";
import { type Report, type TensorDigest, verify as verifyOpened } from "../../operations/verify.ts";
import { type Request, requestOf, type VerbHost } from "../host.ts";
import { withInput } from "../input-use.ts";
import type { Input, OpenedInput } from "../inputs.ts";
import { COMMON_RULES, type CommonOptions, choiceRule, functionRule, type OptionRule, switchRule } from "../options.ts";
import { startProgress } from "../progress.ts";
import { digestList, parseDigestList } from "./digest-list.ts";
import { type Key, keyRule, publicKeyOf } from "./keys.ts";

export interface VerifyOptions extends CommonOptions {
  /** "quick": what opening checks; "control": everything but the tensor data; "full" is the default. */
  readonly level?: VerifyLevel | undefined;
  /** Checks what is possible without downloading the weights, and notes what is left out. */
  readonly remote?: boolean | undefined;
  /** Computes a digest of every tensor, which the result has. */
  readonly digest?: "sha256" | "blake3" | undefined;
  /** An earlier result with digests, or the digests alone: every tensor is compared with its own. In `tare/node` also a path. */
  readonly digests?: VerifyResult | readonly TensorDigest[] | string | undefined;
  /** Demands a signature by this key. */
  readonly publicKey?: Key | undefined;
  /** Demands a valid signature, by any key. */
  readonly requireSignature?: boolean | undefined;
  /** With `publicKey`: a file without a signature passes. */
  readonly allowUnsigned?: boolean | undefined;
  /** Gets each finding of the result once, as early as it is known. */
  readonly onFinding?: ((finding: Finding) => void) | undefined;
}

/** What `tare verify --json` prints. */
export interface VerifyResult extends Report, Warned {}

const digestsRule: OptionRule = {
  must: "a result of verify, or a list of digests",
  test: (value) => typeof value === "string" || (typeof value === "object" && value !== null),
};
const RULES = {
  ...COMMON_RULES,
  level: choiceRule("quick", "control", "full"),
  remote: switchRule,
  digest: choiceRule("sha256", "blake3"),
  digests: digestsRule,
  publicKey: keyRule,
  requireSignature: switchRule,
  allowUnsigned: switchRule,
  onFinding: functionRule,
};

/** A result, and what it was made of. */
export interface Verified {
  readonly result: VerifyResult;
  /** The input as the user named it; undefined if it did not open. */
  readonly label?: string | undefined;
  /** Present if the file is too damaged for a check: the only finding. */
  readonly damage?: TareError | undefined;
}

export async function verify(host: VerbHost, input: Input, options: VerifyOptions = {}): Promise<VerifyResult> {
  return (await verifyInput(host, input, options)).result;
}

export async function verifyInput(host: VerbHost, input: Input, options: VerifyOptions): Promise<Verified> {
  const request = await requestOf(host, "verify", options, RULES);
  checkTogether(request);
  const expected = await expectedDigests(host, request);
  const demands = await signatureDemands(host, request);
  const tell = findingTeller(request.onFinding);
  try {
    return await withInput(host, input, request, async (opened) => {
      const checked = await runVerify(opened, { ...request, expected, onFinding: tell });
      const result = await withSignature(opened, checked, { request, demands });
      request.signal?.throwIfAborted();
      result.findings.forEach(tell);
      if (result.findings.some(isDamage)) await opened.distrust();
      return { result, label: opened.label };
    });
  } catch (error) {
    request.signal?.throwIfAborted();
    // Whatever is in the file, the answer is a result: a program that checks a thousand files needs no second way out.
    if (!isTareError(error) || !/^(format|integrity|limit)\//.test(error.code)) throw error;
    const finding = findingFromError(error);
    tell(finding);
    const level = levelOf(request);
    const result = { ok: false, level, weights: "not-compared", checked: {}, findings: [finding] } as const;
    return { result, damage: error };
  }
}

function isDamage({ severity, code }: Finding): boolean {
  return severity === "error" && /^(format|integrity)\/(?!signature\.)/.test(code);
}

/** Passes on each finding once: those of a format are known long before the others. */
function findingTeller(onFinding: VerifyOptions["onFinding"]): (finding: Finding) => void {
  const told = new Set<Finding>();
  return (finding) => {
    if (told.has(finding)) return;
    told.add(finding);
    onFinding?.(finding);
  };
}

function levelOf({ level = "full", remote }: VerifyOptions): VerifyLevel {
  return remote === true ? "control" : level;
}

function checkTogether({ level, remote, requireSignature, allowUnsigned }: VerifyOptions): void {
  const pairs = [
    ["level", "remote", level !== undefined && remote === true],
    ["requireSignature", "allowUnsigned", requireSignature === true && allowUnsigned === true],
  ] as const;
  for (const [one, other, areBoth] of pairs) {
    if (!areBoth) continue;
    const message = `Cannot use the option ${one} and the option ${other} together: choose one`;
    throw new UsageError("usage/arguments", message, { source: "options" });
  }
}

/** JSON: a result, or a list. */
const DIGESTS_TEXT = /^\s*[[{]/;

async function expectedDigests(
  host: VerbHost,
  { digests, ...request }: Request<VerifyOptions>,
): Promise<readonly TensorDigest[] | undefined> {
  if (digests === undefined) return undefined;
  if (typeof digests !== "string") return digestList(digests, "digests");
  // A list is told from a path as a key is: taken for a path, its text would be repeated in the error.
  if (DIGESTS_TEXT.test(digests)) return parseDigestList(digests, "digests");
  const disk = await host.disk?.(request);
  const action = `Cannot read "${digests}" for the option digests`;
  return parseDigestList(
    disk === undefined ? digests : await disk.readText(digests, action),
    disk === undefined ? "digests" : digests,
  );
}

/** Undefined if the user said nothing about signatures. */
async function signatureDemands(
  host: VerbHost,
  request: Request<VerifyOptions>,
): Promise<SignatureDemands | undefined> {
  const { publicKey, requireSignature, allowUnsigned } = request;
  if (publicKey === undefined && requireSignature !== true) return undefined;
  return {
    publicKey: publicKey === undefined ? undefined : await publicKeyOf(host, publicKey, request),
    unsigned: allowUnsigned === true ? "allowed" : "refused",
  };
}

type Checks = Omit<Request<VerifyOptions>, "onFinding"> & {
  readonly expected: readonly TensorDigest[] | undefined;
  readonly onFinding: (finding: Finding) => void;
};

async function runVerify(opened: OpenedInput, checks: Checks): Promise<Report> {
  const { engine, limits, concurrency, signal, digest, expected, remote, onFinding } = checks;
  const fileBytes = opened.container.parts.reduce((sum, part) => sum + part.byteLength, 0);
  const total = digest === undefined && expected === undefined ? undefined : fileBytes;
  const progress = startProgress({ label: "verifying", total }, checks.onProgress);
  const report = await verifyOpened(opened, {
    level: levelOf(checks),
    reach: remote === true ? "remote" : undefined,
    digest,
    expected,
    engine,
    limits: limits ?? {},
    concurrency,
    signal,
    onFinding,
    onProgress: (byteLength) => progress.add(byteLength),
  });
  progress.end();
  return report;
}

interface SignatureWork {
  readonly request: Request<VerifyOptions>;
  readonly demands: SignatureDemands | undefined;
}

/** A signature covers every byte, so without a request only the full check of a local file checks it. */
async function withSignature(
  opened: OpenedInput,
  report: Report,
  { request, demands }: SignatureWork,
): Promise<Report> {
  const isRemote = /^[a-z][a-z0-9+.-]+:\/\//i.test(opened.label);
  if (demands === undefined && (report.level !== "full" || isRemote)) return report;
  const { engine, signal } = request;
  const found = await verifySignature(opened, { engine, signal, resolver: opened.resolver, ...demands });
  const findings = [...report.findings, ...found];
  const isSigned = found.length > 0 && found.every(({ severity }) => severity !== "error");
  const weights = isSigned ? "compared" : report.weights;
  return { ...report, weights, findings, ok: findings.every(({ severity }) => severity !== "error") };
}
