import { UsageError } from "../base/errors.ts";
import type { LimitOverrides } from "../base/limits.ts";
import { nearestFirst } from "../base/nearest.ts";
import { isTimerLength, millisecondsOf, sizeOf } from "../base/quantities.ts";
import { printable } from "../base/text.ts";
import type { Format } from "../model/format.ts";
import type { Password } from "../model/password.ts";
import type { Engine } from "../primitives/engine.ts";

export type OneOrMany<T> = T | readonly T[];

/** Bytes, or a number with a unit, as on the command line. */
export type Size = number | `${number}${"B" | "kB" | "KB" | "MB" | "GB" | "TB" | "KiB" | "MiB" | "GiB" | "TiB"}`;

/** Milliseconds, as everywhere in JavaScript, or a number with a unit, as on the command line. */
export type Duration = number | `${number}${"ms" | "s" | "m" | "h"}`;

/** The line of `--progress json`. The first event comes at the start, the last at the end, at most ten a second between. */
export interface Progress {
  readonly type: "progress";
  /** A participle: "verifying", "writing", "adding". */
  readonly label: string;
  /** Bytes; characters where text is embedded. */
  readonly done: number;
  readonly total: number | null;
  readonly bytesPerSecond: number;
}

/** 256 MiB: what a call holds in memory if its caller says nothing. A page can spare it. */
export const HELD_BYTES = 256 * 2 ** 20;

/** Options of every verb: the global flags of the command line. */
export interface CommonOptions {
  readonly signal?: AbortSignal | undefined;
  readonly onProgress?: ((progress: Progress) => void) | undefined;
  /** Gets what the command line prints as "note: …". */
  readonly onNote?: ((note: string) => void) | undefined;
  readonly password?: Password | undefined;
  /** Says that a vault is known to have no encryption: without it, a password given for such a vault is refused. */
  readonly encryption?: false | undefined;
  /** Sent to the origin of the input alone. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** URLs of servers that files may refer to, in addition to their own. */
  readonly allowOrigin?: OneOrMany<string> | undefined;
  readonly timeout?: Duration | undefined;
  readonly retries?: number | undefined;
  readonly concurrency?: number | undefined;
  /** Most bytes to hold for input of unknown length. */
  readonly memory?: Size | undefined;
  /** By format and name: `{ gguf: { headerBytes: 1e9 } }`. */
  readonly limits?: LimitOverrides | undefined;
  readonly engine?: "auto" | "portable" | "native" | Engine | undefined;
  /** Consider only these formats for the input: `format` of "tare/formats/gguf", for example. */
  readonly formats?: readonly Format[] | undefined;
  /** The object store of `s3://` addresses. In Node, the environment and ~/.aws say what this leaves out. */
  readonly s3?: S3Options | undefined;
  /** Sends every request. */
  readonly fetch?: typeof fetch | undefined;
  /** `tare/node` only. Answers from the cache alone; what it does not have is an error. */
  readonly offline?: boolean | undefined;
  /** `tare/node` only. The folder of the cache of remote bytes; false for no cache. */
  readonly cache?: false | string | undefined;
  /** `tare/node` only. The variables to look up instead of `process.env`. */
  readonly env?: Readonly<Record<string, string | undefined>> | undefined;
}

/** An object store and the key to it. */
export interface S3Options {
  readonly endpoint?: string | undefined;
  readonly region?: string | undefined;
  readonly accessKeyId?: string | undefined;
  readonly secretAccessKey?: string | undefined;
  readonly sessionToken?: string | undefined;
  readonly addressing?: "path" | "virtual-host" | undefined;
}

/** Options of every verb that writes. */
export interface WriteOptions extends CommonOptions {
  /** Replaces what has the output's name. */
  readonly force?: boolean | undefined;
  /** Makes every decision and writes nothing. */
  readonly dryRun?: boolean | undefined;
}

/** What the value of an option must be: a test, and the words for the error. */
export interface OptionRule {
  readonly must: string;
  /** "shown" if the error may repeat a wrong value: it is never a secret. */
  readonly values?: "shown" | undefined;
  test(value: unknown): boolean;
}

const rule = (must: string, test: (value: unknown) => boolean): OptionRule => ({ must, test });
export const shownRule = (must: string, test: (value: unknown) => boolean): OptionRule => ({
  must,
  test,
  values: "shown",
});
/** An object with members of its own. A Map or Headers has none that are seen, and would count as empty. */
const isRecord = (value: unknown): value is Record<string, unknown> =>
  Object.prototype.toString.call(value) === "[object Object]";
const isText = (value: unknown): value is string => typeof value === "string";
const isBytes = (value: unknown): value is Uint8Array => value instanceof Uint8Array;

export const switchRule = shownRule("true or false", (value) => typeof value === "boolean");
export const textRule = rule("text", isText);
export const textsRule = rule("text, or a list of texts", (value) => [value].flat().every(isText));
/** For options whose value is judged where it is used: inputs and outputs. */
export const anyRule = rule("given", () => true);
export const functionRule = rule("a function", (value) => typeof value === "function");
export const objectRule = rule("an object", isRecord);
export const sizeRule = shownRule('a number of bytes, or text such as "64MiB"', (value) => sizeIn(value) !== undefined);
export const durationRule = shownRule(
  'a number of milliseconds, or text such as "30s"',
  (value) => durationIn(value) !== undefined,
);

export const inputRule = rule(
  "something that can be read or written",
  (value) => isText(value) || (typeof value === "object" && value !== null),
);

