import type { Bytes } from "../../base/bytes.ts";
import { FormatError, isTareError, type Location } from "../../base/errors.ts";
import { checkLimit } from "../../base/limits.ts";
import { encodeUtf8 } from "../../base/text.ts";
import type { Resolver } from "../../bytes/resolver.ts";
import type { Source } from "../../bytes/source.ts";
import {
  decodeJsonText,
  isTrueOrFalse,
  type JsonNode,
  member,
  parseStrictJson,
  positiveIn,
  textIn,
} from "../../struct/strict-json.ts";
import type { MetadataEntry } from "../metadata.ts";
import { decodeMetadataJson, MAX_GIVEN_VALUES } from "../metadata-json.ts";
import {
  configuredTextRules,
  mergeTextRules,
  parseVocabTxt,
  type SpecialTokens,
  specialTokensOf,
  type TextRules,
  textRulesIn,
  type Vocabulary,
} from "./vocabulary.ts";

/** Files next to a model are read whole. A tokenizer of a quarter of a million tokens takes 17 MB. */
const MAX_BYTES = 64 << 20;

/** The files that Hugging Face and sentence-transformers keep next to the weights. Each is read on first use. */
export class Sidecars {
  readonly #resolver: Resolver | undefined;
  readonly #signal: AbortSignal | undefined;
  readonly #json = new Map<string, Promise<JsonNode | undefined>>();
  #tokenizer: Promise<TokenizerFacts | undefined> | undefined;
  #notes: readonly string[] = [];

  /** Without a resolver there are no files next to the model. */
  constructor(resolver: Resolver | undefined, signal?: AbortSignal | undefined) {
    this.#resolver = resolver;
    this.#signal = signal;
  }

  /** `config.json`: the architecture. */
  config(): Promise<JsonNode | undefined> {
    return this.#document("config.json");
  }

