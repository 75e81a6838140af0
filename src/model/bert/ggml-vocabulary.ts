import type { Location } from "../../base/errors.ts";
import type { Metadata } from "../metadata.ts";
import { type SpecialTokens, specialTokensOf, stringsOf, type Vocabulary } from "./vocabulary.ts";

/** llama.cpp marks the beginning of a word with this instead of marking its continuation with "##". */
const WORD_START = "\u2581";

/** GGUF's keys for the ids; "seperator" is how the key is spelt. */
const ID_KEYS: readonly (readonly [keyof SpecialTokens, readonly string[]])[] = [
  ["pad", ["tokenizer.ggml.padding_token_id"]],
  ["unk", ["tokenizer.ggml.unknown_token_id"]],
  ["cls", ["tokenizer.ggml.cls_token_id", "tokenizer.ggml.bos_token_id"]],
  ["sep", ["tokenizer.ggml.seperator_token_id", "tokenizer.ggml.separator_token_id", "tokenizer.ggml.eos_token_id"]],
  ["mask", ["tokenizer.ggml.mask_token_id"]],
];

/** Keys that the vocabulary takes the place of: lists as long as it is. */
export const GGML_VOCABULARY_KEYS: readonly string[] = [
  "tokenizer.ggml.tokens",
  "tokenizer.ggml.token_type",
  "tokenizer.ggml.scores",
];

/** The WordPiece vocabulary of a GGUF file, spelt as BERT spells it; undefined where the file has none of that kind. */
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
