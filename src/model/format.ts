import type { Bytes } from "../base/bytes.ts";
import type { Location } from "../base/errors.ts";
import type { LimitOverrides, LimitTable } from "../base/limits.ts";
import type { Extent } from "../bytes/extents.ts";
import type { Resolver } from "../bytes/resolver.ts";
import type { Output, Spool } from "../bytes/sink.ts";
import type { Source } from "../bytes/source.ts";
import type { Engine } from "../primitives/engine.ts";
import type { FieldPlace } from "../struct/fields.ts";
import type { Container, Entry } from "./archive.ts";
import type { Vocabulary } from "./bert/vocabulary.ts";
import type { FormatRestamp, FormatSigning } from "./capabilities.ts";
import type { ModelFolder } from "./configuration.ts";
import type { Finding, Loss } from "./finding.ts";
import type { EncodedValue, Metadata, MetadataValue } from "./metadata.ts";
import type { Beside } from "./model.ts";
import type { OriginFacts, OriginLink } from "./origin/origin.ts";
import type { Tensor } from "./tensor.ts";
import type { FloatTarget, OnUnfit } from "./values/casts.ts";

/** Input of `sniff`: the opening read, never more. */
export interface Head {
  readonly bytes: Bytes;
  readonly byteLength: number;
  /** File name without its folder. Only a tie-breaker between formats that cannot be told apart by content. */
  readonly name: string;
}

/** "possible" formats are tried only if no format is sure and the file has one of their extensions. */
export type SniffResult = "yes" | "possible" | "no";

export interface OpenContext {
  readonly engine: Engine;
  readonly limits: LimitOverrides;
  /** Absent if siblings cannot be reached (a lone Blob). Multi-file models then open as far as they can. */
  readonly resolver?: Resolver | undefined;
  /** Takes data that is too long to be checked in memory; absent if there is no disk, as in a browser. */
  readonly spool?: Spool | undefined;
  /** Called when the first encrypted byte is read, once for each file. Absent if there is no password to give. */
  readonly password?: PasswordSource | undefined;
  readonly encryption?: EncryptionRule | undefined;
  /** "shown" opens a model whose end is missing as far as it goes. Without this, and by formats that cannot, it is refused. */
  readonly cutShort?: "shown" | undefined;
  readonly signal?: AbortSignal | undefined;
}

/**
 * What is known about the encryption of a vault before it is opened. "expected": the user gave a password, so a vault
 * without encryption is refused, because anyone could have put it there. "waived": the caller accepts a vault without
 * encryption. If absent, a vault without encryption is opened.
 */
export type EncryptionRule = "expected" | "waived";

/** Gives the password for a file, by the file's label. The caller wipes the bytes after use. */
export type PasswordSource = (label: string) => Promise<Bytes | undefined>;

export type VerifyLevel = "quick" | "control" | "full";

export interface VerifyContext extends OpenContext {
  readonly level: VerifyLevel;
  /** "remote" is for files that should not be downloaded whole. Checks that this leaves out become a note. */
  readonly reach?: "remote" | undefined;
  readonly onProgress?: ((byteLength: number) => void) | undefined;
  /** Formats report their counts here: "tensors", "pages", "bytes". */
  readonly count: (what: string, by?: number) => void;
}

/** A named run of a file, for the map. The operation adds the tensors; formats name everything else. */
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
 * Input of a writer. It is never the source container itself, so renaming and filtering just give other values. Types
 * that an earlier conversion carried in `tare.origin` are already restored, and that key is gone.
 */
export interface ModelContent {
  readonly metadata: Metadata;
  readonly tensors: readonly Tensor[];
  /**
   * The formats that the content has been in, newest first. Writers use their own link and keep the others
   * (splitChain).
   */
  readonly chain: readonly OriginLink[];
  /**
   * Data that lay next to the model. Present only if every tensor is unchanged, because this data may describe tensors.
   */
  readonly beside?: Beside | undefined;
  /** Notes for the user about how the content was made; shown with the notes of the plan. */
  readonly notes?: readonly string[] | undefined;
  /** What was left out when the content was made; counts like the losses of the plan. */
  readonly losses?: readonly Loss[] | undefined;
}