  /** The members of `config.json` as typed values, in its order; undefined if it is no object. */
  async configuration(): Promise<readonly MetadataEntry[] | undefined> {
    const found = await this.#text("config.json");
    if (found === undefined || !/^\s*\{/.test(found.text)) return undefined;
    const place = { source: found.at.source, offset: 0, what: "config.json", maxValues: MAX_GIVEN_VALUES };
    return decodeMetadataJson(encodeUtf8(found.text), place).entries;
  }

  /** The number of tokens to which sentence-transformers cuts a text, if its own file states one. */
  async maxTokens(): Promise<number | undefined> {
    return positiveIn(await this.#document("sentence_bert_config.json"), "max_seq_length");
  }

  /** The longest text of the tokenizer. One without a limit states 10^30, which is no number of tokens. */
  async tokenizerLimit(): Promise<number | undefined> {
    return positiveIn(await this.#document("tokenizer_config.json"), "model_max_length");
  }

  /**
   * The pooling in `1_Pooling/config.json`: "mean", "cls", or a word that we do not know. Layers that `modules.json`
   * puts after the pooling make such a word too: "mean + Dense".
   */
  async pooling(): Promise<string | undefined> {
    const more = await this.#otherModules();
    const pooling = await this.#pooling();
    return more.length === 0 ? pooling : [pooling ?? "mean", ...more].join(" + ");
  }

  /** "no" if `modules.json` lists the steps of the model, and normalising is none of them. */
  async normalizes(): Promise<"no" | undefined> {
    const types = await this.#moduleTypes();
    return types.length === 0 || types.includes("Normalize") ? undefined : "no";
  }

  /** Modules of a sentence-transformers model that change vectors, other than BERT, pooling and normalising. */
  async #otherModules(): Promise<readonly string[]> {
    return (await this.#moduleTypes()).filter((name) => !KNOWN_MODULES.has(name));
  }

  async #moduleTypes(): Promise<readonly string[]> {
    const list = await this.#document("modules.json");
    const types = (list?.type === "array" ? list.items : []).map((item) => textIn(item, "type") ?? "");
    return types.map((type) => type.slice(type.lastIndexOf(".") + 1)).filter((name) => name !== "");
  }

  async #pooling(): Promise<string | undefined> {
    const file = await this.#document("1_Pooling/config.json");
    const mode = textIn(file, "pooling_mode");
    if (mode !== undefined) return mode;
    if (file?.type !== "object") return undefined;
    const chosen = file.entries.filter(([key, { type }]) => key.startsWith("pooling_mode_") && type === "bool");
    const names = chosen.filter(([key]) => isTrueOrFalse(file, key) === "true").map(([key]) => POOLING[key] ?? key);
    return names.length === 0 ? undefined : names.join(" + ");
  }

  /** The text rules of `tokenizer.json` and `tokenizer_config.json`; the first wins. */
  async textRules(): Promise<TextRules> {
    return mergeTextRules(await this.tokenizer(), configuredTextRules(await this.#document("tokenizer_config.json")));
  }

  /** `tokenizer.json`, if it is a BERT model's. */
  tokenizer(): Promise<TokenizerFacts | undefined> {
    this.#tokenizer ??= this.#text("tokenizer.json").then((found) => {
      const facts = found === undefined ? undefined : parseTokenizerJson(found.text, found.at);
      this.#notes = facts?.notes ?? [];
      return facts;
    });
    return this.#tokenizer;
  }

  /** Notes for the user about the files that were read so far. */
  get notes(): readonly string[] {
    return this.#notes;
  }

  /** The tokens of `tokenizer.json`, else of `vocab.txt`, else of the file with the model's name and `.vocab`. */
  async vocabulary(): Promise<Vocabulary | undefined> {
    const tokenizer = await this.tokenizer();
    if (tokenizer !== undefined) return tokenizer.vocabulary;
    const own = this.#resolver?.name.replace(/\.[^.]*$/, ".vocab");
    for (const name of ["vocab.txt", ...(own === undefined || own === this.#resolver?.name ? [] : [own])]) {
      const found = await this.#text(name);
      if (found !== undefined) return parseVocabTxt(found.text, found.at);
    }
    return undefined;
  }

  #document(name: string): Promise<JsonNode | undefined> {
    let document = this.#json.get(name);
    document ??= this.#text(name).then((found) =>
      found === undefined ? undefined : parseStrictJson(found.text, { source: found.at.source, offset: 0, what: name }),
    );
    this.#json.set(name, document);
    return document;
  }

  async #text(name: string): Promise<{ readonly text: string; readonly at: Location } | undefined> {
    const signal = this.#signal;
    const beside = await openIn(this.#resolver, name, signal);
    const source = beside ?? (await openIn(this.#resolver?.above, name, signal));
    if (source === undefined) return undefined;
    const at: Location = { source: source.label };
    try {
      checkLimit(source.byteLength, MAX_BYTES, `${name} of this many bytes`, "limit/bert.sidecar-bytes", at);
      const bytes = await source.read(0, source.byteLength, { signal });
      if (isWebPage(source.label, bytes)) return undefined;
      return { text: decodeJsonText(bytes, { source: source.label, offset: 0, what: name }), at };
    } finally {
      await source.close();
    }
  }
}

/** Servers of single-page applications answer every path that they do not know with the page itself, and 200. */
function isWebPage(label: string, bytes: Bytes): boolean {
  if (!/^https?:\/\//i.test(label)) return false;
  return /^\s*<(?:!doctype\s+html|html|head|body)\b/i.test(new TextDecoder().decode(bytes.subarray(0, 256)));
}

/** Undefined if there is no such file. */
async function openIn(
  resolver: Resolver | undefined,
  name: string,
  signal: AbortSignal | undefined,
): Promise<Source | undefined> {
  return resolver?.resolve(name, { signal }).catch((error: unknown) => {
    // A folder with that name, or a link that leads elsewhere, is not a file of the model either.
    if (isTareError(error) && ABSENT.has(error.code)) return undefined;
    throw error;
  });
}

/**
 * Object stores answer 403 for a missing object if the client may not list. Offline, a file that is not cached counts
 * as missing.
 */
const ABSENT: ReadonlySet<string> = new Set([
  "source/not-found",
  "source/not-a-file",
  "source/is-directory",
  "source/resolver.escape",
  "source/http.forbidden",
  "source/offline",
]);

/** Modules that we compute, and those that have no effect outside of training. */
const KNOWN_MODULES: ReadonlySet<string> = new Set(["Transformer", "Pooling", "Normalize", "Dropout"]);

/** The switches in `1_Pooling/config.json` whose pooling we know. */
const POOLING: Readonly<Record<string, string>> = {
  pooling_mode_cls_token: "cls",
  pooling_mode_mean_tokens: "mean",
};

/** The vocabulary of a file that the user named: a `tokenizer.json`, or lines as in `vocab.txt`. */
export function parseVocabularyFile(text: string, at: Location): Vocabulary | undefined {
  return /^\s*\{/.test(text) ? parseTokenizerJson(text, at)?.vocabulary : parseVocabTxt(text, at);
}

/** The kind of model that a configuration states, if it is not a BERT encoder. */
export function foreignArchitecture(config: JsonNode | undefined): string | undefined {
  const type = textIn(config, "model_type");
  if (type !== undefined && type !== "bert") return type;
  const positions = textIn(config, "position_embedding_type");
  if (positions !== undefined && positions !== "absolute") return `BERT with ${positions} positions`;
  return isTrueOrFalse(config, "is_decoder") === "true" ? "a BERT decoder" : undefined;
}

/** What a Hugging Face `tokenizer.json` says about a BERT tokenizer. */
interface TokenizerFacts extends TextRules {
  readonly vocabulary: Vocabulary;
  /** Steps that it asks for and that we do not do; its ids may then differ. */
  readonly notes: readonly string[];
}

/**
 * The ids need not be dense, so we make a list as long as the highest id. This bounds it. No WordPiece vocabulary has a
 * fourth of it.
 */
const MAX_ID = (1 << 20) - 1;

/** Undefined if the tokenizer is not WordPiece; then its model is not BERT. */
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

/** Spreading this many numbers into Math.max would exhaust the stack. */
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

/**
 * Tokenizers may name their special tokens differently. The model, the post-processor and the padding tell the names.
 */
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

/** Most tokens in a note before "…". */
const NAMED_TOKENS = 3;

/** Steps that a BERT tokenizer does not have, and that we leave out. */
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

/** Tokens that the library finds in a text literally, without the five special ones. */
function addedTokens(root: JsonNode, special: ReadonlySet<number>): readonly string[] {
  const added = member(root, "added_tokens");
  const tokens: string[] = [];
  for (const item of added?.type === "array" ? added.items : []) {
    const content = textIn(item, "content");
    if (content !== undefined && !special.has(positiveIn(item, "id") ?? 0)) tokens.push(content);
  }
  return tokens;
}
