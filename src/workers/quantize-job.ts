import type { Source } from "../bytes/source.ts";
import { Tensor } from "../model/tensor.ts";
import { quantizeTensor } from "../operations/quantize.ts";
import type { JobContext } from "./jobs.ts";
import type { JobRequest, JobResult } from "./protocol.ts";

/** Rounds a run of a tensor whose stored bytes are `stored`. */
export async function quantizeStored(
  { type, dtype, shape, storedBytes, offset, byteLength }: JobRequest<"quantize-range">,
  stored: Source,
  context: JobContext,
): Promise<JobResult<"quantize-range">> {
  const facts = { name: stored.label, dtype, shape, byteLength: storedBytes, offset: 0 };
  let badBlocks = 0;
  const blocks = quantizeTensor(new Tensor(facts, { source: () => stored }), type, {
    quantizer: await context.engine.quantizer(),
    onBadBlocks: (_, count) => {
      badBlocks += count;
    },
  });
  const bytes = await blocks.source().read(offset, byteLength, { signal: context.signal });
  return { bytes, badBlocks };
}
