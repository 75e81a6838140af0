import { UsageError } from "../src/base/errors.ts";
import type { LimitOverrides } from "../src/base/limits.ts";
import { FORMATS, formatById } from "../src/formats/registry.ts";
import { readFlagText } from "./flag-file.ts";

/** `{ "gguf": { "headerBytes": 1e9 } }`: only limits that exist, only whole numbers. */
export async function readLimits(path: string | undefined): Promise<LimitOverrides> {
  if (path === undefined) return {};
  const text = await readFlagText(path, "settings", `Cannot read --limits "${path}"`);
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch (cause) {
    throw limitsError(path, "it must be JSON", cause);
  }
  await checkLimits(parsed, path);
  return parsed as LimitOverrides;
}

async function checkLimits(value: unknown, path: string): Promise<void> {
  if (!isRecord(value)) throw limitsError(path, "it must be an object of formats");
  for (const [id, own] of Object.entries(value)) {
    const format = formatById(id);
    if (format === undefined || !isRecord(own)) {
      throw limitsError(
        path,
        `"${id}" must be one of ${FORMATS.map((f) => f.id).join(", ")}, with an object of limits`,
      );
    }
    const { limits } = await format.read();
    for (const [name, limit] of Object.entries(own)) {
      const known = Object.hasOwn(limits, name);
      if (!known) throw limitsError(path, `"${id}" has no limit "${name}", only ${Object.keys(limits).join(", ")}`);
      if (!Number.isSafeInteger(limit) || (limit as number) < 0)
        throw limitsError(path, `"${name}" must be a whole number`);
    }
  }
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function limitsError(path: string, reason: string, cause?: unknown): UsageError {
  return new UsageError("usage/limits-file", `Cannot use --limits "${path}": ${reason}`, { source: path }, { cause });
}
