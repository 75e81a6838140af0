import { isTareError } from "../../base/errors.ts";
import { printable } from "../../base/text.ts";
import { type Finding, findingFromError } from "../../model/finding.ts";
import type { FormatVerifier, VerifyContext } from "../../model/format.ts";
import { verifyAero } from "../aero/verify.ts";
import type { PartFile } from "./parts.ts";
import { type SetModel, setModel } from "./set-model.ts";
import { verifyAgreement } from "./verify-agreement.ts";
import { startFileCheck } from "./verify-file.ts";
import { verifyGlobalHashes } from "./verify-hashes.ts";

/** What is tolerated on opening and is an error in a set that is to be relied on. */
const GRAVE: ReadonlySet<string> = new Set([
  "format/aeroset.repeated-shard",
  "format/aeroset.missing-shard",
  "format/aeroset.sha256",
]);

/** Findings as they arise; a part that is missing or broken does not hide the others. */
export async function* verifyAeroset(model: SetModel, given: VerifyContext): AsyncGenerator<Finding> {
  // Everything that can be known without the weights is the level "control".
  const context: VerifyContext = given.reach === "remote" ? { ...given, level: "control" } : given;
  const { entries, warnings, partFiles } = model.content;
  context.count("tensors", entries.length);
  for (const finding of warnings) if (GRAVE.has(finding.code)) yield { ...finding, severity: "error" };
  yield* verifyIndex(model, context);
  if (context.level === "quick") return;
  const numbers = numbersByPart(model);
  for (const part of partFiles) {
    yield* verifyPart(model, part, { context, numbers: numbers.get(part) ?? [] });
  }
}

async function* verifyIndex(model: SetModel, context: VerifyContext): AsyncGenerator<Finding> {
  const { index, file } = model.content;
  const entry = { ...file.globalIndex, key: "global_tidx" };
  // The index is read whole in any case, so its digest costs nothing more over a network either.
  const level = context.reach === "remote" ? "full" : context.level;
  const check = startFileCheck(model, { entry, source: index.content.source }, { ...context, level, reach: undefined });
  try {
    for await (const finding of verifyAero(index, insideSet(context))) {
      // The index of a set has no weights, and is whole without them.
      if (finding.code !== "format/aero.missing-shard") yield finding;
    }
  } finally {
    await check.settled();
  }
  yield* check.findings();
}

/** The set counts its tensors once, by its index. */
function insideSet(context: VerifyContext): VerifyContext {
  const { count } = context;
  return {
    ...context,
    count: (what, by) => {
      if (what !== "tensors") count(what, by);
    },
  };
}

interface PartTask {
  readonly context: VerifyContext;
  /** Entries of the global index that the part is to hold. */
  readonly numbers: readonly number[];
}

async function* verifyPart(model: SetModel, part: PartFile, task: PartTask): AsyncGenerator<Finding> {
  try {
    yield* verifyOpened(model, part, task);
    task.context.count("parts");
  } catch (error) {
    if (!isTareError(error)) throw error;
    const lost = task.numbers.length;
    const tensors = lost === 0 ? "" : ` (${lost} ${lost === 1 ? "tensor" : "tensors"})`;
    const finding = findingFromError(error);
    yield { ...finding, message: finding.message + tensors, name: part.label };
  }
}

async function* verifyOpened(model: SetModel, part: PartFile, { context, numbers }: PartTask): AsyncGenerator<Finding> {
  const file = await part.open();
  const { source } = file.content;
  yield* file.warnings;
  const entry = { ...part.entry, key: `parts[${part.number}]` };
  // SHA-256 and the digests inside the file both need every byte: they run at the same time, in workers.
  const check = startFileCheck(model, { entry, source }, context);
  try {
    yield* verifyAero(file, insideSet(context));
    yield* verifyAgreement(model, part, numbers);
    if (context.level === "full") yield* verifyGlobalHashes(model, part, { context, numbers });
  } finally {
    await check.settled();
  }
  yield* check.findings();
  // Where there is a digest of the whole file, it was said already what would be needed.
  const isSaid = part.entry.sha256 !== undefined;
  if (context.reach === "remote" && !isSaid) yield weightsNotChecked(part, source.byteLength);
}

function weightsNotChecked(part: PartFile, byteLength: number): Finding {
  const message = `The weights of "${printable(part.label)}" were not compared with their digests: that needs all ${byteLength} bytes`;
  return { severity: "note", code: "integrity/not-checked", message, at: { source: part.label }, name: part.label };
}

function numbersByPart(model: SetModel): Map<PartFile, number[]> {
  const numbers = new Map<PartFile, number[]>();
  for (const [i, entry] of model.content.entries.entries()) {
    const part = model.partOf(entry);
    if (part === undefined) continue;
    const list = numbers.get(part);
    if (list === undefined) numbers.set(part, [i]);
    else list.push(i);
  }
  return numbers;
}

export const verifier: FormatVerifier = {
  verify: (container, context) => verifyAeroset(setModel(container), context),
};
