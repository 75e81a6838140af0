import { withCoalescing } from "../layers/coalesce.ts";
import { withHedging } from "../layers/hedge.ts";
import { withParallelStreams } from "../layers/parallel.ts";
import { type RetryPolicy, withRetries } from "../layers/retry.ts";
import type { LayeredStore, StoredFile } from "../layers/store.ts";
import type { Source } from "../source.ts";
import { AssumedHttpSource, RangedHttpSource } from "./source.ts";

/** The settings of the layers between a reader and the requests for a file. */
export interface HttpLayers {
  readonly policy: RetryPolicy;
  readonly store?: LayeredStore | undefined;
  /** Undefined if versions cannot be told apart: then nothing is kept. */
  readonly file?: StoredFile | undefined;
  readonly requestBytes?: number | undefined;
}

/**
 * The store is below the merging of reads, so that it keeps a few long runs instead of many short ones. It is above the
 * cutting of long reads, so that it can tell bulk from bytes that are read again.
 */
export function composeHttp(raw: Source, { policy, store, file, requestBytes }: HttpLayers): Source {
  const steady = withRetries(withHedging(raw, { when: () => whenToHedge(raw) }), policy);
  const parallel = whenToHedge(raw) === "never" ? steady : withParallelStreams(steady, { requestBytes });
  return withCoalescing(store === undefined || file === undefined ? parallel : store.over(parallel, file));
}

/** A second request, or several ranges at once, help only if the server sends the range that was asked for. */
function whenToHedge(raw: Source): "lagging" | "never" {
  const isRanged = raw instanceof RangedHttpSource || (raw instanceof AssumedHttpSource && raw.answersRanges);
  return isRanged ? "lagging" : "never";
}
