import { parentPort, workerData } from "node:worker_threads";
import { loadCorpus } from "./corpus.ts";
import { fuzz } from "./fuzzer.ts";

/** What a worker is told. */
export interface WorkerJob {
  readonly seed: number;
  readonly formats: readonly string[];
  readonly first: number;
  readonly step: number;
  /** Milliseconds since 1970. */
  readonly until: number;
  /** Most inputs to try. */
  readonly most: number;
  /** Where the number of the input under way is written, so that a hang can be told and repeated. */
  readonly current: Int32Array<SharedArrayBuffer>;
}

const { current, until, most, ...job } = workerData as WorkerJob;
const corpus = await loadCorpus();
const report = await fuzz(corpus, {
  ...job,
  goOn: (count) => count < most && Date.now() < until,
  onInput: (index) => void Atomics.store(current, 0, index),
});
Atomics.store(current, 0, -1);
parentPort?.postMessage(report);
