import { UsageError } from "../../base/errors.ts";
import type { TensorDigest } from "../../operations/verify.ts";
import { DIGEST_ALGORITHMS } from "../../primitives/engine.ts";

/** Digests as text: what `tare verify --digest … --json` prints, or its `digests` alone. `source` is named in errors. */
export function parseDigestList(text: string, source: string): readonly TensorDigest[] {
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch (cause) {
    throw listError(source, "it must be JSON", cause);
  }
  return digestList(parsed, source);
}

/** The same of a value: a result of `verify`, or its `digests` alone. */
export function digestList(value: unknown, source: string): readonly TensorDigest[] {
  const list = isRecord(value) ? value["digests"] : value;
  if (!Array.isArray(list) || list.length === 0) throw listError(source, "it must hold a list of digests");
  return list.map((item: unknown, i) => {
    if (isDigest(item)) return { name: item.name, algorithm: item.algorithm, hex: item.hex };
    throw listError(source, `entry ${i} must have a name, an algorithm and 64 hex digits`);
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

function listError(source: string, reason: string, cause?: unknown): UsageError {
  const message = `Cannot use "${source}" as a list of digests: ${reason}`;
  const hint = "Make one: the JSON of tare verify, with the option digest";
  return new UsageError("usage/digest-list", message, { source }, { hint, cause });
}
