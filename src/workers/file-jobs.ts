import { UsageError } from "../base/errors.ts";
import { sliceSource } from "../bytes/slice.ts";
import type { Source, SourceDescriptor } from "../bytes/source.ts";
import { flattenDescriptor, type Job, type JobHost, openFlat } from "./jobs.ts";

/** Jobs of writers and repairers, who have files: a page has none of them. */

export const seal: Job<"vault-seal"> = async (request, context) => {
  const { runSealJob } = await import("../formats/aerovault/write/seal-job.ts");
  return runSealJob(request, { ...context, open: (descriptor) => openAny(descriptor, context) });
};

export const parityWindow: Job<"parity-window"> = async (request, context) => {
  const { runParityJob } = await import("../operations/correct/parity-job.ts");
  const payload = await runParityJob(request, { ...context, open: (descriptor) => openAny(descriptor, context) });
  context.hand?.(payload.buffer);
  return payload;
};

export const parityHeal: Job<"parity-heal"> = async (request, context) => {
  const { runHealJob } = await import("../operations/correct/heal-job.ts");
  const group = await runHealJob(request, { ...context, open: (descriptor) => openAny(descriptor, context) });
  for (const { buffer } of [group, ...group.changed].map(({ bytes }) => bytes)) context.hand?.(buffer);
  return group;
};

export const extract: Job<"vault-extract"> = async (request, context) => {
  const { runExtractJob } = await import("../operations/vault/extract-job.ts");
  const open = async (descriptor: SourceDescriptor | undefined): Promise<Source> => {
    if (descriptor === undefined) throw noDisk("the vault must be a file that a worker can open");
    return openAny(descriptor, context);
  };
  const { openTarget } = context;
  if (openTarget === undefined) throw noDisk("this host has no files to write to");
  return runExtractJob(request, { ...context, open, openTarget });
};

/** Opens a descriptor of any kind, as the whole it describes. */
async function openAny(descriptor: SourceDescriptor, host: JobHost): Promise<Source> {
  if (descriptor.kind !== "slice") return openFlat(descriptor, host);
  const leaf = flattenDescriptor(descriptor, 0, descriptor.byteLength);
  const whole = await openFlat(leaf.descriptor, host);
  return owningSlice(whole, leaf.offset, descriptor.byteLength);
}

/** A slice that closes what it was cut from. */
function owningSlice(whole: Source, offset: number, byteLength: number): Source {
  const slice = sliceSource(whole, offset, byteLength);
  return {
    label: slice.label,
    byteLength,
    read: (at, length, options) => slice.read(at, length, options),
    stream: (at, options) => slice.stream(at, options),
    close: () => whole.close(),
  };
}

function noDisk(problem: string): UsageError {
  return new UsageError("usage/worker.request", `Cannot extract on a worker: ${problem}`, { source: "worker" });
}
