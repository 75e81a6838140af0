import { UsageError } from "../../base/errors.ts";
import { isWellFormed } from "../../base/text.ts";
import type { Source } from "../../bytes/source.ts";
import { parityPercent } from "../../model/parity/avec.ts";
import {
  COMMON_RULES,
  type CommonOptions,
  choiceRule,
  type Duration,
  durationRule,
  integerRule,
  listOf,
  type OneOrMany,
  type OptionRule,
  type OptionRules,
  type Size,
  sizeRule,
  switchRule,
  textRule,
  textsRule,
  WRITE_RULES,
  type WriteOptions,
} from "../options.ts";

/** How much parity: a share of what it protects, or a level of the format. */
export type Parity = `${number}%` | "low" | "medium" | "quartile" | "high";

export interface VaultOptions extends CommonOptions {
  /** Longest wait of a change for another writer: 30 s. */
  readonly lockTimeout?: Duration | undefined;
}

export interface CreateVaultOptions extends WriteOptions {
  /** How hard to compress: "balanced". */
  readonly profile?: "fast" | "balanced" | "archive" | undefined;
  /** Makes a vault without a password: everybody can read and change it. */
  readonly encryption?: false | undefined;
  /** Lets the vault carry parity. */
  readonly parity?: Parity | undefined;
  readonly lockTimeout?: Duration | undefined;
}

export interface RepairVaultOptions extends WriteOptions {
  /** The sidecar, if it is not the file beside the vault. */
  readonly sidecar?: string | undefined;
  /** Where the healed vault goes, if not to the place of the damaged one. */
  readonly output?: string | undefined;
  readonly lockTimeout?: Duration | undefined;
}

export interface ReadEntryOptions {
  readonly signal?: AbortSignal | undefined;
  /** The longest entry to read: 256 MiB. */
  readonly maxBytes?: Size | undefined;
}

export interface ListEntriesOptions {
  /** Only what matches one of these, in which `*` crosses slashes. Each must match something. */
  readonly glob?: OneOrMany<string> | undefined;
  /** The longest first, or by name. */
  readonly sort?: "size" | "name" | undefined;
}

export interface ExtractVaultOptions extends WriteOptions {
  readonly glob?: OneOrMany<string> | undefined;
}

/** Options of every change. */
export interface ChangeOptions {
  readonly signal?: AbortSignal | undefined;
  readonly onProgress?: CommonOptions["onProgress"];
  readonly onNote?: CommonOptions["onNote"];
  /** Makes every decision and writes nothing. */
  readonly dryRun?: boolean | undefined;
}

export interface AddOptions extends ChangeOptions {
  /** Directory inside the vault. */
  readonly to?: string | undefined;
  /** Only files whose entry matches one of these. */
  readonly include?: OneOrMany<string> | undefined;
  /** Leaves out entries that match one of these, with all below. */
  readonly exclude?: OneOrMany<string> | undefined;
  /** Walks into links to folders. */
  readonly follow?: boolean | undefined;
  /** "keyed", or as the reference cuts. */
  readonly chunker?: "keyed" | "reference" | undefined;
  /** False cuts models like any other file. */
  readonly tensorCuts?: boolean | undefined;
}

export interface RemoveOptions extends ChangeOptions {
  /** Directories with everything in them. */
  readonly recursive?: boolean | undefined;
}

export interface ChangePasswordOptions extends ChangeOptions {
  /** New keys too: every block is encrypted again. */
  readonly rekey?: boolean | undefined;
}

export interface ExportParityOptions extends ChangeOptions {
  /** Where the sidecar goes, if not beside the vault. */
  readonly output?: string | undefined;
  readonly parity?: Parity | undefined;
  readonly force?: boolean | undefined;
}

export interface EmbedParityOptions extends ChangeOptions {
  readonly parity?: Parity | undefined;
}

export interface StripParityOptions extends ChangeOptions {
  /** Also if nothing else could heal the vault. */
  readonly force?: boolean | undefined;
}

/** An entry that is made from data. */
export interface NewEntry {
  readonly path: string;
  readonly data: EntryData;
  /** Milliseconds since 1970, or a Date. */
  readonly modified?: Date | number | undefined;
  /** Permission bits. */
  readonly mode?: number | undefined;
}

/** Text is stored as UTF-8. */
export type EntryData =
  | string
  | Uint8Array
  | ArrayBuffer
  | Blob
  | Source
  | ReadableStream<Uint8Array>
  | AsyncIterable<Uint8Array>;

