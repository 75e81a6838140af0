import { FormatError, type Location, UnsupportedError } from "../../base/errors.ts";
import { isTrueOrFalse, type JsonNode } from "../../struct/strict-json.ts";
import { arrayValue, type Metadata, type MetadataEntry, type MetadataValue, stringValue } from "../metadata.ts";

/** Ids of the five tokens that a BERT tokenizer adds itself. A token that the vocabulary lacks has the id of `unk`. */
export interface SpecialTokens {
  readonly pad: number;
  readonly unk: number;
  readonly cls: number;
  readonly sep: number;
  readonly mask: number;
}

/** The tokens of a WordPiece tokenizer by id. An empty string is a hole that no text matches. */
export interface Vocabulary {
  readonly tokens: readonly string[];
  readonly special: SpecialTokens;
  /** How text is prepared for the tokens, if their file states it. */
  readonly rules?: TextRules | undefined;
}

/** The metadata key for a model's vocabulary, in every format: an array of strings … */
export const TOKENS_KEY = "vocabulary.tokens";
/** … and an array of five u32: pad, unk, cls, sep, mask. */
export const SPECIAL_KEY = "vocabulary.special";

const NAMES: Readonly<Record<keyof SpecialTokens, string>> = {
  pad: "[PAD]",
  unk: "[UNK]",
  cls: "[CLS]",
  sep: "[SEP]",
  mask: "[MASK]",
};

/** The vocabulary as the two entries of a model's metadata. */
export function vocabularyEntries({ tokens, special }: Vocabulary): readonly MetadataEntry[] {
  const ids = [special.pad, special.unk, special.cls, special.sep, special.mask];
  return [
    { key: TOKENS_KEY, value: arrayValue(tokens.map(stringValue), "string") },
    { key: SPECIAL_KEY, value: arrayValue(ids.map(u32), "u32") },
  ];
}

function u32(value: number): MetadataValue {
  return { type: "u32", value };
}

/**
 * Finds the five tokens by their spelling. Without [UNK], [CLS] and [SEP] nothing can be embedded, so their absence is
 * refused. [PAD] and [MASK] never occur in a sentence that is run at its own length.
 */
export function specialTokensOf(
  tokens: readonly string[],
  at: Location,
  known: Partial<Readonly<Record<keyof SpecialTokens, number>>> = {},
): SpecialTokens {
  const ids = new Map<string, number>();
  // The last of two equal tokens counts, as in programs that load a vocab.txt into a table.
  for (const [id, token] of tokens.entries()) ids.set(token, id);
  const find = (key: keyof SpecialTokens): number | undefined => known[key] ?? ids.get(NAMES[key]);
  const [unk, cls, sep] = [find("unk"), find("cls"), find("sep")];
  if (unk === undefined || cls === undefined || sep === undefined) throw noSpecials({ unk, cls, sep }, at);
  for (const id of [unk, cls, sep]) checkId(id, tokens.length, at);
  return { pad: find("pad") ?? unk, unk, cls, sep, mask: find("mask") ?? unk };
}

function noSpecials(found: Readonly<Record<string, number | undefined>>, at: Location): UnsupportedError {
  const missing = Object.entries(found)
    .filter(([, id]) => id === undefined)
    .map(([key]) => NAMES[key as keyof SpecialTokens]);
  const message = `Cannot use the vocabulary: must have [UNK], [CLS] and [SEP], found no ${missing.join(", ")}`;
  return new UnsupportedError("unsupported/bert.special-tokens", message, at, {
    hint: "Only WordPiece vocabularies of BERT models are read; others have tokenizers of another kind",
  });
}

function checkId(id: number, count: number, at: Location): void {
  if (Number.isSafeInteger(id) && id >= 0 && id < count) return;
  const message = `Cannot use the vocabulary: ids must be < ${count}, found ${id}`;
  throw new FormatError("format/bert.vocabulary", message, at);
}

/**
 * A `vocab.txt`: one token per line; the line's number is its id. A last line without a line end counts; an empty last
 * line does not.
 */
