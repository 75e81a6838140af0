import { isTareError, type Location } from "../../base/errors.ts";
import { checkLimit } from "../../base/limits.ts";
import type { Resolver } from "../../bytes/resolver.ts";
import type { Source } from "../../bytes/source.ts";
import { decodeJsonText, type JsonNode, parseStrictJson } from "../../struct/strict-json.ts";
import { isTrueOrFalse, positiveIn, textIn } from "./json-members.ts";
import { configuredTextRules, mergeTextRules, type TextRules } from "./text-rules.ts";
import { parseTokenizerJson, type TokenizerFacts } from "./tokenizer-json.ts";
import { parseVocabTxt, type Vocabulary } from "./vocabulary.ts";

/** Files beside a model are read whole; a tokenizer of a quarter of a million tokens takes 17 MB. */
const MAX_BYTES = 64 << 20;

/** The files that Hugging Face and sentence-transformers keep beside the weights, read when first asked for. */
export class Sidecars {
  readonly #resolver: Resolver | undefined;
  readonly #signal: AbortSignal | undefined;
  readonly #json = new Map<string, Promise<JsonNode | undefined>>();
  #tokenizer: Promise<TokenizerFacts | undefined> | undefined;
  #notes: readonly string[] = [];

  /** Without a resolver there is nothing beside the model. */
  constructor(resolver: Resolver | undefined, signal?: AbortSignal | undefined) {
    this.#resolver = resolver;
    this.#signal = signal;
  }

  /** `config.json`: the architecture. */
  config(): Promise<JsonNode | undefined> {
    return this.#document("config.json");
  }

  /** Tokens that sentence-transformers cuts a text to. */
  async maxTokens(): Promise<number | undefined> {
    return positiveIn(await this.#document("sentence_bert_config.json"), "max_seq_length");
  }

  /**
   * What `1_Pooling/config.json` asks for: "mean", "cls", or another word that nobody here knows. Layers that
   * `modules.json` puts behind it are such words too: "mean + Dense".
   */
  async pooling(): Promise<string | undefined> {
    const more = await this.#otherModules();
    const pooling = await this.#pooling();
    return more.length === 0 ? pooling : [pooling ?? "mean", ...more].join(" + ");
  }

  /** Modules of a sentence-transformers model that change vectors and are none of BERT, pooling and normalising. */
  async #otherModules(): Promise<readonly string[]> {
    const list = await this.#document("modules.json");
    const types = (list?.type === "array" ? list.items : []).map((item) => textIn(item, "type") ?? "");
    const names = types.map((type) => type.slice(type.lastIndexOf(".") + 1));
    return names.filter((name) => name !== "" && !KNOWN_MODULES.has(name));
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

  /** What `tokenizer.json` and `tokenizer_config.json` say about text; the first wins. */
  async textRules(): Promise<TextRules> {
    return mergeTextRules(await this.tokenizer(), configuredTextRules(await this.#document("tokenizer_config.json")));
  }

  /** `tokenizer.json`, where it is one of a BERT model. */
  tokenizer(): Promise<TokenizerFacts | undefined> {
    this.#tokenizer ??= this.#text("tokenizer.json").then((found) => {
      const facts = found === undefined ? undefined : parseTokenizerJson(found.text, found.at);
      this.#notes = facts?.notes ?? [];
      return facts;
    });
    return this.#tokenizer;
  }

  /** What the user should know about the files that have been read so far. */
  get notes(): readonly string[] {
    return this.#notes;
  }

  /** The tokens of `tokenizer.json`, else of `vocab.txt`, else of the model's own name with `.vocab`. */
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
      checkLimit(source.byteLength, MAX_BYTES, `${name} of so many bytes`, "limit/bert.sidecar-bytes", at);
      const bytes = await source.read(0, source.byteLength, { signal });
      return { text: decodeJsonText(bytes, { source: source.label, offset: 0, what: name }), at };
    } finally {
      await source.close();
    }
  }
}

/** Undefined where there is no such file. */
async function openIn(
  resolver: Resolver | undefined,
  name: string,
  signal: AbortSignal | undefined,
): Promise<Source | undefined> {
  return resolver?.resolve(name, { signal }).catch((error: unknown) => {
    // A folder of that name, or a link that leads elsewhere, is no file of the model either.
    if (isTareError(error) && ABSENT.has(error.code)) return undefined;
    throw error;
  });
}

/** Object stores answer 403 for what is not there to those who may not list; offline, what is not cached is not there. */
const ABSENT: ReadonlySet<string> = new Set([
  "source/not-found",
  "source/not-a-file",
  "source/is-directory",
  "source/resolver.escape",
  "source/http.forbidden",
  "source/offline",
]);

/** What is computed here, and what does nothing outside of training. */
const KNOWN_MODULES: ReadonlySet<string> = new Set(["Transformer", "Pooling", "Normalize", "Dropout"]);

/** Names of the switches in `1_Pooling/config.json` whose pooling we know. */
const POOLING: Readonly<Record<string, string>> = {
  pooling_mode_cls_token: "cls",
  pooling_mode_mean_tokens: "mean",
};

/** The vocabulary of a file that the user named: a `tokenizer.json`, or lines as in `vocab.txt`. */
export function parseVocabularyFile(text: string, at: Location): Vocabulary | undefined {
  return /^\s*\{/.test(text) ? parseTokenizerJson(text, at)?.vocabulary : parseVocabTxt(text, at);
}

/** What a configuration says the model is, where that is something else than a BERT encoder. */
export function foreignArchitecture(config: JsonNode | undefined): string | undefined {
  const type = textIn(config, "model_type");
  if (type !== undefined && type !== "bert") return type;
  const positions = textIn(config, "position_embedding_type");
  if (positions !== undefined && positions !== "absolute") return `BERT with ${positions} positions`;
  return isTrueOrFalse(config, "is_decoder") === "true" ? "a BERT decoder" : undefined;
}
