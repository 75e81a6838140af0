import type { BytesDone } from "../shared/calls.ts";

/** Adds up the progress of each piece. */
export function sumBytes(tell: (total: number) => void): (progress: BytesDone) => void {
  let total = 0;
  return ({ bytes }) => {
    total += bytes;
    tell(total);
  };
}
