export { WORKER_ERRORS } from "../catalog/node.ts";
export { encoderRunner } from "./encoder-runner.ts";
export type { JobContext, JobHost, LeafDescriptor } from "./jobs.ts";
export { type PoolOptions, type RunOptions, WorkerPool } from "./pool.ts";
export { type PooledOptions, pooledEngine } from "./pooled-engine.ts";
export type {
  FromWorker,
  JobKind,
  JobRequest,
  JobResult,
  JobTable,
  ServerPort,
  ToWorker,
  WorkerPort,
} from "./protocol.ts";
export { localPort, serveJobs } from "./serve.ts";
