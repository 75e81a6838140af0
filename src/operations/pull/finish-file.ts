import { isTareError } from "../../base/errors.ts";
import type { LimitOverrides } from "../../base/limits.ts";
import { encodeHex } from "../../base/text.ts";
import type { Source } from "../../bytes/source.ts";
import type { Format } from "../../model/format.ts";
import type { Engine } from "../../primitives/engine.ts";
import type { Comparison } from "./begin-file.ts";
import { contentError, digestError } from "./errors.ts";

/** What the bytes of a file were compared with before it was put in place. */
export type Verified = "pages" | "sha256" | "chunks" | "none";

export interface FinishOptions {
  readonly label: string;
  readonly sha256: string | undefined;
  readonly comparison: Comparison;
  readonly engine: Engine;
  readonly limits: LimitOverrides;
  readonly signal: AbortSignal;
}

/** Compares a file that arrived whole with everything that is known about it; throws an IntegrityError. */
export async function checkArrived(source: Source, options: FinishOptions): Promise<Verified> {
  const { sha256, comparison, engine, signal, label } = options;
  if (sha256 !== undefined) {
    const range = { offset: 0, byteLength: source.byteLength, signal };
    const found = encodeHex(await engine.digestRange("sha256", source, range));
    if (found !== sha256) throw digestError(label, sha256, found);
    return comparison.by === "pages" ? "pages" : "sha256";
  }
  if (comparison.by === "nothing") return "none";
  // The pages were compared as they arrived; header, tables and metadata are what is left.
  await checkContent(source, comparison.format, { ...options, level: comparison.by === "pages" ? "control" : "full" });
  return comparison.by;
}

type CheckOptions = FinishOptions & { readonly level: "control" | "full" };

async function checkContent(source: Source, format: Format, options: CheckOptions): Promise<void> {
  const { engine, limits, signal, label, level } = options;
  const context = { engine, limits, signal, level, count: () => undefined };
  try {
    const [reader, { verify }] = await Promise.all([format.read(), format.verify()]);
    const container = await reader.open(source, context);
    for await (const finding of verify(container, context)) {
      if (finding.severity === "error") throw contentError(label, finding.message, finding.at.offset);
    }
  } catch (error) {
    if (!isTareError(error) || error.code.startsWith("integrity/") || error.code.startsWith("source/")) throw error;
    throw contentError(label, error.message, error.at.offset);
  }
}