export function parseVocabTxt(text: string, at: Location): Vocabulary {
  const lines = text.replace(/^\ufeff/, "").split("\n");
  if (lines.at(-1) === "") lines.pop();
  // The file was saved on Windows: the carriage return is not part of a token.
  const tokens = lines.map((line) => (line.endsWith("\r") ? line.slice(0, -1) : line));
  return { tokens, special: specialTokensOf(tokens, at) };
}

/** The vocabulary that a model's metadata holds under our keys; undefined if it has none. */
export function vocabularyFromMetadata(metadata: Metadata, at: Location): Vocabulary | undefined {
  const tokens = stringsOf(metadata.get(TOKENS_KEY));
  // A stream without a vocabulary still has the key, with zero tokens. Then we look at the files next to it.
  if (tokens === undefined || tokens.length === 0) return undefined;
  const ids = numbersOf(metadata.get(SPECIAL_KEY));
  const [pad, unk, cls, sep, mask] = ids ?? [];
  if (pad === undefined || unk === undefined || cls === undefined || sep === undefined || mask === undefined) {
    return { tokens, special: specialTokensOf(tokens, at) };
  }
  for (const id of [unk, cls, sep]) checkId(id, tokens.length, at);
  return { tokens, special: { pad, unk, cls, sep, mask } };
}

/** The strings of an array; undefined if it is not an array, or holds anything else. */
export function stringsOf(value: MetadataValue | undefined): readonly string[] | undefined {
  if (value?.type !== "array") return undefined;
  const strings: string[] = [];
  for (const item of value.slice()) {
    if (item.type !== "string") return undefined;
    strings.push(item.value);
  }
  return strings;
}

/** The numbers of an array; undefined if it is not an array, or holds anything else. */
function numbersOf(value: MetadataValue | undefined): readonly number[] | undefined {
  if (value?.type !== "array") return undefined;
  const numbers: number[] = [];
  for (const item of value.slice()) {
    if (!("value" in item) || typeof item.value !== "number") return undefined;
    numbers.push(item.value);
  }
  return numbers;
}

/** llama.cpp marks the beginning of a word with this instead of marking its continuation with "##". */
const WORD_START = "\u2581";

/** GGUF's keys for the ids; "seperator" is the key's real spelling. */
const ID_KEYS: readonly (readonly [keyof SpecialTokens, readonly string[]])[] = [
  ["pad", ["tokenizer.ggml.padding_token_id"]],
  ["unk", ["tokenizer.ggml.unknown_token_id"]],
  ["cls", ["tokenizer.ggml.cls_token_id", "tokenizer.ggml.bos_token_id"]],
  ["sep", ["tokenizer.ggml.seperator_token_id", "tokenizer.ggml.separator_token_id", "tokenizer.ggml.eos_token_id"]],
  ["mask", ["tokenizer.ggml.mask_token_id"]],
];

/** Keys that the vocabulary replaces: lists of the same length. */
export const GGML_VOCABULARY_KEYS: readonly string[] = [
  "tokenizer.ggml.tokens",
  "tokenizer.ggml.token_type",
  "tokenizer.ggml.scores",
];

/** The WordPiece vocabulary of a GGUF file, in BERT's spelling; undefined if the file has none of that kind. */
export function vocabularyFromGguf(metadata: Metadata, at: Location): Vocabulary | undefined {
  if (metadata.text("tokenizer.ggml.model") !== "bert") return undefined;
  const stored = stringsOf(metadata.get("tokenizer.ggml.tokens"));
  if (stored === undefined) return undefined;
  const tokens = stored.some((token) => token.startsWith(WORD_START)) ? stored.map(restoreToken) : stored;
  const known: Partial<Record<keyof SpecialTokens, number>> = {};
  for (const [name, keys] of ID_KEYS) {
    const id = keys.map((key) => metadata.number(key)).find((value) => value !== undefined);
    if (id !== undefined && Number.isSafeInteger(id) && id >= 0 && id < tokens.length) known[name] = id;
  }
  return { tokens, special: specialTokensOf(tokens, at, known) };
}

