import { type Bytes, concatBytes, type Scratch } from "../base/bytes.ts";
import { UsageError } from "../base/errors.ts";
import { assembledFrom } from "../bytes/assembled.ts";
import { checkRange } from "../bytes/extents.ts";
import { sliceSource } from "../bytes/slice.ts";
import type { Source, SourceDescriptor } from "../bytes/source.ts";
import type { SealOutput } from "../formats/aerovault/write/seal/worker.ts";
import type { ExtractRequest, ExtractTarget, HeldFile, TargetFile } from "../operations/vault/extract/worker.ts";
import type { Engine } from "../primitives/engine.ts";
import { digestSubtrees } from "./digest-split.ts";
import { type JobKind, type JobRequest, type JobResult, unpackExtents } from "./protocol.ts";

/** A descriptor that is not made of others. */
export type LeafDescriptor = Exclude<SourceDescriptor, { readonly kind: "slice" | "assembled" }>;

/** A descriptor that is not a slice. */
type FlatDescriptor = Exclude<SourceDescriptor, { readonly kind: "slice" }>;

/** What a worker has in addition to the request: the platform's engine and its way to open a source. */
export interface JobHost {
  readonly engine: Engine;
  openDescriptor(descriptor: LeafDescriptor): Promise<Source>;
  /** Reads a whole small file with blocking calls. Refuses a file that is not, or no longer, the one described. */
  readWhole?: ((descriptor: SourceDescriptor, into: Bytes) => void) | undefined;
  /** Writes to an open file of this process by its number. Only on hosts with a disk. */
  writeAt?: ((output: SealOutput, bytes: Bytes, offset: number) => void) | undefined;
  /** Memory that jobs reuse. */
  readonly scratch?: Scratch | undefined;
  /** A file that another thread keeps open; closing the source does not close it. Only on hosts with a disk. */
  openHeld?: ((file: HeldFile) => Source) | undefined;
  /** Opens a file for writing. Only on hosts with a disk. */
  openTarget?: ((target: ExtractTarget) => TargetFile) | undefined;
}

export interface JobContext extends JobHost {
  readonly signal: AbortSignal;
  readonly onProgress: (byteLength: number) => void;
  /** Marks a buffer of the result to be moved to the caller instead of copied. */
  readonly hand?: ((buffer: ArrayBuffer) => void) | undefined;
}

/** A job by its kind. */
type Job<K extends JobKind> = (request: JobRequest<K>, context: JobContext) => Promise<JobResult<K>>;

type Jobs = { readonly [K in JobKind]: Job<K> };

/** The work itself, without messages: each job is a function of its request and its context. */
export const JOBS: Jobs = {
  async "digest-range"({ algorithm, descriptor, offset, byteLength }, context) {
    const leaf = flattenDescriptor(descriptor, offset, byteLength);
    const source = await openFlat(leaf.descriptor, context);
    try {
      const { signal, onProgress } = context;
      return await context.engine.digestRange(algorithm, source, {
        offset: leaf.offset,
        byteLength,
        signal,
        onProgress,
      });
    } finally {
      await source.close();
    }
  },
  async "digest-extents"({ algorithm, descriptor, extents, subtrees }, context) {
    const { descriptor: leaf, offset: base } = flattenDescriptor(descriptor, 0, 0);
    const source = await openFlat(leaf, context);
    try {
      const list = unpackExtents(extents, base);
      const { signal, onProgress } = context;
      const options = { signal, onProgress };
      const digests =
        subtrees === undefined
          ? context.engine.digestExtents(algorithm, source, list, options)
          : digestSubtrees(context.engine, { source, extents: list, subtrees }, options);
      return concatBytes(await digests);
    } finally {
      await source.close();
    }
  },
  // The code of the following jobs is loaded on demand, because most workers only hash.
  "quantize-range": async (request, context) => {
    const { quantizeStored } = await import("../operations/quantize.ts");
    const { descriptor: leaf, offset } = flattenDescriptor(request.descriptor, 0, request.storedBytes);
    const source = await openFlat(leaf, context);
    try {
      return await quantizeStored(request, sliceSource(source, offset, request.storedBytes), context);
    } finally {
      await source.close();
    }
  },
  "vault-seal": async (request, context) => seal(request, context),
  "parity-window": async (request, context) => parityWindow(request, context),
  "parity-heal": async (request, context) => parityHeal(request, context),
  "vault-extract": async (request, context) => extract(request, context),
  "embed-group": async (request) => (await import("../embedding/encoder/worker.ts")).embedGroup(request),
  digest: ({ algorithm, bytes }, context) => context.engine.digest(algorithm, bytes),
};

