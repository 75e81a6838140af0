import type { Bytes } from "../base/bytes.ts";
import type { Location } from "../base/errors.ts";
import type { LimitOverrides, LimitTable } from "../base/limits.ts";
import type { Extent } from "../bytes/extents.ts";
import type { Resolver } from "../bytes/resolver.ts";
import type { Output, Spool } from "../bytes/sink.ts";
import type { Source } from "../bytes/source.ts";
import type { Engine } from "../primitives/engine.ts";
import type { FieldPlace } from "../struct/fields.ts";
import type { Container } from "./archive.ts";
import type { Vocabulary } from "./bert/vocabulary.ts";
import type { FormatRestamp, FormatSigning } from "./capabilities.ts";
import type { Finding } from "./finding.ts";
import type { EncodedValue, Metadata, MetadataValue } from "./metadata.ts";
import type { OriginFacts, OriginLink } from "./origin.ts";
import type { Tensor } from "./tensor.ts";
import type { FloatTarget } from "./values/casts.ts";

/** What `sniff` sees: the opening read, never more. */
export interface Head {
  readonly bytes: Bytes;
  readonly byteLength: number;
  /** File name without its folder; only ever a tie-breaker between formats that cannot tell by content. */
  readonly name: string;
}

/** "possible" formats are tried only where no format is sure and the file's extension is theirs. */
export type SniffResult = "yes" | "possible" | "no";

export interface OpenContext {
  readonly engine: Engine;
  readonly limits: LimitOverrides;
  /** Absent where siblings cannot be reached (a lone Blob): multi-file models then open as far as they can. */
  readonly resolver?: Resolver | undefined;
  /** Takes what is too long to be checked in memory; absent where there is no disk, as in a browser. */
  readonly spool?: Spool | undefined;
  /** Asked when the first encrypted byte is read, once for each file; undefined where there is none to give. */
  readonly password?: PasswordSource | undefined;
  readonly encryption?: EncryptionRule | undefined;
  readonly signal?: AbortSignal | undefined;
}

/**
 * What is known about the encryption of a vault before it is opened. "expected": a password was given for it, so that a vault
 * without encryption is refused, as anybody could have put it there. "waived": whoever opens it knows that it may have none.
 * Where absent, a vault without encryption is opened.
 */
export type EncryptionRule = "expected" | "waived";

/** Gives the password for a file, by its label. What it gives is wiped after use. */
export type PasswordSource = (label: string) => Promise<Bytes | undefined>;

export type VerifyLevel = "quick" | "control" | "full";

export interface VerifyContext extends OpenContext {
  readonly level: VerifyLevel;
  /** "remote" is for files that are not to be downloaded whole: what that leaves unchecked becomes a note. */
  readonly reach?: "remote" | undefined;
  readonly onProgress?: ((byteLength: number) => void) | undefined;
  /** Formats add what they counted: "tensors", "pages", "bytes". */
  readonly count: (what: string, by?: number) => void;
}

/** A named run of a file, for the map. Tensors are added by the operation; formats name the rest. */
export interface Section extends Extent {
  readonly name: string;
  readonly kind: "header" | "metadata" | "index" | "data" | "padding" | "integrity";
  /** Index into `model.parts`. */
  readonly part: number;
}

/** A run of one file of a container. */
export interface PartRange extends Extent {
  /** Index into `container.parts`. */
  readonly part: number;
}

/**
 * What a writer gets: never the source container itself, so that renaming and filtering are just other values.
 * Types that an earlier conversion had to carry in `tare.origin` are restored already, and that key is gone.
 */
export interface ModelContent {
  readonly metadata: Metadata;
  readonly tensors: readonly Tensor[];
  /** Where the content has been, newest first; writers use their own link and keep the others (splitChain). */
  readonly chain: readonly OriginLink[];
  /** What the user should know about how the content was made; shown with the notes of the plan. */
  readonly notes?: readonly string[] | undefined;
  /** What was left out when the content was made; counts like the losses of the plan. */
  readonly losses?: readonly Loss[] | undefined;
}

export interface WriteOptions {
  /** Data bytes a file may hold before a set is started. */
  readonly maxShardBytes?: number | undefined;
  /** Alignment of tensor data, where the format lets the writer choose. */
  readonly align?: number | undefined;
  /** Permits what `losses` lists. */
  readonly allowLossy?: "allow-lossy" | undefined;
  /** Identity of the file, 16 bytes, where the format has one; random where absent. */
  readonly uuid?: Bytes | undefined;
  /** Digests to put into the file, where the format has a place for them beyond those it always carries. */
  readonly hashes?: WriteHashes | undefined;
  /** Shards that one file of a set may hold, where sets consist of files of shards. */
  readonly maxPartShards?: number | undefined;
  /** Where the set will be published, for formats whose index can say so. */
  readonly baseUrl?: string | undefined;
  /** How tensor data is compressed, where the format can; as the file was before, or not at all, where absent. */
  readonly compress?: "lz4" | "none" | undefined;
  /** Which of its layouts, where a format has several that are written; the first of them where absent. */
  readonly layout?: string | undefined;
  /** Encrypts tensor data, where the format can. */
  readonly encrypt?: WriteEncryption | undefined;
  /** Matrices as 8-bit integers with a scale for every row, where the format has a custom for that. */
  readonly int8?: "rows" | undefined;
  /** The tokens of the model, where the format has a place for them: used instead of what the source has. */
  readonly vocabulary?: Vocabulary | undefined;
  /** Base name of the output without folder: "model.gguf". */
  readonly name: string;
}

