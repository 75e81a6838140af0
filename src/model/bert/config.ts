import { FormatError, type Location, UnsupportedError, UsageError } from "../../base/errors.ts";
import { printable } from "../../base/text.ts";
import { type JsonNode, member, numberIn } from "../../struct/strict-json.ts";
import { Metadata, type MetadataValue } from "../metadata.ts";
import type { BertShapes } from "./shapes.ts";
import { foreignArchitecture, type Sidecars } from "./sidecars.ts";
import { mergeTextRules, statedTextRules, type Vocabulary } from "./vocabulary.ts";

/** What a BERT encoder must know in addition to its weights. */
export interface BertConfig {
  /** Width of a token's vector, and of the sentence's. */
  readonly hidden: number;
  readonly layers: number;
  readonly heads: number;
  /** Width of the feed-forward block. */
  readonly intermediate: number;
  /** Rows of the position table: no sentence can be longer. */
  readonly positions: number;
  /** Rows of the word table. */
  readonly vocabularySize: number;
  readonly tokenTypes: number;
  /** Added to the variance in LayerNorm. */
  readonly epsilon: number;
  readonly activation: "gelu" | "gelu_tanh" | "relu";
  readonly pooling: "mean" | "cls";
  readonly normalize: "l2" | "none";
  /** Most ids per sentence, [CLS] and [SEP] included; longer ones are cut. Never above `positions`. */
  readonly maxTokens: number;
  readonly lowerCase: "lower" | "keep";
  /**
   * Present if accents are not treated as BERT does by default, which is to strip them exactly when text is
   * lower-cased.
   */
  readonly stripAccents?: "strip" | "keep" | undefined;
  /** Present if ideographs are not separate words. */
  readonly ideographs?: "joined" | undefined;
  /** Present if the longest word is not 100 characters. */
  readonly maxWordLength?: number | undefined;
}

/** What decides the configuration in addition to the tensors. */
interface ConfigSources {
  readonly facts: StatedFacts;
  readonly sidecars: Sidecars;
  readonly shapes: BertShapes;
  readonly vocabulary: Vocabulary | undefined;
  /** The caller's vocabulary and number of heads win. So do the text rules of that vocabulary. */
  readonly given?: Vocabulary | undefined;
  readonly heads?: number | undefined;
  readonly at: Location;
}

/** The configuration, and what we had to assume for it. */
interface DecidedConfig {
  readonly config: BertConfig;
  readonly notes: readonly string[];
}

/** What the `sentence_bert_config.json` of all-MiniLM-L6-v2 states, for copies of the model without that file. */
const MINILM_TOKENS = 256;
/** BERT's default. */
const USUAL_EPSILON = 1e-12;

/** Metadata comes first, then the files next to the model, then the shapes. The number of heads is never guessed. */
export async function decideBertConfig(sources: ConfigSources): Promise<DecidedConfig> {
  const { facts, shapes, at } = sources;
  const notes: string[] = [];
  const heads = decideHeads(facts, sources);
  const pooling = await decidePooling(facts, sources, notes);
  const maxTokens = (await statedMaxTokens(sources)) ?? (isMiniLm(shapes) ? MINILM_TOKENS : shapes.positions);
  const text = await decideText(facts, sources, notes);
  const config: BertConfig = {
    ...shapes,
    heads,
    epsilon: facts.positive(["layer_norm_eps", "attention.layer_norm_epsilon"]) ?? USUAL_EPSILON,
    activation: decideActivation(facts, at),
    pooling,
    normalize: await decideNormalizing(sources),
    maxTokens: Math.min(maxTokens, shapes.positions),
    ...text,
  };
  return { config, notes };
}

/**
 * The length to which texts are cut, as sentence-transformers decides it: its own file, else the lesser of the model's
 * and the tokenizer's maximum. Undefined if neither its file nor the tokenizer states one.
 */
export async function statedMaxTokens({
  facts,
  sidecars,
}: Pick<ConfigSources, "facts" | "sidecars">): Promise<number | undefined> {
  const own = facts.count(["max_seq_length"]) ?? (await sidecars.maxTokens());
  const limit = own === undefined ? await sidecars.tokenizerLimit() : undefined;
  if (limit === undefined) return own;
  return Math.min(limit, facts.count(["max_position_embeddings", "max_position_emb", "context_length"]) ?? limit);
}

/** The only width and depth whose settings we know without being told. */
export function isMiniLm({ hidden, intermediate, layers }: BertShapes): boolean {
  return hidden === 384 && intermediate === 1536 && layers === 6;
}