/** "▁word" was "word", "ing" was "##ing"; tokens in brackets were left as they are. */
function restoreToken(token: string): string {
  if (token.startsWith(WORD_START)) return token.slice(WORD_START.length);
  return token.startsWith("[") && token.endsWith("]") ? token : `##${token}`;
}

/** How text is prepared for a WordPiece vocabulary, as far as a file states it. */
export interface TextRules {
  readonly lowerCase?: "lower" | "keep" | undefined;
  /** If absent, accents are stripped exactly when text is lower-cased. */
  readonly stripAccents?: "strip" | "keep" | undefined;
  /** If absent, each ideograph is a separate word ("apart"). */
  readonly ideographs?: "apart" | "joined" | undefined;
  /** Longer words become [UNK]; 100 if absent. */
  readonly maxWordLength?: number | undefined;
}

/** For each rule, the first source that states it decides. */
export function mergeTextRules(...all: readonly (TextRules | undefined)[]): TextRules {
  const first = <K extends keyof TextRules>(key: K): TextRules[K] | undefined =>
    all.find((rules) => rules?.[key] !== undefined)?.[key];
  return {
    lowerCase: first("lowerCase"),
    stripAccents: first("stripAccents"),
    ideographs: first("ideographs"),
    maxWordLength: first("maxWordLength"),
  };
}

/** Keys of metadata and of `tokenizer_config.json`; Hugging Face's tokenizers have them as arguments. */
const LOWER = "do_lower_case";
const STRIP = "strip_accents";
const IDEOGRAPHS = "tokenize_chinese_chars";
const WORD_LENGTH = "max_input_chars_per_word";

/** The questions that text rules ask of a model's own metadata: see StatedFacts. */
interface StatedRules {
  yesOrNo(keys: readonly string[]): "yes" | "no" | undefined;
  count(keys: readonly string[]): number | undefined;
}

/** The rules in a model's own metadata. */
export function statedTextRules(facts: StatedRules): TextRules {
  const chosen = <T>(key: string, yes: T, no: T): T | undefined => {
    const said = facts.yesOrNo([key]);
    return said === undefined ? undefined : said === "yes" ? yes : no;
  };
  return {
    lowerCase: chosen(LOWER, "lower", "keep"),
    stripAccents: chosen(STRIP, "strip", "keep"),
    ideographs: chosen(IDEOGRAPHS, "apart", "joined"),
    maxWordLength: facts.count([WORD_LENGTH]),
  };
}

/** The rules in `tokenizer_config.json`. */
export function configuredTextRules(config: JsonNode | undefined): TextRules {
  return textRulesIn(config, { lower: LOWER, strip: STRIP, ideographs: IDEOGRAPHS });
}

/** The switches of a JSON object, under the given key names; null counts as not stated. */
export function textRulesIn(
  node: JsonNode | undefined,
  keys: { readonly lower: string; readonly strip: string; readonly ideographs: string },
): TextRules {
  const chosen = <T>(key: string, yes: T, no: T): T | undefined => {
    const said = isTrueOrFalse(node, key);
    return said === undefined ? undefined : said === "true" ? yes : no;
  };
  return {
    lowerCase: chosen(keys.lower, "lower", "keep"),
    stripAccents: chosen(keys.strip, "strip", "keep"),
    ideographs: chosen(keys.ideographs, "apart", "joined"),
  };
}

/** The rules as metadata: those that differ from BERT's defaults, and the case, which a reader must not guess. */
export function textRuleEntries(rules: TextRules): readonly (readonly [string, string | undefined])[] {
  const { lowerCase, stripAccents, ideographs, maxWordLength } = rules;
  return [
    [LOWER, lowerCase === undefined ? undefined : String(lowerCase === "lower")],
    [STRIP, stripAccents === undefined ? undefined : String(stripAccents === "strip")],
    [IDEOGRAPHS, ideographs === "joined" ? "false" : undefined],
    [WORD_LENGTH, maxWordLength === undefined || maxWordLength === 100 ? undefined : String(maxWordLength)],
  ];
}
