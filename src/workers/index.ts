export type { Bytes, Scratch } from "../base/bytes.ts";
export type { ErrorJson, Location } from "../base/errors.ts";
export type { ReadOptions, Source, SourceDescriptor, StreamOptions } from "../bytes/source.ts";
export type { GroupRunner } from "../embedding/encoder/encoder-thread.ts";
export type { Precision } from "../embedding/encoder/shape.ts";
export type { SharedTail } from "../formats/aerovault/write/free-space.ts";
export type { SealOutput } from "../formats/aerovault/write/seal/worker.ts";
export type { ExpectedRun } from "../formats/aerovault/write/state.ts";
export type { ExtractTarget, HeldFile, TargetFile } from "../operations/vault/extract/worker.ts";
export type { DigestAlgorithm, Engine } from "../primitives/engine.ts";
export { portableEngine } from "../primitives/portable.ts";
export type { PortableOptions } from "../primitives/table.ts";
export type { JobContext, JobHost, LeafDescriptor } from "./jobs.ts";
export { encoderRunner, type PoolOptions, type RunOptions, WorkerPool } from "./pool.ts";
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