const parityRule: OptionRule = {
  must: '5% to 50%, "low", "medium", "quartile" or "high"',
  test: (value) => typeof value === "string" && parityPercent(value) !== undefined,
};

export const VAULT_RULES = { ...COMMON_RULES, lockTimeout: durationRule } as const satisfies OptionRules;

export const CREATE_RULES = {
  ...WRITE_RULES,
  profile: choiceRule("fast", "balanced", "archive"),
  parity: parityRule,
  lockTimeout: durationRule,
} as const satisfies OptionRules;

export const REPAIR_RULES = {
  ...WRITE_RULES,
  sidecar: textRule,
  output: textRule,
  lockTimeout: durationRule,
} as const satisfies OptionRules;

export const READ_RULES = { signal: COMMON_RULES.signal, maxBytes: sizeRule } as const satisfies OptionRules;
export const LIST_RULES = { glob: textsRule, sort: choiceRule("size", "name") } as const satisfies OptionRules;
export const EXTRACT_RULES = { ...WRITE_RULES, glob: textsRule } as const satisfies OptionRules;

const { signal, onProgress, onNote } = COMMON_RULES;
export const CHANGE_RULES = { signal, onProgress, onNote, dryRun: switchRule } as const satisfies OptionRules;
export const ADD_RULES = {
  ...CHANGE_RULES,
  to: textRule,
  include: textsRule,
  exclude: textsRule,
  follow: switchRule,
  chunker: choiceRule("keyed", "reference"),
  tensorCuts: switchRule,
} as const satisfies OptionRules;
export const REMOVE_RULES = { ...CHANGE_RULES, recursive: switchRule } as const satisfies OptionRules;
export const PASSWORD_RULES = { ...CHANGE_RULES, rekey: switchRule } as const satisfies OptionRules;
export const EXPORT_PARITY_RULES = {
  ...CHANGE_RULES,
  output: textRule,
  parity: parityRule,
  force: switchRule,
} as const satisfies OptionRules;
export const EMBED_PARITY_RULES = { ...CHANGE_RULES, parity: parityRule } as const satisfies OptionRules;
export const STRIP_PARITY_RULES = { ...CHANGE_RULES, force: switchRule } as const satisfies OptionRules;

/** Permission bits of an entry. */
export const modeRule: OptionRule = integerRule(0, 0o7777);

/** One or many, as a list. Refuses none: what was to be named may be missing by mistake. */
export function someOf<T>(verb: string, action: string, named: OneOrMany<T>): readonly T[] {
  const list = listOf(named) ?? [];
  if (list.length > 0) return list;
  throw new UsageError("usage/arguments", `Cannot ${action} nothing: must name an entry`, { source: verb });
}

/** Refuses what is no text, where callers without types may pass anything. */
export function checkTexts(verb: string, name: string, texts: readonly string[]): readonly string[] {
  if (texts.every((text) => typeof text === "string")) return texts;
  throw wrong(verb, name, "text");
}

export function checkPassword(verb: string, password: unknown): void {
  if (!COMMON_RULES.password.test(password)) throw wrong(verb, "newPassword", COMMON_RULES.password.must);
}

/** Refuses an entry that is none, before anything is opened. */
export function checkNewEntry(verb: string, entry: NewEntry): void {
  if (typeof entry !== "object" || entry === null) throw wrong(verb, "what", "a path, or an object of path and data");
  const { path, data, modified, mode } = entry;
  if (typeof path !== "string") throw wrong(verb, "path", "text");
  if (typeof data === "string" && !isWellFormed(data)) throw wrong(verb, "data", "whole characters, or bytes");
  if (!isData(data)) {
    throw wrong(verb, "data", "text, bytes, a Blob, a Source, a ReadableStream, or an async iterable of bytes");
  }
  const time = modified === undefined ? 0 : Number(modified);
  if (!Number.isFinite(time)) throw wrong(verb, "modified", "a Date, or milliseconds since 1970");
  if (mode !== undefined && !modeRule.test(mode)) throw wrong(verb, "mode", modeRule.must);
}

function isData(data: unknown): boolean {
  if (typeof data === "string") return true;
  if (typeof data !== "object" || data === null) return false;
  if (data instanceof Uint8Array || data instanceof ArrayBuffer || data instanceof Blob) return true;
  const isSource = "read" in data && "stream" in data && "byteLength" in data;
  return isSource || Symbol.asyncIterator in data;
}

function wrong(verb: string, name: string, must: string): UsageError {
  const message = `Cannot use ${name} of ${verb}: must be ${must}`;
  return new UsageError("usage/option-value", message, { source: verb, path: name });
}
