import { parseArgs } from "node:util";
import { UsageError } from "../../src/base/errors.ts";
import { nearest } from "../../src/base/nearest.ts";
import { isSize, type RowRange } from "../../src/base/quantities.ts";
import {
  badValue,
  type NumberRange,
  parseDuration,
  parseInteger,
  parseNumber,
  parseRows,
  parseSize,
} from "./quantities.ts";

interface FlagBase {
  /** One letter, without the dash. */
  readonly short?: string;
  readonly summary: string;
}
interface ValuedFlag extends FlagBase {
  /** Placeholder in help: "SIZE". */
  readonly value: string;
  /** For completion: values that are usual, if others are possible too. */
  readonly suggests?: readonly string[];
}

export type Flag =
  | (FlagBase & { readonly kind: "switch" })
  | (ValuedFlag & { readonly kind: "text" | "path" | "paths" | "list" | "size" | "duration" | "number" | "rows" })
  | (ValuedFlag & { readonly kind: "optional-size"; readonly default: number })
  | (ValuedFlag & { readonly kind: "integer" } & NumberRange)
  | (FlagBase & {
      readonly kind: "choice";
      readonly choices: readonly string[];
      /** "any case" for types, which listings show in capitals. */
      readonly letters?: "any case";
    });

/** Maps the long name, without the dashes, to what it takes. */
export type FlagTable = Readonly<Record<string, Flag>>;

/** What a command gets: `true` or absent for switches, parsed values for the rest. */
export type FlagValues<T extends FlagTable> = { readonly [K in keyof T]?: FlagValue<T[K]> };

type FlagValue<F extends Flag> = F extends { kind: "switch" }
  ? true
  : F extends { kind: "choice"; choices: infer C extends readonly string[] }
    ? C[number]
    : F extends { kind: "list" | "paths" }
      ? readonly string[]
      : F extends { kind: "text" | "path" }
        ? string
        : F extends { kind: "rows" }
          ? RowRange
          : number;

export interface ParsedArguments<T extends FlagTable> {
  readonly flags: FlagValues<T>;
  readonly positionals: readonly string[];
}

/** Reads what follows the command's name. `command` names it in errors; empty for the program itself. */
export function parseFlags<const T extends FlagTable>(
  args: readonly string[],
  table: T,
  command: string,
): ParsedArguments<T> {
  const flags: Record<string, unknown> = {};
  const positionals: string[] = [];
  // Not strict: its own errors have neither the nearest flag nor our codes.
  const { tokens } = parseArgs({
    args: withDefaults(args, table),
    options: parserOptions(table),
    strict: false,
    allowPositionals: true,
    tokens: true,
  });
  for (const token of tokens) {
    if (token.kind === "positional") positionals.push(token.value);
    if (token.kind !== "option") continue;
    const flag = Object.hasOwn(table, token.name) ? table[token.name] : undefined;
    if (flag === undefined) throw unknownFlag(token.rawName, table, command);
    const text = valueText(flag, token, table);
    const before = (flags[token.name] ?? []) as readonly string[];
    const isRepeatable = flag.kind === "list" || flag.kind === "paths";
    flags[token.name] = isRepeatable ? [...before, text] : parseValue(flag, text, token.rawName);
  }
  return { flags: flags as FlagValues<T>, positionals };
}

/** A flag with an optional size takes the next argument only if that is a size. */
function withDefaults(args: readonly string[], table: FlagTable): string[] {
  return args.map((arg, i) => {
    const flag = arg.startsWith("--") && Object.hasOwn(table, arg.slice(2)) ? table[arg.slice(2)] : undefined;
    if (flag?.kind !== "optional-size" || isSize(args[i + 1] ?? "")) return arg;
    return `${arg}=${flag.default}`;
  });
}

function parserOptions(table: FlagTable): Record<string, { type: "string" | "boolean"; short?: string }> {
  const options: Record<string, { type: "string" | "boolean"; short?: string }> = {};
  for (const [name, flag] of Object.entries(table)) {
    const type = flag.kind === "switch" ? "boolean" : "string";
    options[name] = flag.short === undefined ? { type } : { type, short: flag.short };
  }
  return options;
}

interface OptionToken {
  readonly rawName: string;
  readonly value: string | undefined;
  readonly inlineValue: boolean | undefined;
}

/** The value's text. A switch has none; every other flag must have one that is not itself a flag. */
function valueText(flag: Flag, token: OptionToken, table: FlagTable): string {
  const { rawName, value, inlineValue } = token;
  if (flag.kind === "switch") {
    if (value === undefined) return "";
    throw new UsageError("usage/flag-value", `Cannot give ${rawName} the value "${value}": it takes none`, {
      source: "command line",
    });
  }
  const swallowedFlag =
    inlineValue !== true && value?.startsWith("--") === true && Object.hasOwn(table, value.slice(2));
  if (value !== undefined && value !== "" && !swallowedFlag) return value;
  throw new UsageError("usage/flag-value", `Cannot use ${rawName} without a value: must be ${placeholder(flag)}`, {
    source: "command line",
  });
}

