import { concatBytes } from "../base/bytes.ts";
import { checkRange } from "../bytes/extents.ts";
import type { Source, SourceDescriptor } from "../bytes/source.ts";
import type { Engine, HashExtent } from "../primitives/engine.ts";
import type { JobKind, JobRequest, JobResult } from "./protocol.ts";

/** A descriptor that is not a slice of another one. */
export type LeafDescriptor = Exclude<SourceDescriptor, { readonly kind: "slice" }>;

/** What a worker has besides the request: the platform's engine and its way to open a source. */
export interface JobHost {
  readonly engine: Engine;
  openDescriptor(descriptor: LeafDescriptor): Promise<Source>;
}

export interface JobContext extends JobHost {
  readonly signal: AbortSignal;
  readonly onProgress: (byteLength: number) => void;
}

type Jobs = { readonly [K in JobKind]: (request: JobRequest<K>, context: JobContext) => Promise<JobResult<K>> };

/** The work itself, free of messages: each job is a function of its request and its context. */
export const JOBS: Jobs = {
  async "digest-range"({ algorithm, descriptor, offset, byteLength }, context) {
    const leaf = flattenDescriptor(descriptor, offset, byteLength);
    const source = await context.openDescriptor(leaf.descriptor);
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
  async "digest-extents"({ algorithm, descriptor, extents }, context) {
    const { descriptor: leaf, offset: base } = flattenDescriptor(descriptor, 0, 0);
    const source = await context.openDescriptor(leaf);
    try {
      const list = unpackExtents(extents, base);
      const { signal, onProgress } = context;
      return concatBytes(await context.engine.digestExtents(algorithm, source, list, { signal, onProgress }));
    } finally {
      await source.close();
    }
  },
  digest: ({ algorithm, bytes }, context) => context.engine.digest(algorithm, bytes),
};

/** Extents as one array that is cheap to send. */
export function packExtents(extents: readonly HashExtent[]): Float64Array<ArrayBuffer> {
  const packed = new Float64Array(extents.length * 2);
  extents.forEach(({ offset, byteLength }, i) => {
    packed[2 * i] = offset;
    packed[2 * i + 1] = byteLength;
  });
  return packed;
}

function unpackExtents(packed: Float64Array<ArrayBuffer>, base: number): HashExtent[] {
  const extents: HashExtent[] = [];
  for (let i = 0; i < packed.length; i += 2) {
    extents.push({ offset: base + (packed[i] as number), byteLength: packed[i + 1] as number });
  }
  return extents;
}

/** Where a run of a slice lies in what the slice was cut from, at any depth. */
export function flattenDescriptor(
  descriptor: SourceDescriptor,
  offset: number,
  byteLength: number,
): { readonly descriptor: LeafDescriptor; readonly offset: number } {
  let leaf = descriptor;
  let position = offset;
  while (leaf.kind === "slice") {
    checkRange("slice", leaf.byteLength, position, byteLength);
    position += leaf.offset;
    leaf = leaf.of;
  }
  return { descriptor: leaf, offset: position };
}
