import type { JsonNode } from "../../struct/strict-json.ts";
import { isTrueOrFalse } from "./json-members.ts";
import type { StatedFacts } from "./stated-facts.ts";

/** How text is made ready for a WordPiece vocabulary, as far as somebody says it. */
export interface TextRules {
  readonly lowerCase?: "lower" | "keep" | undefined;
  /** Where absent, accents go exactly where text is lower-cased. */
  readonly stripAccents?: "strip" | "keep" | undefined;
  /** Where absent, each is a word of its own ("apart"). */
  readonly ideographs?: "apart" | "joined" | undefined;
  /** Longer words are [UNK]; 100 where absent. */
  readonly maxWordLength?: number | undefined;
}

/** The first of them that says something decides, matter by matter. */
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

/** Keys of metadata and of `tokenizer_config.json`, which Hugging Face's tokenizers have as arguments. */
const LOWER = "do_lower_case";
const STRIP = "strip_accents";
const IDEOGRAPHS = "tokenize_chinese_chars";
const WORD_LENGTH = "max_input_chars_per_word";

/** What a model's own metadata says. */
export function statedTextRules(facts: StatedFacts): TextRules {
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

/** What `tokenizer_config.json` says. */
export function configuredTextRules(config: JsonNode | undefined): TextRules {
  return textRulesIn(config, { lower: LOWER, strip: STRIP, ideographs: IDEOGRAPHS });
}

/** Switches of a JSON object under the names that it has for them; null says nothing. */
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

/** The rules as metadata: those that are not BERT's own, and the case, which a reader must not guess. */
export function textRuleEntries(rules: TextRules): readonly (readonly [string, string | undefined])[] {
  const { lowerCase, stripAccents, ideographs, maxWordLength } = rules;
  return [
    [LOWER, lowerCase === undefined ? undefined : String(lowerCase === "lower")],
    [STRIP, stripAccents === undefined ? undefined : String(stripAccents === "strip")],
    [IDEOGRAPHS, ideographs === "joined" ? "false" : undefined],
    [WORD_LENGTH, maxWordLength === undefined || maxWordLength === 100 ? undefined : String(maxWordLength)],
  ];
}