function parseValue(flag: Flag, text: string, name: string): unknown {
  switch (flag.kind) {
    case "switch":
      return true;
    case "text":
    case "path":
    case "paths":
    case "list":
      return text;
    case "size":
    case "optional-size":
      return parseSize(text, name);
    case "duration":
      return parseDuration(text, name);
    case "number":
      return parseNumber(text, name);
    case "integer":
      return parseInteger(text, name, flag);
    case "rows":
      return parseRows(text, name);
    case "choice":
      return parseChoice(flag, text, name);
  }
}

function parseChoice({ choices, letters }: Extract<Flag, { kind: "choice" }>, text: string, name: string): string {
  const meant = letters === "any case" ? text.toLowerCase() : text;
  if (choices.includes(meant)) return meant;
  throw badValue(name, text, choices.join(", ").replace(/, ([^,]*)$/, " or $1"));
}

/** What help shows after the flag: "SIZE", "auto|always|never". */
export function placeholder(flag: Flag): string {
  if (flag.kind === "switch") return "";
  if (flag.kind === "optional-size") return `[${flag.value}]`;
  return flag.kind === "choice" ? flag.choices.join("|") : flag.value;
}

function unknownFlag(rawName: string, table: FlagTable, command: string): UsageError {
  const shorts = Object.entries(table).filter(([, flag]) => flag.short !== undefined);
  const known = rawName.startsWith("--")
    ? Object.keys(table).map((name) => `--${name}`)
    : shorts.map(([, flag]) => `-${flag.short}`);
  const near = nearest(rawName, known);
  const help = `List the flags with: tare ${command === "" ? "" : `${command} `}--help`;
  return new UsageError(
    "usage/unknown-flag",
    `Cannot use ${rawName}: ${command === "" ? "tare" : `"${command}"`} has no such flag`,
    { source: "command line" },
    { hint: near === undefined ? help : `Did you mean ${near}?` },
  );
}

/** Flags that every command takes. */
export const GLOBAL_FLAGS = {
  json: { kind: "switch", summary: "print one JSON document, the result or the error" },
  output: { kind: "path", short: "o", value: "PATH", summary: "write to PATH instead of standard output" },
  force: { kind: "switch", summary: "replace what exists" },
  "dry-run": { kind: "switch", summary: "say what would be done, write nothing" },
  quiet: {
    kind: "switch",
    short: "q",
    summary: "no notes, no progress, not a word of what was done",
  },
  verbose: { kind: "switch", short: "v", summary: "say more: stack traces, full lists" },
  progress: { kind: "choice", choices: ["auto", "json", "none"], summary: "progress on standard error" },
  "no-progress": { kind: "switch", summary: "the same as --progress none" },
  color: {
    kind: "choice",
    choices: ["auto", "always", "never"],
    summary: "colours; NO_COLOR and FORCE_COLOR count too",
  },
  engine: { kind: "choice", choices: ["auto", "portable", "native"], summary: "which primitives to run on" },
  concurrency: { kind: "integer", value: "N", min: 1, max: 256, summary: "workers and connections at once" },
  memory: { kind: "size", value: "SIZE", summary: "most bytes to hold for buffered input" },
  limits: { kind: "path", value: "FILE", summary: 'JSON that moves limits: {"gguf": {"headerBytes": 1e9}}' },
  timeout: { kind: "duration", value: "TIME", summary: "give up on a silent server after TIME (30s)" },
  retries: { kind: "integer", value: "N", max: 100, summary: "ask a failing server again N times (5)" },
  offline: { kind: "switch", summary: "never use the network" },
  header: { kind: "list", value: "K:V", summary: "send a header with HTTP requests; repeatable" },
  "header-file": { kind: "path", value: "FILE", summary: "headers from FILE, one a line: the place for secrets" },
  "allow-origin": { kind: "list", value: "URL", summary: "let a set refer to files at another origin; repeatable" },
  "password-file": {
    kind: "paths",
    value: "FILE",
    summary: "the password of encrypted files, - for standard input; else you are asked; repeatable, outermost first",
  },
  "no-encryption": {
    kind: "switch",
    summary: "a vault without encryption is meant, whatever was there before",
  },
  help: { kind: "switch", short: "h", summary: "show help" },
} as const satisfies FlagTable;

export type GlobalFlags = FlagValues<typeof GLOBAL_FLAGS>;
