import { UsageError } from "../../src/base/errors.ts";
import type { Container } from "../../src/model/archive.ts";
import { diff, diffArchives } from "../../src/operations/diff.ts";
import type { Target } from "../reader/open-targets.ts";
import type { CallContext } from "../reader/serve-calls.ts";
import type { Comparison } from "../shared/calls.ts";

/** Compares two models by tensors, across formats, or two vaults by files. */
export async function compare(a: Target, b: Target, context: CallContext<"compare">): Promise<Comparison> {
  const [one, other] = [containerOf(a), containerOf(b)];
  const { signal } = context;
  const onProgress = (bytes: number): void => context.progress({ bytes });
  if (one.kind === "model" && other.kind === "model") {
    return { kind: "models", models: await diff(one, other, { stats: "stats", signal, onProgress }) };
  }
  if (one.kind === "archive" && other.kind === "archive") {
    return { kind: "archives", archives: await diffArchives(one, other, { signal, onProgress }) };
  }
  const message = "Cannot compare a model with a vault: open the model that lies in the vault";
  throw new UsageError("usage/not-a-model", message, { source: b.label });
}

function containerOf({ opened, label }: Target): Container {
  if (opened !== undefined) return opened.container;
  throw new UsageError("usage/not-a-model", "Cannot compare: the content was not understood", { source: label });
}
