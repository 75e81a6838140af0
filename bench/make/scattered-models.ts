import { makeSafetensorsFile, type TensorPlan } from "./safetensors-file.ts";

export const SMALL_COUNT = 512;
export const SMALL_BYTES = 64 << 10;
/** Names of the small tensors begin with this. */
export const SMALL_PREFIX = "small.";

/** 512 tensors of 64 KiB, each after an unused tensor of `gapBytes`. */
export function makeScattered(path: string, gapBytes: number): Promise<void> {
  const tensors: TensorPlan[] = [];
  for (let index = 0; index < SMALL_COUNT; index++) {
    const number = String(index).padStart(3, "0");
    tensors.push({ name: `large.${number}`, shape: [gapBytes / 2] });
    tensors.push({ name: `${SMALL_PREFIX}${number}`, shape: [SMALL_BYTES / 2] });
  }
  return makeSafetensorsFile(path, tensors, "bytes");
}