/** Of a model that is not MiniLM-L6, a guess would silently give wrong vectors. */
function decideHeads(facts: StatedFacts, { shapes, heads: asked, at }: ConfigSources): number {
  const { hidden, layers } = shapes;
  const said = asked ?? facts.heads() ?? (isMiniLm(shapes) ? 12 : undefined);
  if (said === undefined) {
    const message = `Cannot tell how many attention heads the model has: nothing says it, and ${hidden} dimensions in ${layers} layers do not show it`;
    throw new UsageError("usage/bert.heads", message, at, {
      hint: "Pass the option heads N; config.json of the model has it as num_attention_heads",
    });
  }
  if (Number.isSafeInteger(said) && said > 0 && hidden % said === 0) return said;
  const message = `Cannot use ${said} attention heads: must divide the ${hidden} dimensions`;
  if (asked !== undefined) throw new UsageError("usage/bert.heads", message, at);
  throw new FormatError("format/bert.config", message, { ...at, path: "num_attention_heads" });
}

const ACTIVATIONS: Readonly<Record<string, BertConfig["activation"]>> = {
  gelu: "gelu",
  gelu_python: "gelu",
  gelu_new: "gelu_tanh",
  gelu_fast: "gelu_tanh",
  gelu_pytorch_tanh: "gelu_tanh",
  gelu_tanh: "gelu_tanh",
  relu: "relu",
};

function decideActivation(facts: StatedFacts, at: Location): BertConfig["activation"] {
  const said = facts.text(["hidden_act"]) ?? "gelu";
  const activation = Object.hasOwn(ACTIVATIONS, said) ? ACTIVATIONS[said] : undefined;
  if (activation !== undefined) return activation;
  const message = `Cannot compute the activation "${said}": must be one of ${Object.keys(ACTIVATIONS).join(", ")}`;
  throw new UnsupportedError("unsupported/bert.activation", message, { ...at, path: "hidden_act" });
}

/** How notes begin where mean pooling is an assumption. */
export const UNSTATED_POOLING = "nothing says how token vectors become one";

async function decidePooling(facts: StatedFacts, sources: ConfigSources, notes: string[]): Promise<"mean" | "cls"> {
  const said = facts.pooling() ?? (await sources.sidecars.pooling());
  if (said === "mean" || said === "cls") return said;
  if (said === undefined) {
    notes.push(
      `${UNSTATED_POOLING}: mean pooling is used, as most such models want; 1_Pooling/config.json beside the model can say it`,
    );
    return "mean";
  }
  const message = `Cannot pool by "${said}": must be mean or cls`;
  throw new UnsupportedError("unsupported/bert.pooling", message, { ...sources.at, path: "pooling" });
}

/** Vectors get length 1, unless the model or its list of modules says otherwise. */
async function decideNormalizing({ facts, sidecars }: ConfigSources): Promise<"l2" | "none"> {
  const keys = ["normalize", "normalize_embeddings"];
  if (facts.text(keys) !== undefined) return facts.isFalse(keys) ? "none" : "l2";
  return (await sidecars.normalizes()) === "no" ? "none" : "l2";
}

type DecidedRules = Pick<BertConfig, "lowerCase" | "stripAccents" | "ideographs" | "maxWordLength">;

/** Keeps the case, and only those rules that differ from BERT's defaults. */
async function decideText(facts: StatedFacts, sources: ConfigSources, notes: string[]): Promise<DecidedRules> {
  const { sidecars, vocabulary, given } = sources;
  const own = mergeTextRules(given?.rules, statedTextRules(facts));
  // Metadata that states the case also states the rest. Then nothing next to the file is read.
  const rules = own.lowerCase === undefined ? mergeTextRules(own, await sidecars.textRules()) : own;
  const lowerCase = rules.lowerCase ?? guessCase(vocabulary, notes);
  const { stripAccents, ideographs, maxWordLength } = rules;
  const isUsual = stripAccents === undefined || (stripAccents === "strip") === (lowerCase === "lower");
  return {
    lowerCase,
    ...(isUsual ? {} : { stripAccents }),
    ...(ideographs === "joined" ? { ideographs } : {}),
    ...(maxWordLength === undefined || maxWordLength === 100 ? {} : { maxWordLength }),
  };
}

