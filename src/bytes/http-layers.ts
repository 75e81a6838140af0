import { withCoalescing } from "./coalesced.ts";
import { withHedging } from "./hedged.ts";
import { AssumedHttpSource } from "./http-assumed.ts";
import { RangedHttpSource } from "./http-source.ts";
import { withParallelStreams } from "./parallel-stream.ts";
import type { RangeStore, StoredFile } from "./range-store.ts";
import { withRetries } from "./retried.ts";
import type { RetryPolicy } from "./retry.ts";
import type { Source } from "./source.ts";
import { withStore } from "./stored.ts";

/** What stands between a reader and the requests for a file. */
export interface HttpLayers {
  readonly policy: RetryPolicy;
  readonly store?: RangeStore | undefined;
  /** Undefined where no version can be told from another: then nothing is kept. */
  readonly file?: StoredFile | undefined;
  readonly requestBytes?: number | undefined;
}

/**
 * The store lies below the merging of reads, so that it keeps few long runs instead of many short ones, and above the
 * cutting of long ones, so that it can tell bulk from what is read again.
 */
export function composeHttp(raw: Source, { policy, store, file, requestBytes }: HttpLayers): Source {
  const steady = withRetries(withHedging(raw, { when: () => whenToHedge(raw) }), policy);
  const parallel = whenToHedge(raw) === "never" ? steady : withParallelStreams(steady, { requestBytes });
  return withCoalescing(store === undefined || file === undefined ? parallel : withStore(parallel, store, file));
}

/** Asking twice, or for several ranges at once, helps only where the server sends the range that was asked for. */
function whenToHedge(raw: Source): "lagging" | "never" {
  const isRanged = raw instanceof RangedHttpSource || (raw instanceof AssumedHttpSource && raw.answersRanges);
  return isRanged ? "lagging" : "never";
}
