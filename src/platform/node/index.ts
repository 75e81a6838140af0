/** The portable API plus what only Node has: files, proxies, native code and worker threads. */
import { nodeVerbs } from "./verbs/index.ts";

export * from "../../index.ts";
export type { ShardHealth } from "../../model/parity/damage.ts";
export type { FileState } from "../../operations/correct.ts";
export type { PulledFile, Verified } from "../../operations/pull/file-job.ts";
export type {
  CacheClearOptions,
  CacheListResult,
  CachePruneOptions,
  CachePruneResult,
  CacheVerifyOptions,
  CacheVerifyResult,
} from "./cache/index.ts";
export type { PruneResult } from "./cache/prune.ts";
export type { CachedFile } from "./cache/report.ts";
export type { PullOptions, PullResult } from "./pull/index.ts";
export type { PushedFile, PushOptions, PushResult } from "./push/index.ts";
export type { AccessEntry, ServeOptions, Server } from "./serve/index.ts";
export type { ViewOptions, ViewServer } from "./serve/view.ts";
export { createVault, repairVault } from "./vault/library.ts";
export type { AerosetUpdateOptions, AerosetUpdateResult } from "./verbs/aeroset.ts";
export type {
  CorrectGenerateOptions,
  CorrectGenerateResult,
  CorrectHealth,
  CorrectRepairOptions,
  CorrectRepairResult,
  CorrectVerifyOptions,
  CorrectVerifyResult,
} from "./verbs/correct.ts";
export type { DoctorResult } from "./verbs/doctor.ts";
export type { KeygenOptions, KeygenResult } from "./verbs/keygen.ts";

export const { inspect, list, meta, map, diff, stats, verify, sign, stamp, cat, extract, explain } = nodeVerbs;
export const { convert, quantize, dequantize, shard, merge, upgrade } = nodeVerbs;
export const { open, openModel, openVault, embed, loadEmbedder } = nodeVerbs;
export {
  aeroset,
  cache,
  correct,
  doctor,
  fileSink,
  fileSource,
  keygen,
  pull,
  push,
  serve,
  view,
} from "./verbs/index.ts";
