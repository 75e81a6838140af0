import type { Extent } from "../../bytes/extents.ts";
import type { Model } from "../../model/model.ts";

/** Where the tensors of a model lie in its first file, as stored; those in other files are left out. */
export function tensorExtents({ tensors, parts }: Model): Extent[] {
  const own = parts[0]?.label;
  return tensors
    .filter(({ file }) => file === undefined || file === own)
    .map(({ offset, storedByteLength }) => ({ offset, byteLength: storedByteLength }));
}