/** What `prepare` may use beside the content. */
export interface PrepareContext {
  readonly options: WriteOptions;
  /** Reaches the files beside the source: a tokenizer, a configuration. Absent where nothing stands beside it. */
  readonly siblings?: Resolver | undefined;
  /** Id of the format that the content was read from. */
  readonly from?: string | undefined;
  /** "some" where the user left tensors out: then it is no fault that they are missing. */
  readonly selection: "all" | "some";
  /** What floating-point tensors will be rounded to afterwards. */
  readonly dtype?: FloatTarget | undefined;
  /** Present where the user asked for other types: then it is no loss that they become others. */
  readonly types?: "asked" | undefined;
  /** The source, for errors. */
  readonly at: Location;
  readonly signal?: AbortSignal | undefined;
}

/** How a file is to be encrypted. */
export interface WriteEncryption {
  /** Asked once, when writing begins. */
  readonly password: PasswordSource;
  /** Cost of guessing: Argon2id's m in KiB, t and p; the format's own where absent. */
  readonly cost?: { readonly memoryKib: number; readonly passes: number; readonly lanes: number } | undefined;
  /** Where keys and nonces come from; the host's generator where absent. For tests. */
  readonly random?: ((byteLength: number) => Bytes) | undefined;
}

export interface WriteHashes {
  /** One digest for every run of so many bytes of tensor data. */
  readonly pageBytes?: number | undefined;
  /** One digest for every tensor. */
  readonly tensors?: "tensors" | undefined;
  /** One digest over the header and the tables. */
  readonly control?: "control" | undefined;
}

/** Options that not every format honours; asking one that does not is refused, never ignored. */
export type FormatOption =
  | "align"
  | "maxShardBytes"
  | "maxPartShards"
  | "baseUrl"
  | "uuid"
  | "pageHashes"
  | "tensorHashes"
  | "controlHash"
  | "compress"
  | "layout"
  | "encrypt"
  | "int8"
  | "vocabulary";

/** Something that the target cannot carry. */
export interface Loss {
  /** Tensor name or metadata key. */
  readonly name: string;
  readonly reason: string;
  /** Where they lie, for bytes that belong to nothing: they have no name by which they could be left out. */
  readonly at?: Location;
}

/** Every decision of a write, made before the first byte. Formats extend it with their own. */
export interface WritePlan {
  /** In the order in which they are committed: an index that makes a set valid comes last. */
  readonly files: readonly { readonly name: string; readonly byteLength: number }[];
  /** The file by which the result is opened: an index, or the first part. */
  readonly primary: string;
  /** Files that an interrupted run may have left and that `write` judges itself: taken over, or refused as any other. */
  readonly resumes?: readonly string[] | undefined;
  /** What will be lost; a plan with losses is refused unless they were permitted. */
  readonly losses: readonly Loss[];
  /** What the user should know although nothing is lost. */
  readonly notes: readonly string[];
}

export interface WriteContext {
  readonly engine: Engine;
  readonly signal?: AbortSignal | undefined;
  readonly onProgress?: ((byteLength: number) => void) | undefined;
  /** Looks at what was written, before any of it becomes visible; throwing aborts the write. */
  readonly check?: ((written: Resolver) => Promise<void>) | undefined;
}

/**
 * What is known of a format before its code is loaded: how its files are named and recognised, and what loads the rest.
 * The object that a format's `index.ts` exports; operations know formats only through it.
 */
export interface Format {
  readonly id: string;
  /** As people write it: "SafeTensors". */
  readonly name: string;
  readonly kind: "model" | "archive";
  /** With the dot, lower case, the usual one first. */
  readonly extensions: readonly string[];
  /** What the file is called in a folder of its own, where the format has a custom for that. */
  readonly folderName?: string | undefined;
  /** "read" where files of the format are never written. */
  readonly access?: "read";
  /** What the opening read asks for, where that should be less than for most formats. */
  readonly openingBytes?: number;
  /** Never throws, never trusts the name. A promise where the first bytes are worth loading code for. */
  sniff(head: Head): SniffResult | Promise<SniffResult>;
  /** The format's `read.ts`, loaded when a file asks for it, so that others do not wait for its code. */
  read(): Promise<FormatReader>;
  /** Its `verify.ts`. */
  verify(): Promise<FormatVerifier>;
  /** Its `write.ts`; absent where files of the format are only read, or written by operations of their own. */
  write?(): Promise<FormatWriter>;
}