export interface WriteOptions {
  /** Data bytes that a file may hold before a set of files is started. */
  readonly maxShardBytes?: number | undefined;
  /** Alignment of tensor data, if the format lets the writer choose. */
  readonly align?: number | undefined;
  /** Permits what `losses` lists. */
  readonly allowLossy?: "allow-lossy" | undefined;
  /** Identity of the file, 16 bytes, if the format has one; random if absent. */
  readonly uuid?: Bytes | undefined;
  /** Extra digests to put into the file, if the format has a place for them. */
  readonly hashes?: WriteHashes | undefined;
  /** Shards that one file of a set may hold, for formats whose sets consist of files of shards. */
  readonly maxPartShards?: number | undefined;
  /** Address at which the set will be published, for formats whose index can state it. */
  readonly baseUrl?: string | undefined;
  /** Compression of tensor data, if the format supports it. If absent, as the file was before, or none. */
  readonly compress?: "lz4" | "none" | undefined;
  /** Name of the layout to write, if a format writes several; the first of them if absent. */
  readonly layout?: string | undefined;
  /** Encrypts tensor data, if the format can. */
  readonly encrypt?: WriteEncryption | undefined;
  /** Stores matrices as 8-bit integers with one scale per row, if the format has a convention for that. */
  readonly int8?: "rows" | undefined;
  /** The model's tokens, if the format has a place for them. Used instead of those of the source. */
  readonly vocabulary?: Vocabulary | undefined;
  /** The folder that the model was opened by, for what a format must say and the model does not. */
  readonly folder?: ModelFolder | undefined;
  /** When the content was made, in milliseconds since 1970, for formats that state it; absent if that is not known. */
  readonly created?: number | undefined;
  /** Told of tensors whose values the asked types cannot hold, while they are written. */
  readonly onUnfit?: OnUnfit | undefined;
  /** Base name of the output without folder: "model.gguf". */
  readonly name: string;
}

/** What `prepare` may use in addition to the content. */
export interface PrepareContext {
  readonly options: WriteOptions;
  /** Reaches the files next to the source: a tokenizer, a configuration. Absent if there are none. */
  readonly siblings?: Resolver | undefined;
  /** Id of the format that the content was read from. */
  readonly from?: string | undefined;
  /** "some" if the user left tensors out. Missing tensors are then no fault. */
  readonly selection: "all" | "some";
  /** The type that floating-point tensors are rounded to afterwards. */
  readonly dtype?: FloatTarget | undefined;
  /** Present if the user asked for other types. Changing types is then no loss. */
  readonly types?: "asked" | undefined;
  /** The source, for errors. */
  readonly at: Location;
  readonly signal?: AbortSignal | undefined;
}

/** How to encrypt a file. */
export interface WriteEncryption {
  /** Asked once, when writing begins. */
  readonly password: PasswordSource;
  /** Cost of guessing: Argon2id's m in KiB, t and p; the format's default if absent. */
  readonly cost?: { readonly memoryKib: number; readonly passes: number; readonly lanes: number } | undefined;
  /** Source of keys and nonces; the host's generator if absent. For tests. */
  readonly random?: ((byteLength: number) => Bytes) | undefined;
}

/** The page of AIP-0002: what one digest covers if nothing else is asked for. */
export const DEFAULT_PAGE_BYTES = 4 << 20;

export interface WriteHashes {
  /** One digest for each run of this many bytes of tensor data. */
  readonly pageBytes?: number | undefined;
  /** One digest for every tensor. */
  readonly tensors?: "tensors" | undefined;
  /** One digest over the header and the tables. */
  readonly control?: "control" | undefined;
}

/** Options that only some formats honour. A format refuses a given option that it does not honour. */
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