/** A vocabulary that has capital letters in words was made from unchanged text. */
function guessCase(vocabulary: Vocabulary | undefined, notes: string[]): "lower" | "keep" {
  const isCased = vocabulary?.tokens.some((token) => /^(##)?[A-Z][a-z]/.test(token)) ?? false;
  if (isCased) notes.push("the vocabulary has words in capital letters: text is not lower-cased");
  return isCased ? "keep" : "lower";
}

/** Refuses a model of another kind by its name. */
export function refuseKind(kind: string | undefined, at: Location): void {
  if (kind === undefined) return;
  const message = `Cannot run this model: ${printable(kind)} is not supported`;
  const hint = "Use a BERT encoder: MiniLM, bge, gte, e5 and their kin";
  throw new UnsupportedError("unsupported/bert.architecture", message, at, { hint });
}

/** The places that state facts. */
interface FactSources {
  readonly metadata: Metadata;
  readonly sidecars: Sidecars;
  /** Width of the word table; undefined if there is none, and then any configuration is taken for the model's. */
  readonly hidden: number | undefined;
}

/** The key of EMBD and Hugging Face, and GGUF's. */
const HEADS = ["num_attention_heads", "attention.head_count"] as const;

/** llama.cpp's pooling_type; 0 means none. Kinds that we do not compute are refused by name. */
const GGML_POOLING: ReadonlyMap<string, string> = new Map([
  ["1", "mean"],
  ["2", "cls"],
  ["3", "last"],
  ["4", "rank"],
]);

/**
 * What a model's metadata and the `config.json` next to it state, under the names that formats use: those of EMBD and
 * Hugging Face, `architecture` of APR, and GGUF's keys prefixed with the architecture's name.
 */
export class StatedFacts {
  readonly #metadata: Metadata;
  readonly #architecture: Metadata;
  readonly #prefix: string | undefined;
  readonly #config: JsonNode | undefined;
  /** Notes for the user about how the facts were found. */
  readonly notes: readonly string[];

  private constructor(metadata: Metadata, config: JsonNode | undefined, notes: readonly string[]) {
    this.notes = notes;
    const architecture = metadata.get("architecture");
    this.#metadata = metadata;
    this.#architecture = new Metadata(architecture?.type === "map" ? architecture.entries : []);
    this.#prefix = metadata.text("general.architecture");
    this.#config = config;
  }

  /**
   * A `config.json` with another width than the tensors belongs to another model. It is not used, and a note says so.
   */
  static async read({ metadata, sidecars, hidden }: FactSources): Promise<StatedFacts> {
    // A file that states its heads states the rest too. Then nothing next to it is read.
    const own = new StatedFacts(metadata, undefined, []);
    if (own.count(HEADS) !== undefined) return own;
    const config = await sidecars.config();
    const width = numberIn(config, "hidden_size");
    if (width === undefined || hidden === undefined || width === hidden) return new StatedFacts(metadata, config, []);
    return new StatedFacts(metadata, undefined, [
      `config.json beside the model is not its own: hidden_size is ${width}, the word table has ${hidden} columns`,
    ]);
  }

  /**
   * The kind that the model states, if it is not a BERT encoder although its tensors have BERT's names. XLM-RoBERTa,
   * for example, counts positions differently.
   */
  foreignKind(): string | undefined {
    const type = textOf(this.#architecture.get("model_type")) ?? this.#prefix ?? this.#metadata.text("model_type");
    const own = type === undefined || type === "bert" || type === "unknown" ? undefined : type;
    return own ?? foreignArchitecture(this.#config);
  }

  heads(): number | undefined {
    return this.count(HEADS);
  }

  /** As metadata states it: a word, or llama.cpp's number for it. */
  pooling(): string | undefined {
    return this.text(["pooling"]) ?? GGML_POOLING.get(this.text(["pooling_type"]) ?? "");
  }

  /** The value of the first key that is stated, as text. Metadata wins over config.json. */
  text(keys: readonly string[]): string | undefined {
    for (const key of keys) {
      const value =
        textOf(this.#metadata.get(key)) ??
        textOf(this.#architecture.get(key)) ??
        (this.#prefix === undefined ? undefined : textOf(this.#metadata.get(`${this.#prefix}.${key}`))) ??
        textOfNode(member(this.#config, key));
      if (value !== undefined) return value;
    }
    return undefined;
  }

  /** A number above zero. */
  positive(keys: readonly string[]): number | undefined {
    const value = Number(this.text(keys) ?? Number.NaN);
    return Number.isFinite(value) && value > 0 ? value : undefined;
  }

  /** A whole number above zero. */
  count(keys: readonly string[]): number | undefined {
    const value = this.positive(keys);
    return value !== undefined && Number.isSafeInteger(value) ? value : undefined;
  }

  /** Layers, under the names of EMBD, Hugging Face and GGUF. A number above 1024 is ignored: no model has that many. */
  layers(): number | undefined {
    const layers = this.count(["num_layers", "num_hidden_layers", "block_count"]);
    return layers !== undefined && layers <= 1024 ? layers : undefined;
  }

  yesOrNo(keys: readonly string[]): "yes" | "no" | undefined {
    const text = this.text(keys)?.toLowerCase();
    if (text === "true" || text === "1") return "yes";
    return text === "false" || text === "0" ? "no" : undefined;
  }

  isFalse(keys: readonly string[]): boolean {
    return this.yesOrNo(keys) === "no" || this.text(keys) === "none";
  }
}

function textOf(value: MetadataValue | undefined): string | undefined {
  if (value === undefined || !("value" in value) || value.type === "bytes") return undefined;
  return value.type === "f32" ? shortest(value.value) : String(value.value);
}

/** 1e-12 as a float32 is 9.999999960041972e-13. The fewest digits that give the same float32 are what was meant. */
function shortest(value: number): string {
  for (let digits = 1; digits < 9; digits++) {
    const text = value.toPrecision(digits);
    if (Math.fround(Number(text)) === value) return String(Number(text));
  }
  return String(value);
}

function textOfNode(node: JsonNode | undefined): string | undefined {
  if (node?.type === "string" || node?.type === "bool") return String(node.value);
  return node?.type === "number" ? node.text : undefined;
}
