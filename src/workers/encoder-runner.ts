import { isTareError } from "../base/errors.ts";
import type { EncoderImage, GroupRunner } from "../embedding/encoder/encoder-thread.ts";
import type { WorkerPool } from "./pool.ts";

let count = 0;

/**
 * Computes groups of sentences on a pool's workers. A worker gets the encoder with its first group. Closes the pool.
 */
export function encoderRunner(pool: WorkerPool, lanes: number): GroupRunner {
  const names = new WeakMap<EncoderImage, string>();
  return {
    lanes,
    async run({ image, group }, signal) {
      const encoder = names.get(image) ?? `encoder ${++count}`;
      names.set(image, encoder);
      const request = { encoder, group };
      try {
        const values = await pool.run("embed-group", request, { signal });
        return values ?? (await pool.run("embed-group", { ...request, image }, { signal }));
      } catch (error) {
        if (isTareError(error) && error.code === "source/worker.unavailable") return undefined;
        throw error;
      }
    },
    close: () => pool.close(),
  };
}
