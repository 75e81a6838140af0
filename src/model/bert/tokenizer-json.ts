import { FormatError, type Location } from "../../base/errors.ts";
import { type JsonNode, parseStrictJson } from "../../struct/strict-json.ts";
import { isTrueOrFalse, member, positiveIn, textIn } from "./json-members.ts";
import { type TextRules, textRulesIn } from "./text-rules.ts";
import { type SpecialTokens, specialTokensOf, type Vocabulary } from "./vocabulary.ts";

/** What a Hugging Face `tokenizer.json` says about a BERT tokenizer. */
export interface TokenizerFacts extends TextRules {
  readonly vocabulary: Vocabulary;
  /** What it asks for that is not done here: its ids may be other ones. */
  readonly notes: readonly string[];
}

/** Ids need not be dense, so a list as long as the highest is made: this bounds it. No WordPiece vocabulary has a fourth of it. */
const MAX_ID = (1 << 20) - 1;

/** Undefined where the tokenizer is of another kind than WordPiece: its model is no BERT. */
export function parseTokenizerJson(text: string, at: Location): TokenizerFacts | undefined {
  const root = parseStrictJson(text, { source: at.source, offset: 0, what: "tokenizer.json", maxValues: 8_000_000 });
  const model = member(root, "model");
  const vocab = member(model, "vocab");
  // Files of early versions of the library have no type.
  const type = textIn(model, "type") ?? (vocab?.type === "object" ? "WordPiece" : undefined);
  if (type !== "WordPiece" || vocab?.type !== "object") return undefined;
  const tokens = tokensOf(vocab.entries, root, at);
  const known = specialIds(root, tokens);
  const special = specialTokensOf(tokens, at, known);
  const rules = { ...normalizerRules(root), maxWordLength: positiveIn(model, "max_input_chars_per_word") };
  const isSaid = Object.values(rules).some((rule) => rule !== undefined);
  const vocabulary = { tokens, special, ...(isSaid ? { rules } : {}) };
  return { vocabulary, ...rules, notes: foreignSteps(root, Object.values(special)) };
}

function tokensOf(entries: readonly (readonly [string, JsonNode])[], root: JsonNode, at: Location): readonly string[] {
  const byId = new Map<number, string>();
  const put = (token: string, node: JsonNode | undefined): void => {
    const id = node?.type === "number" ? Number(node.text) : Number.NaN;
    if (!Number.isSafeInteger(id) || id < 0 || id > MAX_ID) throw badId(token, node, at);
    byId.set(id, token);
  };
  for (const [token, node] of entries) put(token, node);
  const added = member(root, "added_tokens");
  for (const item of added?.type === "array" ? added.items : []) {
    const content = textIn(item, "content");
    if (content !== undefined) put(content, member(item, "id"));
  }
  const tokens = new Array<string>(highest(byId.keys()) + 1).fill("");
  for (const [id, token] of byId) tokens[id] = token;
  return tokens;
}

/** Spreading so many numbers into Math.max would exhaust the stack. */
function highest(numbers: Iterable<number>): number {
  let high = -1;
  for (const number of numbers) high = Math.max(high, number);
  return high;
}

function badId(token: string, node: JsonNode | undefined, at: Location): FormatError {
  const found = node?.type === "number" ? node.text : (node?.type ?? "nothing");
  const message = `Cannot read tokenizer.json: the id of ${JSON.stringify(token)} must be 0 to ${MAX_ID}, found ${found}`;
  return new FormatError("format/bert.vocabulary", message, at);
}

/** Tokenizers may call their special tokens otherwise: the model, the post-processor and the padding say how. */
function specialIds(root: JsonNode, tokens: readonly string[]): Partial<Record<keyof SpecialTokens, number>> {
  const ids = new Map(tokens.map((token, id) => [token, id]));
  const known: Partial<Record<keyof SpecialTokens, number>> = {};
  const put = (key: keyof SpecialTokens, token: string | undefined): void => {
    const id = token === undefined ? undefined : ids.get(token);
    if (id !== undefined) known[key] = id;
  };
  put("unk", textIn(member(root, "model"), "unk_token"));
  put("pad", textIn(member(root, "padding"), "pad_token"));
  const post = member(root, "post_processor");
  // BertProcessing: "cls": ["[CLS]", 101]
  for (const key of ["cls", "sep"] as const) {
    const pair = member(post, key);
    const first = pair?.type === "array" ? pair.items[0] : undefined;
    put(key, first?.type === "string" ? first.value : undefined);
  }
  // TemplateProcessing: the first and the last step of a single sentence.
  const single = member(post, "single");
  const steps = single?.type === "array" ? single.items : [];
  put("cls", textIn(member(steps[0], "SpecialToken"), "id"));
  put("sep", textIn(member(steps.at(-1), "SpecialToken"), "id"));
  return known;
}

/** BertNormalizer, alone or in a sequence; `strip_accents: null` follows `lowercase`. */
function bertNormalizer(root: JsonNode): JsonNode | undefined {
  const normalizer = member(root, "normalizer");
  const steps = member(normalizer, "normalizers");
  const all = steps?.type === "array" ? steps.items : normalizer === undefined ? [] : [normalizer];
  return all.find((step) => textIn(step, "type") === "BertNormalizer");
}

function normalizerRules(root: JsonNode): TextRules {
  const keys = { lower: "lowercase", strip: "strip_accents", ideographs: "handle_chinese_chars" };
  return textRulesIn(bertNormalizer(root), keys);
}

/** Tokens named in a note before "…". */
const NAMED_TOKENS = 3;

/** What a tokenizer of BERT does not do, and what is left out of it here. */
function foreignSteps(root: JsonNode, special: readonly number[]): readonly string[] {
  const notes: string[] = [];
  const step = (key: string, bert: string): void => {
    const type = textIn(member(root, key), "type");
    if (type !== undefined && type !== bert) notes.push(`its ${key} is ${type}, not ${bert}`);
  };
  if (bertNormalizer(root) === undefined) step("normalizer", "BertNormalizer");
  step("pre_tokenizer", "BertPreTokenizer");
  if (isTrueOrFalse(bertNormalizer(root), "clean_text") === "false") notes.push("it keeps control characters");
  const prefix = textIn(member(root, "model"), "continuing_subword_prefix") ?? "##";
  if (prefix !== "##") notes.push(`its pieces are continued by ${JSON.stringify(prefix)}, not "##"`);
  const added = addedTokens(root, new Set(special));
  if (added.length > 0) {
    const named = added.slice(0, NAMED_TOKENS).map((token) => JSON.stringify(token));
    const list = [...named, ...(added.length > NAMED_TOKENS ? ["…"] : [])].join(", ");
    notes.push(`it adds tokens (${list}) that are not looked for in texts`);
  }
  return notes.map((note) => `tokenizer.json asks for what is not done here, ids may differ: ${note}`);
}

/** Of those that the library finds in a text as they stand, the ones that are none of the five. */
function addedTokens(root: JsonNode, special: ReadonlySet<number>): readonly string[] {
  const added = member(root, "added_tokens");
  const tokens: string[] = [];
  for (const item of added?.type === "array" ? added.items : []) {
    const content = textIn(item, "content");
    if (content !== undefined && !special.has(positiveIn(item, "id") ?? 0)) tokens.push(content);
  }
  return tokens;
}
