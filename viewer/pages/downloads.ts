import type { Source, SourceDescriptor } from "../../src/bytes/source.ts";
import type { Archive } from "../../src/model/archive.ts";
import type { Model } from "../../src/model/model.ts";
import { castTensor } from "../../src/model/values/casts.ts";
import { encodeNpyHeader, hasNpyType } from "../../src/model/values/npy.ts";
import { hasNumbers } from "../../src/model/values/numbers.ts";
import type { CallContext } from "../reader/serve-calls.ts";

/** A tensor as a file. Types that NumPy does not have become float32. */
export async function downloadTensor(
  model: Model,
  { name, as }: { readonly name: string; readonly as: "npy" | "raw" },
  context: CallContext<"downloadTensor">,
): Promise<Blob> {
  const stored = model.tensor(name);
  if (as === "raw") return blobOf([], stored.source(), context);
  const tensor = hasNpyType(stored.dtype) || !hasNumbers(stored.dtype) ? stored : castTensor(stored, "F32");
  return blobOf([encodeNpyHeader(tensor.dtype, tensor.shape, name)], tensor.source(), context);
}

/** A file of a vault. */
export async function downloadEntry(
  archive: Archive,
  path: string,
  context: CallContext<"downloadEntry">,
): Promise<Blob> {
  return blobOf([], archive.entry(path).source(), context);
}

interface Progress {
  readonly signal: AbortSignal;
  readonly progress: (progress: { readonly bytes: number }) => void;
}

/**
 * Parts of a chosen file are not copied. Everything else is copied piece by piece into blobs, which the browser may
 * keep on disk.
 */
async function blobOf(before: readonly BlobPart[], source: Source, { signal, progress }: Progress): Promise<Blob> {
  const whole = source.descriptor === undefined ? undefined : sliceOfBlob(source.descriptor);
  if (whole !== undefined) return new Blob([...before, whole]);
  const parts: BlobPart[] = [...before];
  for await (const piece of source.stream(0, { signal })) {
    parts.push(new Blob([piece]));
    progress({ bytes: piece.byteLength });
  }
  return new Blob(parts);
}

function sliceOfBlob(descriptor: SourceDescriptor): Blob | undefined {
  if (descriptor.kind === "blob") return descriptor.blob;
  if (descriptor.kind !== "slice") return undefined;
  const { offset, byteLength } = descriptor;
  return sliceOfBlob(descriptor.of)?.slice(offset, offset + byteLength);
}
