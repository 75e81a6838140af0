import type { Warned } from "../../model/finding.ts";
import { requireModel } from "../../open.ts";
import { mapTensors } from "../../operations/reading/concurrency.ts";
import { selectTensors } from "../../operations/reading/glob.ts";
import { statistics, type TensorStatistics } from "../../operations/stats.ts";
import { requestOf, type VerbHost } from "../host.ts";
import { withInput } from "../input-use.ts";
import type { Input } from "../inputs.ts";
import { COMMON_RULES, type CommonOptions, integerRule, listOf, type OneOrMany, textsRule } from "../options.ts";
import { startProgress } from "../progress.ts";

export interface StatsOptions extends CommonOptions {
  /** Only tensors that match one of these. */
  readonly glob?: OneOrMany<string> | undefined;
  /** Makes a histogram of this many bins for each tensor, which costs a second pass. */
  readonly hist?: number | undefined;
}

/** What `tare stats --json` prints. */
export interface StatsResult extends Warned {
  readonly tensors: readonly TensorStatistics[];
}

/** Most bins of a histogram. */
export const MAX_BINS = 4096;

const RULES = { ...COMMON_RULES, glob: textsRule, hist: integerRule(1, MAX_BINS) };

/** One tensor is read while another is counted; more would only take memory. */
const TENSORS_AT_ONCE = 4;

export async function stats(host: VerbHost, input: Input, options: StatsOptions = {}): Promise<StatsResult> {
  const request = await requestOf(host, "stats", options, RULES);
  const { signal, hist: bins, concurrency = TENSORS_AT_ONCE } = request;
  return withInput(host, input, request, async ({ container, label }) => {
    const tensors = selectTensors(requireModel(container).tensors, listOf(options.glob) ?? [], label);
    const total = tensors.reduce((sum, tensor) => sum + tensor.byteLength, 0);
    const progress = startProgress({ label: "reading values", total }, request.onProgress);
    const onProgress = (byteLength: number): void => progress.add(byteLength);
    const rows = await mapTensors(tensors, { concurrency, signal }, (tensor) =>
      statistics(tensor, { bins, signal, onProgress }),
    );
    progress.end();
    return { tensors: rows };
  });
}