/** Every decision of a write, made before the first byte. Formats extend it with their own. */
export interface WritePlan {
  /** In the order of committing. An index that makes a set valid comes last. */
  readonly files: readonly { readonly name: string; readonly byteLength: number }[];
  /** The file that opens the result: an index, or the first part. */
  readonly primary: string;
  /**
   * Files that an interrupted run may have left. `write` decides about them: it takes them over, or refuses them like
   * any other file.
   */
  readonly resumes?: readonly string[] | undefined;
  /** What will be lost. A plan with losses is refused unless the user permitted them. */
  readonly losses: readonly Loss[];
  /** `content.beside`, if the plan takes it along; otherwise it is lost. */
  readonly beside?: Beside | undefined;
  /** Notes for the user about things that are not losses. */
  readonly notes: readonly string[];
}

export interface WriteContext {
  readonly engine: Engine;
  readonly signal?: AbortSignal | undefined;
  readonly onProgress?: ((byteLength: number) => void) | undefined;
  /** Checks the written files before any of them becomes visible; throwing aborts the write. */
  readonly check?: ((written: Resolver) => Promise<void>) | undefined;
}

/**
 * What is known of a format before its code is loaded: how its files are named and recognised, and how to load the
 * rest. A format's `index.ts` exports this object; operations know formats only through it.
 */
export interface Format {
  readonly id: string;
  /** As people write it: "SafeTensors". */
  readonly name: string;
  readonly kind: "model" | "archive";
  /** With the dot, lower case, the usual one first. */
  readonly extensions: readonly string[];
  /** Name of the file when it has a folder to itself, if the format has a convention for that. */
  readonly folderName?: string | undefined;
  /** Which of the extensions a list of a model's other files has, and how those are named. */
  readonly index?: { readonly extensions: readonly string[]; readonly parts: "same stem" | "any name" };
  /** "read" if files of the format are never written. */
  readonly access?: "read";
  /** Length of the opening read, if it should be less than for most formats. */
  readonly openingBytes?: number;
  /** Never throws, and never trusts the name. May return a promise if the first bytes justify loading code. */
  sniff(head: Head): SniffResult | Promise<SniffResult>;
  /** The format's `read.ts`. It is loaded when a file needs it, so that other files do not wait for its code. */
  read(): Promise<FormatReader>;
  /** Its `verify.ts`. */
  verify(): Promise<FormatVerifier>;
  /** Its `write.ts`; absent if files of the format are only read, or written by dedicated operations. */
  write?(): Promise<FormatWriter>;
}

/** Decodes values that `tare.origin` carried in a format's encoding. */
export interface ValueDecoder {
  /** Undefined if the value is in another encoding, or damaged. */
  decodeValue?(encoded: EncodedValue): MetadataValue | undefined;
}

/** How files of a format are opened and examined. */
export interface FormatReader extends ValueDecoder {
  readonly limits: LimitTable;
  open(source: Source, context: OpenContext): Promise<Container>;
  /** The files of the model whose index or first part this is; undefined, or absent, if it is the only file. */
  members?(source: Source, context: MembersContext): Promise<Members | undefined>;
  /** Present if files hold digests for checking weights page by page. */
  pageDigests?(container: Container, signal?: AbortSignal): Promise<PageDigests>;
  sections(container: Container): readonly Section[];
  /** Answers whether any section has kind integrity, if that is known without listing a million sections. */
  carriesDigests?(container: Container): boolean;
  /** The fields in a run of one file, for views of its bytes; may give more than the run. */
  fields?(container: Container, range: PartRange): Promise<readonly FieldPlace[]>;
  /**
   * Facts for `tare.origin` with which `plan` writes exactly this file again; undefined if nothing is worth keeping.
   */
  describe?(container: Container): OriginFacts | undefined;
  /**
   * True if the format's writer gives these facts by itself, or for options of a write, so that a file without them is
   * no poorer. If absent, only no facts at all are usual.
   */
  isUsual?(facts: OriginFacts): boolean;
  /**
   * Present if checksums cover whole files. Reading a tensor checks none of them, so callers that read everything
   * should verify too.
   */
  readonly checksums?: "whole file";
}

export interface FormatVerifier {
  /** Present if it looks for padding that is not zero; else this is done for it. */
  readonly padding?: "checked";
  /** Checks what opening did not check. A generator, so that findings are shown as they arise. */
  verify(container: Container, context: VerifyContext): AsyncIterable<Finding>;
}

