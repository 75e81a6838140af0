import { parseDigestList } from "../../src/api/trust/digest-list.ts";
import type { Bytes } from "../../src/base/bytes.ts";
import { UsageError } from "../../src/base/errors.ts";
import type { LimitOverrides } from "../../src/base/limits.ts";
import { findLimitsFault } from "../../src/formats/explain.ts";
import { FORMATS } from "../../src/formats/registry.ts";
import type { TensorDigest } from "../../src/operations/verify.ts";
import { readWhole } from "../../src/platform/node/files/reads.ts";

/** Limits for files that flags name. No file that people write comes near them, and a device never ends. */
export const FLAG_FILE_BYTES = {
  /** A few lines: limits, headers. */
  settings: 1 << 20,
  /** Metadata, vocabularies, digests of every tensor. */
  data: 64 << 20,
} as const;

/** How a file that a flag names is read. */
export interface FlagFile {
  readonly kind: keyof typeof FLAG_FILE_BYTES;
  /** Begins the error: "Cannot read --metadata". */
  readonly action: string;
  readonly signal: AbortSignal | undefined;
}

/** Reads a whole file that a flag names, also a pipe. */
export function readFlagFile(path: string, { kind, action, signal }: FlagFile): Promise<Bytes> {
  return readWhole(path, { action, maxBytes: FLAG_FILE_BYTES[kind], signal });
}

/** Like `readFlagFile`, for text. */
export async function readFlagText(path: string, file: FlagFile): Promise<string> {
  // A byte order mark stays, like everything else: the parser of the text decides what it allows.
  return new TextDecoder("utf-8", { ignoreBOM: true }).decode(await readFlagFile(path, file));
}

/** `{ "gguf": { "headerBytes": 1e9 } }`: only existing limits, only integers. */
export async function readLimits(path: string | undefined, signal: AbortSignal | undefined): Promise<LimitOverrides> {
  if (path === undefined) return {};
  const text = await readFlagText(path, { kind: "settings", action: `Cannot read --limits "${path}"`, signal });
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch (cause) {
    throw limitsError(path, "it must be JSON", { cause });
  }
  await checkLimits(parsed, path);
  return parsed as LimitOverrides;
}

async function checkLimits(value: unknown, path: string): Promise<void> {
  if (!isRecord(value)) throw limitsError(path, "it must be an object of formats");
  for (const [id, own] of Object.entries(value)) {
    if (!isRecord(own)) throw limitsError(path, `"${id}" must have an object of limits`);
    const wrong = Object.keys(own).find((name) => !Number.isSafeInteger(own[name]) || (own[name] as number) < 0);
    const fault = await findLimitsFault({ [id]: own as LimitOverrides[string] }, FORMATS);
    if (fault !== undefined) throw limitsError(path, fault.reason, { hint: fault.hint });
    if (wrong !== undefined) throw limitsError(path, `"${wrong}" must be a whole number`);
  }
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function limitsError(
  path: string,
  reason: string,
  more: { cause?: unknown; hint?: string | undefined } = {},
): UsageError {
  return new UsageError("usage/limits-file", `Cannot use --limits "${path}": ${reason}`, { source: path }, more);
}

/** Reads what `verify --digest … --json` wrote, or its bare `digests` array. */
export async function readDigestList(path: string, signal: AbortSignal | undefined): Promise<readonly TensorDigest[]> {
  const action = `Cannot read "${path}" for --digests`;
  return parseDigestList(await readFlagText(path, { kind: "data", action, signal }), path);
}
