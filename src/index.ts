/**
 * The portable API: runs in Node, browsers and workers alike. `tare/node` adds files and native speed,
 * `tare/web` what only browsers have.
 */
export type { Bytes } from "./base/bytes.ts";
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
export type { LimitOverrides } from "./base/limits.ts";
export { blobSource } from "./bytes/blob.ts";
export { type HttpOptions, type HttpTransport, httpResolver, openHttp } from "./bytes/http/index.ts";
export { withCache } from "./bytes/layers/cache.ts";
export { withCoalescing } from "./bytes/layers/coalesce.ts";
export { type HedgeOptions, withHedging } from "./bytes/layers/hedge.ts";
export { Pace } from "./bytes/layers/hedge-stream.ts";
export { type ParallelOptions, withParallelStreams } from "./bytes/layers/parallel.ts";
export { withRetries } from "./bytes/layers/retry.ts";
export type { RangeStore } from "./bytes/layers/store.ts";
export { memoryStore } from "./bytes/layers/store.ts";
export { memoryOutput, memorySink, memorySource } from "./bytes/memory.ts";
export type { Resolver } from "./bytes/resolver.ts";
export {
  fetchS3Client,
  openS3,
  parseS3Address,
  type S3Address,
  S3Client,
  type S3ClientOptions,
  type S3Endpoint,
  type S3SinkOptions,
  s3Output,
  s3Resolver,
  s3Sink,
} from "./bytes/s3/open.ts";
export type { S3Settings } from "./bytes/s3/session.ts";
export { type Credentials, type PresignOptions, type Sha256, SigV4 } from "./bytes/s3/sigv4.ts";
export type { Output, Sink } from "./bytes/sink.ts";
export { sliceSource } from "./bytes/slice.ts";
export type { ReadOptions, Source, StreamOptions } from "./bytes/source.ts";
export { type LoadEmbedderOptions, loadEmbedder } from "./embed.ts";
export type { Embedder, EmbedderOptions } from "./embedding/embedder.ts";
export type { EmbedOptions } from "./embedding/encoder/encoder.ts";
export { type Match, rankVectors, VectorTable } from "./embedding/search/rank.ts";
export { createTokenizer, type Tokenizer, type TokenizerOptions } from "./embedding/tokenizer/tokenizer.ts";
export { cosineSimilarity, dotProduct, normalizeVector, vectorNorm } from "./embedding/vectors.ts";
export { FORMATS, formatById, formatForName } from "./formats/registry.ts";
export type { Archive, ArchiveStorage, Container, Entry } from "./model/archive.ts";
export type { SpecialTokens, Vocabulary } from "./model/bert/vocabulary.ts";
export { bitsPerElement, byteLengthOf, DTYPES, type DType } from "./model/dtype.ts";
export type { Finding } from "./model/finding.ts";
export type {
  Format,
  Loss,
  ModelContent,
  Opened,
  PasswordSource,
  WriteOptions,
  WritePlan,
} from "./model/format.ts";
export { Metadata, type MetadataEntry, type MetadataValue } from "./model/metadata.ts";
export type { Model, Part } from "./model/model.ts";
export type { Shape } from "./model/shape.ts";
export { Tensor } from "./model/tensor.ts";
export { castTensor } from "./model/values/casts.ts";
export { encodeNpyHeader } from "./model/values/npy.ts";
export { type Input, type OpenInputOptions, type OpenOptions, open, openModel, openSource } from "./open.ts";
export {
  type Conversion,
  type ConversionOptions,
  planConversion,
  prepareConversion,
  writeConversion,
} from "./operations/convert.ts";
export {
  type ArchiveDiffOptions,
  type ArchiveDiffReport,
  type DiffOptions,
  type DiffReport,
  diff,
  diffArchives,
} from "./operations/diff.ts";
export { type Inspection, inspect, metadataToJson } from "./operations/inspect.ts";
export { type LayoutRow, mapLayout } from "./operations/map.ts";
export {
  createLoader,
  type LoaderOptions,
  type LoadOptions,
  type SliceOptions,
  type StreamingLoader,
  type TensorSlice,
} from "./operations/reading/loader.ts";
export { type PrefetchOptions, prefetch } from "./operations/reading/prefetch.ts";
export { type StreamTensorsOptions, streamTensors, type TensorPiece } from "./operations/reading/stream-tensors.ts";
export { matchGlob } from "./operations/select.ts";
export {
  decodeEntered,
  type EnteredValue,
  type MetadataChange,
  type MetadataEdit,
  parseEntered,
  planStamp,
  type StampContext,
  type StampPlan,
  writeStamp,
} from "./operations/stamp.ts";
export { type StatisticsOptions, statistics, type TensorStatistics } from "./operations/stats.ts";
export { type Report, type TensorDigest, type VerifyOptions, verify } from "./operations/verify.ts";
export type { DigestAlgorithm, Engine, Hasher } from "./primitives/engine.ts";
export { portableEngine } from "./primitives/portable.ts";