/** How files of a format are written and changed. */
export interface FormatWriter extends ValueDecoder {
  /** The format that it writes. */
  readonly format: Format;
  /** The options that `plan` honours; none if absent. */
  readonly options?: readonly FormatOption[];
  /** The metadata keys that hold the model's name and architecture; absent where there is no place for one. */
  readonly naming?: { readonly model?: string; readonly architecture?: string };
  /** Present if files have room for a signature. */
  readonly signing?: FormatSigning;
  /** Present if metadata can be edited without writing the tensors again. */
  readonly restamp?: FormatRestamp;
  /** Present if older layouts of the format have a successor. */
  readonly upgrade?: FormatUpgrade;
  /**
   * Makes foreign content conform to the conventions of this format before planning: renames tensors, and includes data
   * from files next to the source. May read. Content that needs no change is returned as it is.
   */
  prepare?(content: ModelContent, context: PrepareContext): Promise<ModelContent>;
  plan(content: ModelContent, options: WriteOptions): WritePlan;
  write(plan: WritePlan, output: Output, context: WriteContext): Promise<void>;
}

/** The result of opening; operations work on it. */
export interface Opened {
  readonly container: Container;
  readonly format: Format;
  readonly reader: FormatReader;
  /** Notes for the user about how the file was recognised, such as a misleading extension. */
  readonly notes: readonly Finding[];
  /** "authenticated" if the file is in an archive that proves every byte by a secret key. */
  readonly carrier?: "authenticated" | undefined;
  /**
   * The files of the archive around it that it is read from, and that grow as it opens more of them; absent if it is in
   * no archive. The archive proves what is read of them, so a full check reads all of them.
   */
  readonly stored?: ReadonlySet<Entry> | undefined;
}

/** One file of a model that consists of several. */
export interface Member {
  /** As the set states it: relative to the file that names it, or a full http(s) address. */
  readonly path: string;
  /** Address of the file, if it is not next to the file that names it. */
  readonly url?: string | undefined;
  /** If the set states it. */
  readonly byteLength?: number | undefined;
  /** Lower-case hex over the whole file, if the set states it. */
  readonly sha256?: string | undefined;
  /** If the set states it. */
  readonly crc32?: StatedCrc | undefined;
}

/** A CRC-32 that a set states for one of its files. */
export interface StatedCrc {
  readonly value: number;
  /**
   * Length of the file's trailer, which holds the same CRC. The CRC covers the bytes before the trailer, or, from some
   * writers, all bytes.
   */
  readonly footerBytes: number;
}

/** All files of a model that consists of several. */
export interface Members {
  readonly files: readonly Member[];
  /** Present if the examined file is an index next to `files` that makes them a set. */
  readonly index?: MembersIndex | undefined;
}

interface MembersIndex {
  readonly bytes: Bytes;
  /** The index for the same files under other paths; absent if the index can only name files next to it. */
  readonly renamed?: ((paths: readonly string[]) => Bytes) | undefined;
}

export interface MembersContext extends OpenContext {
  /** File name without its folder. The other files may be named after it. */
  readonly name: string;
}

/** A run of a file that has a BLAKE3 digest for every `pageBytes`, one after the other in `digests`. */
export interface PagedRun extends Extent {
  readonly pageBytes: number;
  readonly digests: Bytes;
}

/** Digests for checking a file's weights before the whole file has arrived. */
export interface PageDigests {
  readonly runs: readonly PagedRun[];
  /** "some" if there are weights without pages, which can only be checked as a whole. */
  readonly coverage: "all" | "some";
}

export interface UpgradeContext extends OpenContext {
  /** Keeps unreadable data as one tensor of bytes, because nothing else can be made of it. */
  readonly payload?: "wrap" | undefined;
}

/** How files of a format's older layouts become files of its newest one. */
interface FormatUpgrade {
  /** Refuses files that already have the newest layout, and files that cannot be upgraded. */
  check(container: Container, context: UpgradeContext): Promise<void>;
  /** The same model in the newest layout, ready to be planned and written. */
  apply(container: Container, context: UpgradeContext): Promise<Container>;
}