/** Opens a descriptor, or all the files of an assembled one. */
async function openFlat(descriptor: FlatDescriptor, host: JobHost): Promise<Source> {
  if (descriptor.kind !== "assembled") return host.openDescriptor(descriptor);
  const sources: Source[] = [];
  const rows = descriptor.rows.slice();
  try {
    for (const [index, file] of descriptor.files.entries()) {
      const { descriptor: flat, offset } = flattenDescriptor(file, 0, 0);
      sources.push(await openFlat(flat, host));
      for (let i = 0; i < rows.length; i += 3) if (rows[i] === index) rows[i + 1] = (rows[i + 1] as number) + offset;
    }
    return assembledFrom(sources, rows, "assembled");
  } catch (error) {
    await Promise.allSettled(sources.map((source) => source.close()));
    throw error;
  }
}

/** Where a run of a slice is in the descriptor that the slice was cut from, at any depth. */
export function flattenDescriptor(
  descriptor: SourceDescriptor,
  offset: number,
  byteLength: number,
): { readonly descriptor: FlatDescriptor; readonly offset: number } {
  let leaf = descriptor;
  let position = offset;
  while (leaf.kind === "slice") {
    checkRange("slice", leaf.byteLength, position, byteLength);
    position += leaf.offset;
    leaf = leaf.of;
  }
  return { descriptor: leaf, offset: position };
}

/** Jobs that write or repair files. Pages do not have them. */

const seal: Job<"vault-seal"> = async (request, context) => {
  const { runSealJob } = await import("../formats/aerovault/write/seal/worker.ts");
  return runSealJob(request, { ...context, open: (descriptor) => openAny(descriptor, context) });
};

const parityWindow: Job<"parity-window"> = async (request, context) => {
  const { runParityJob } = await import("../operations/correct/worker.ts");
  const payload = await runParityJob(request, { ...context, open: (descriptor) => openAny(descriptor, context) });
  context.hand?.(payload.buffer);
  return payload;
};

const parityHeal: Job<"parity-heal"> = async (request, context) => {
  const { runHealJob } = await import("../operations/correct/worker.ts");
  const group = await runHealJob(request, { ...context, open: (descriptor) => openAny(descriptor, context) });
  for (const { buffer } of [group, ...group.changed].map(({ bytes }) => bytes)) context.hand?.(buffer);
  return group;
};

const extract: Job<"vault-extract"> = async (request, context) => {
  const { runExtractJob } = await import("../operations/vault/extract/worker.ts");
  const { openHeld } = context;
  const open = async (vault: ExtractRequest["vault"]): Promise<Source> => {
    if (vault !== undefined && vault.kind !== "held") return openAny(vault, context);
    if (vault !== undefined && openHeld !== undefined) return openHeld(vault);
    throw noDisk("the vault must be a file that a worker can open");
  };
  const { openTarget } = context;
  if (openTarget === undefined) throw noDisk("this host has no files to write to");
  return runExtractJob(request, { ...context, open, openTarget });
};

/** Opens a descriptor of any kind, slices too. */
async function openAny(descriptor: SourceDescriptor, host: JobHost): Promise<Source> {
  if (descriptor.kind !== "slice") return openFlat(descriptor, host);
  const leaf = flattenDescriptor(descriptor, 0, descriptor.byteLength);
  const whole = await openFlat(leaf.descriptor, host);
  return owningSlice(whole, leaf.offset, descriptor.byteLength);
}

/** A slice that also closes the source it was cut from. */
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