/** What understands values that `tare.origin` carried in a format's own encoding. */
export interface ValueDecoder {
  /** Undefined where the value is not ours, or damaged. */
  decodeValue?(encoded: EncodedValue): MetadataValue | undefined;
}

/** How files of a format are opened and looked into. */
export interface FormatReader extends ValueDecoder {
  readonly limits: LimitTable;
  open(source: Source, context: OpenContext): Promise<Container>;
  /** The files of the model whose index or first part this is; undefined, or absent, where it is the only one. */
  members?(source: Source, context: MembersContext): Promise<Members | undefined>;
  /** Present where files hold digests by which weights can be checked page by page. */
  pageDigests?(container: Container, signal?: AbortSignal): Promise<PageDigests>;
  sections(container: Container): readonly Section[];
  /** The answer to "is one of the sections kind integrity?", where that is known without listing a million of them. */
  carriesDigests?(container: Container): boolean;
  /** The fields of a run of one file, for those who look at its bytes; may give more than was asked for. */
  fields?(container: Container, range: PartRange): Promise<readonly FieldPlace[]>;
  /** Facts for `tare.origin`, by which `plan` writes this very file again; undefined where nothing is worth keeping. */
  describe?(container: Container): OriginFacts | undefined;
  /** Present where checksums cover whole files: reading a tensor checks none, so who reads all should verify too. */
  readonly checksums?: "whole file";
}

export interface FormatVerifier {
  /** What opening did not check. A generator, so that findings are shown as they arise. */
  verify(container: Container, context: VerifyContext): AsyncIterable<Finding>;
}

/** How files of a format are made and changed. */
export interface FormatWriter extends ValueDecoder {
  /** What it writes. */
  readonly format: Format;
  /** Which options `plan` honours; none where absent. */
  readonly options?: readonly FormatOption[];
  /** Present where files have room for a signature. */
  readonly signing?: FormatSigning;
  /** Present where metadata can be edited without writing the tensors again. */
  readonly restamp?: FormatRestamp;
  /** Present where older layouts of the format have a successor. */
  readonly upgrade?: FormatUpgrade;
  /**
   * Makes foreign content what files of this format hold by custom, before it is planned: renames tensors, and takes in
   * what stands beside the source. May read; content that needs nothing is given back as it is.
   */
  prepare?(content: ModelContent, context: PrepareContext): Promise<ModelContent>;
  plan(content: ModelContent, options: WriteOptions): WritePlan;
  write(plan: WritePlan, output: Output, context: WriteContext): Promise<void>;
}

/** What opening gives, and what operations work on. */
export interface Opened {
  readonly container: Container;
  readonly format: Format;
  readonly reader: FormatReader;
  /** What a person should know about how it was recognised, such as a misleading extension. */
  readonly notes: readonly Finding[];
}

/** A file that belongs to a model of several. */
export interface Member {
  /** As the set has it: relative to the file that names it, or a full http(s) address. */
  readonly path: string;
  /** Where it is, where that is not beside the file that names it. */
  readonly url?: string | undefined;
  /** Where the set states it. */
  readonly byteLength?: number | undefined;
  /** Lower-case hex over the whole file, where the set states it. */
  readonly sha256?: string | undefined;
}

/** All files of a model of several. */
export interface Members {
  readonly files: readonly Member[];
  /** Present where the file that was looked at is an index beside `files`, and makes them a set. */
  readonly index?: MembersIndex | undefined;
}

interface MembersIndex {
  readonly bytes: Bytes;
  /** The index for the same files under other paths; absent where it only ever names files beside it. */
  readonly renamed?: ((paths: readonly string[]) => Bytes) | undefined;
}

export interface MembersContext extends OpenContext {
  /** File name without its folder: the other files may be named after it. */
  readonly name: string;
}

/** A run of a file that has a BLAKE3 digest for every `pageBytes`. */
export interface PagedRun extends Extent {
  readonly pageBytes: number;
  /** One behind the other. */
  readonly digests: Bytes;
}

/** By what the weights of a file can be checked before all of it is here. */
export interface PageDigests {
  readonly runs: readonly PagedRun[];
  /** "some" where weights have no pages, and only the whole of them can be compared. */
  readonly coverage: "all" | "some";
}

export interface UpgradeContext extends OpenContext {
  /** Keeps what cannot be read as a tensor of bytes, since nothing else can be made of it. */
  readonly payload?: "wrap" | undefined;
}

/** How files of a format's older layouts become files of its newest one. */
interface FormatUpgrade {
  /** Refuses what is of the newest layout already, and what nothing can be made of. */
  check(container: Container, context: UpgradeContext): Promise<void>;
  /** The same model as the newest layout has it, to be planned and written. */
  apply(container: Container, context: UpgradeContext): Promise<Container>;
}
