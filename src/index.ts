/**
 * The portable API: runs in Node, browsers and workers alike. `tare/node` adds files and native speed,
 * `tare/web` what only browsers have.
 */

export { type CreateModelOptions, createModel, type TensorInput } from "./api/open/create-model.ts";
export { type MemoryOptions, type MemoryOutput, memory } from "./api/open/memory.ts";
export { open, openModel } from "./api/open/portable.ts";
export {
  createLoader,
  type LoaderOptions,
  type PrefetchOptions,
  prefetch,
  streamTensors,
} from "./api/open/reading.ts";
export {
  cat,
  convert,
  dequantize,
  diff,
  embed,
  explain,
  extract,
  inspect,
  list,
  loadEmbedder,
  map,
  merge,
  meta,
  openVault,
  quantize,
  shard,
  sign,
  stamp,
  stats,
  upgrade,
  verify,
} from "./api/portable-verbs.ts";
export type * from "./api/types.ts";
export {
  type ErrorJson,
  FormatError,
  IntegrityError,
  isTareError,
  LimitError,
  type Location,
  SourceError,
  TareError,
  UnsupportedError,
  UsageError,
} from "./base/errors.ts";
export { type Match, rank } from "./embedding/search/rank.ts";
export { cosineSimilarity } from "./embedding/vectors.ts";
export { type FormatInfo, formats } from "./formats/registry.ts";
