/** The types of everything that the library takes and gives: each entry exports them all, so that what has a name can be written down. */

export type { Bytes } from "../base/bytes.ts";
export type { ErrorJson, Location, TareError } from "../base/errors.ts";
export type { LimitOverrides as Limits } from "../base/limits.ts";
export type { Extent } from "../bytes/extents.ts";
export type { DirectoryHandle, FileHandle } from "../bytes/handles/handle.ts";
export type { Meter, ReadListener } from "../bytes/layers/base.ts";
export type { Sink } from "../bytes/sink.ts";
export type { OpenSource, ReadOptions, Source, SourceDescriptor, StreamOptions } from "../bytes/source.ts";
export type { Embedder } from "../embedding/embedder.ts";
export type { EmbedCallOptions } from "../embedding/encoder/encoder.ts";
export type { KernelKind, Precision } from "../embedding/encoder/shape.ts";
export type { Match } from "../embedding/search/rank.ts";
export type { Tokenizer } from "../embedding/tokenizer/tokenizer.ts";
export type { FormatInfo } from "../formats/registry.ts";
export type { Archive, ArchiveStorage, Container, Entry, EntryStorage } from "../model/archive.ts";
export type { SpecialTokens, TextRules, Vocabulary } from "../model/bert/vocabulary.ts";
export type { AnyCase, DType, KnownDType, Shape } from "../model/dtype.ts";
export type { Finding, Loss, Severity, Warned } from "../model/finding.ts";
export type { Format, Section, VerifyLevel } from "../model/format.ts";
export type {
  ArrayValue,
  BoolValue,
  BytesValue,
  EncodedValue,
  FloatType as MetadataFloatType,
  FloatValue,
  IntegerType,
  IntegerValue,
  MapValue,
  Metadata,
  MetadataEntry,
  MetadataValue,
  NullValue,
  StringValue,
  ValueType,
} from "../model/metadata.ts";
export type { Beside, Model, Part, Verification } from "../model/model.ts";
export type { Password, Secret } from "../model/password.ts";
export type { Tensor, TensorFacts } from "../model/tensor.ts";
export type {
  ArchiveDiffReport,
  Delta,
  EntryChange,
  EntryFacts,
  MetadataChange,
  TensorChange,
} from "../operations/diff.ts";
export type { DTypeShare, ModelDescription, TensorSummary } from "../operations/inspect.ts";
export type { LayoutRow } from "../operations/map.ts";
export type { QuantError } from "../operations/quantize/tally.ts";
export type { ListOrder } from "../operations/reading/listing.ts";
export type { Loader, LoadOptions, SliceOptions, TensorSlice } from "../operations/reading/loader.ts";
export type { StreamTensorsOptions, TensorPiece } from "../operations/reading/stream-tensors.ts";
export type { FloatChoice } from "../operations/reading/view.ts";
export type { Histogram, TensorStatistics } from "../operations/stats.ts";
export type { Report, TensorDigest } from "../operations/verify.ts";
export type { DigestAlgorithm, Engine } from "../primitives/engine.ts";
export type { EmbedFileResult, EmbedOptions, EmbedResult, SearchResult, SimilarityResult } from "./embed/embed.ts";
export type { EmbedderOptions, EncodingOptions } from "./embed/load.ts";
export type { SearchHit } from "./embed/search.ts";
export type { ExplainAllResult, ExplainResult } from "./help/explain.ts";
export type { Cost, Input } from "./inputs.ts";
export type { DiffOptions, DiffResult } from "./look/diff.ts";
export type { InspectOptions, InspectResult } from "./look/inspect.ts";
export type { ListedEntry, ListedTensor, ListOptions, ListResult } from "./look/list.ts";
export type { MapOptions, MapResult } from "./look/map.ts";
export type { MetaOptions, MetaResult } from "./look/meta.ts";
export type { StatsOptions, StatsResult } from "./look/stats.ts";
export type { CatOptions, CatResult } from "./move/cat.ts";
export type { ConvertOptions, ConvertResult } from "./move/convert.ts";
export type { DequantizeOptions } from "./move/dequantize.ts";
export type { ExtractedFile, ExtractForm, ExtractOptions, ExtractResult } from "./move/extract.ts";
export type { FloatType, QuantReport, QuantType } from "./move/quantization.ts";
export type { QuantizeOptions, QuantizeResult } from "./move/quantize.ts";
export type { VaultProfile } from "./move/results.ts";
export type { MergeOptions, ShardOptions } from "./move/shard.ts";
export type { StampChange, StampChoices, StampedValue, StampOptions, StampResult } from "./move/stamp.ts";
export type { UpgradeOptions, UpgradeResult } from "./move/upgrade.ts";
export type { DigestOptions } from "./move/writer-options.ts";
export type { CreateModelOptions, TensorInput } from "./open/create-model.ts";
export type { MemoryOptions, MemoryOutput } from "./open/memory.ts";
export type { LoaderOptions, PrefetchOptions } from "./open/reading.ts";
export type { CommonOptions, Duration, OneOrMany, Progress, S3Options, Size, WriteOptions } from "./options.ts";
export type { Folder, Output } from "./outputs.ts";
export type { Key } from "./trust/keys.ts";
export type { SignOptions, SignResult } from "./trust/sign.ts";
export type { VerifyOptions, VerifyResult } from "./trust/verify.ts";
export type {
  AddOptions,
  ChangeOptions,
  ChangePasswordOptions,
  CreateVaultOptions,
  EmbedParityOptions,
  EntryData,
  ExportParityOptions,
  ExtractVaultOptions,
  ListEntriesOptions,
  NewEntry,
  Parity,
  ReadEntryOptions,
  RemoveOptions,
  RepairVaultOptions,
  StripParityOptions,
  VaultOptions,
} from "./vault/options.ts";
export type {
  RepairVaultResult,
  VaultAddResult,
  VaultCatResult,
  VaultCompactResult,
  VaultCopyResult,
  VaultCreateResult,
  VaultDiffResult,
  VaultExtractResult,
  VaultInfoResult,
  VaultListResult,
  VaultMkdirResult,
  VaultMoveResult,
  VaultParityResult,
  VaultPasswordResult,
  VaultRemoveResult,
} from "./vault/results.ts";
export type { Vault } from "./vault/vault.ts";