/** A whole number within bounds. */
export function integerRule(min: number, max: number = Number.MAX_SAFE_INTEGER): OptionRule {
  const bounds = max === Number.MAX_SAFE_INTEGER ? `>= ${min}` : `from ${min} to ${max}`;
  return shownRule(
    `a whole number ${bounds}`,
    (value) => Number.isSafeInteger(value) && (value as number) >= min && (value as number) <= max,
  );
}

/** One of several words. */
export function choiceRule(...choices: readonly string[]): OptionRule {
  const names = choices.map((choice) => `"${choice}"`).join(", ");
  return shownRule(`one of ${names}`, (value) => isText(value) && choices.includes(value));
}

/** One of several types, in small letters or as listings show them. */
export function typeRule(...types: readonly string[]): OptionRule {
  const { must } = choiceRule(...types);
  return rule(must, (value) => isText(value) && types.includes(value.toLowerCase()));
}

export type OptionRules = Readonly<Record<string, OptionRule>>;

const isOrigins = (value: unknown): boolean => isRecord(value) && Object.values(value).every(isText);
const isLimit = (value: unknown): boolean =>
  value === undefined || (Number.isSafeInteger(value) && (value as number) >= 0);
const isLimits = (value: unknown): boolean =>
  isRecord(value) &&
  Object.values(value).every((own) => own === undefined || (isRecord(own) && Object.values(own).every(isLimit)));
const isEnvironment = (value: unknown): boolean =>
  isRecord(value) && Object.values(value).every((one) => one === undefined || isText(one));
const S3_NAMES = ["endpoint", "region", "accessKeyId", "secretAccessKey", "sessionToken", "addressing"];
const isS3Options = (value: unknown): boolean =>
  isEnvironment(value) && Object.keys(value as object).every((name) => S3_NAMES.includes(name));

export const COMMON_RULES = {
  signal: rule("an AbortSignal", (value) => value instanceof AbortSignal),
  onProgress: functionRule,
  onNote: functionRule,
  password: rule("text, bytes, or a function that gives them", (value) =>
    [isText(value), isBytes(value), typeof value === "function"].includes(true),
  ),
  encryption: rule("false, or absent", (value) => value === false),
  headers: rule("a plain object of texts", isOrigins),
  allowOrigin: textsRule,
  timeout: durationRule,
  retries: integerRule(0, 1000),
  concurrency: integerRule(1, 1000),
  memory: sizeRule,
  limits: rule("objects of whole numbers, by format", isLimits),
  engine: rule('"auto", "portable", "native", or an Engine', (value) =>
    isText(value) ? ["auto", "portable", "native"].includes(value) : isRecord(value),
  ),
  formats: rule('a list of formats of "tare/formats/…"', (value) => Array.isArray(value) && value.every(isRecord)),
  s3: rule(`an object of ${S3_NAMES.join(", ")}`, isS3Options),
  fetch: functionRule,
  offline: switchRule,
  cache: rule("false, or the path of a folder", (value) => value === false || isText(value)),
  env: rule("an object whose values are texts", isEnvironment),
} as const satisfies OptionRules;

export const WRITE_RULES = {
  ...COMMON_RULES,
  force: switchRule,
  dryRun: switchRule,
} as const satisfies OptionRules;

/**
 * Refuses options that a verb does not have, and values that an option cannot have, before anything is opened.
 * `undefined` counts as not given.
 */
export function checkOptions(verb: string, options: unknown, rules: OptionRules): void {
  if (options === undefined) return;
  const at = { source: verb };
  if (!isRecord(options))
    throw new UsageError("usage/option-value", `Cannot use the options of ${verb}: must be an object`, at);
  for (const [name, value] of Object.entries(options)) {
    if (value === undefined) continue;
    const found = Object.hasOwn(rules, name) ? rules[name] : undefined;
    if (found === undefined) {
      const message = `Cannot use the option "${printable(name)}" of ${verb}: there is no such option`;
      throw new UsageError("usage/unknown-option", message, at, {
        hint: nearestFirst(name, Object.keys(rules).sort(), "The options are"),
      });
    }
    if (found.test(value)) continue;
    const seen = found.values === undefined ? "" : foundOf(value);
    const message = `Cannot use the option "${name}" of ${verb}: must be ${found.must}${seen}`;
    throw new UsageError("usage/option-value", message, { ...at, path: name });
  }
}

/** A wrong value for an error; of most, what it is says enough. */
function foundOf(value: unknown): string {
  if (isText(value)) return `, found "${printable(value)}"`;
  return `, found ${typeof value === "number" ? value : typeof value}`;
}

/** Refuses a call without an option that its verb cannot do without. */
export function requireOption(verb: string, name: string, value: unknown, wanted: string): void {
  if (value !== undefined) return;
  const message = `Cannot ${verb} without the option ${name}: must be ${wanted}`;
  throw new UsageError("usage/option-missing", message, { source: verb, path: name });
}

/** The bytes that a size means; undefined for what is none. */
export function sizeIn(value: unknown): number | undefined {
  if (typeof value === "number") return Number.isSafeInteger(value) && value >= 0 ? value : undefined;
  return isText(value) ? sizeOf(value) : undefined;
}

/** The milliseconds that a duration means; undefined for what is none. */
export function durationIn(value: unknown): number | undefined {
  if (typeof value === "number") return isTimerLength(value) ? Math.ceil(value) : undefined;
  return isText(value) ? millisecondsOf(value, "ms") : undefined;
}

/** One or many, as a list. */
export function listOf<T>(value: OneOrMany<T> | undefined): readonly T[] | undefined {
  if (value === undefined) return undefined;
  return Array.isArray(value) ? (value as readonly T[]) : [value as T];
}
