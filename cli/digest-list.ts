import { UsageError } from "../src/base/errors.ts";
import type { TensorDigest } from "../src/operations/verify.ts";
import { DIGEST_ALGORITHMS } from "../src/primitives/engine.ts";
import { readFlagText } from "./flag-file.ts";

/** Reads what `verify --digest … --json` wrote, or its bare `digests` array. */
export async function readDigestList(path: string): Promise<TensorDigest[]> {
  return parseDigestList(await readFlagText(path, "data", `Cannot read "${path}" for --digests`), path);
}

export function parseDigestList(text: string, path: string): TensorDigest[] {
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch (cause) {
    throw listError(path, "it must be JSON", cause);
  }
  const list = isRecord(parsed) ? parsed["digests"] : parsed;
  if (!Array.isArray(list) || list.length === 0) throw listError(path, "it must hold a list of digests");
  return list.map((item: unknown, i) => {
    if (isDigest(item)) return { name: item.name, algorithm: item.algorithm, hex: item.hex };
    throw listError(path, `entry ${i} must have a name, an algorithm and 64 hex digits`);
  });
}

function isDigest(value: unknown): value is TensorDigest {
  if (!isRecord(value)) return false;
  const { name, algorithm, hex } = value;
  const known = DIGEST_ALGORITHMS.some((candidate) => candidate === algorithm);
  return typeof name === "string" && known && typeof hex === "string" && /^[0-9a-fA-F]{64}$/.test(hex);
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function listError(path: string, reason: string, cause?: unknown): UsageError {
  return new UsageError(
    "usage/digest-list",
    `Cannot use "${path}" as a list of digests: ${reason}`,
    { source: path },
    {
      hint: "Make one with: tare verify TARGET --digest sha256 --json > digests.json",
      cause,
    },
  );
}
