import { FormatError, type Location, UnsupportedError, UsageError } from "../../base/errors.ts";
import type { JsonNode } from "../../struct/strict-json.ts";
import { Metadata, type MetadataValue } from "../metadata.ts";
import { member, numberIn } from "./json-members.ts";
import type { BertShapes } from "./shapes.ts";
import { foreignArchitecture, type Sidecars } from "./sidecars.ts";
import { mergeTextRules, statedTextRules, type Vocabulary } from "./vocabulary.ts";

/** What a BERT encoder must know beside its weights. */
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
  /** Ids a sentence is cut to, [CLS] and [SEP] included; never above `positions`. */
  readonly maxTokens: number;
  readonly lowerCase: "lower" | "keep";
  /** Present where accents are not treated as BERT does by default: taken away exactly where text is lower-cased. */
  readonly stripAccents?: "strip" | "keep" | undefined;
  /** Present where ideographs are no words of their own. */
  readonly ideographs?: "joined" | undefined;
  /** Present where words may have another length than 100 characters. */
  readonly maxWordLength?: number | undefined;
}

/** What decides beside the tensors. */
interface ConfigSources {
  readonly facts: StatedFacts;
  readonly sidecars: Sidecars;
  readonly shapes: BertShapes;
  readonly vocabulary: Vocabulary | undefined;
  /** What the caller says; it wins. So does what a vocabulary says that the caller gave. */
  readonly given?: Vocabulary | undefined;
  readonly heads?: number | undefined;
  readonly at: Location;
}

/** The configuration, and what had to be assumed for it. */
interface DecidedConfig {
  readonly config: BertConfig;
  readonly notes: readonly string[];
}

/** Longest sentence where nobody says: what sentence-transformers uses for the MiniLM models, 256. */
const USUAL_TOKENS = 256;
/** BERT's own. */
const USUAL_EPSILON = 1e-12;

/** Metadata first, then the files beside the model, then what the shapes show; heads are never guessed. */
export async function decideBertConfig(sources: ConfigSources): Promise<DecidedConfig> {
  const { facts, shapes, at } = sources;
  const notes: string[] = [];
  const heads = decideHeads(facts, sources);
  const pooling = await decidePooling(facts, sources, notes);
  const maxTokens = facts.count(["max_seq_length"]) ?? (await sources.sidecars.maxTokens()) ?? USUAL_TOKENS;
  const text = await decideText(facts, sources, notes);
  const config: BertConfig = {
    ...shapes,
    heads,
    epsilon: facts.positive(["layer_norm_eps", "attention.layer_norm_epsilon"]) ?? USUAL_EPSILON,
    activation: decideActivation(facts, at),
    pooling,
    normalize: facts.isFalse(["normalize", "normalize_embeddings"]) ? "none" : "l2",
    maxTokens: Math.min(maxTokens, shapes.positions),
    ...text,
  };
  return { config, notes };
}

/** The one width and depth whose heads are known without being told: MiniLM-L6. Any other guess gives wrong vectors in silence. */
function decideHeads(facts: StatedFacts, { shapes, heads: asked, at }: ConfigSources): number {
  const { hidden, intermediate, layers } = shapes;
  const isMiniLm = hidden === 384 && intermediate === 1536 && layers === 6;
  const said = asked ?? facts.heads() ?? (isMiniLm ? 12 : undefined);
  if (said === undefined) {
    const message = `Cannot tell how many attention heads the model has: nothing says it, and ${hidden} dimensions in ${layers} layers do not show it`;
    throw new UsageError("usage/bert.heads", message, at, {
      hint: "Pass --heads N; config.json of the model has it as num_attention_heads",
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

async function decidePooling(facts: StatedFacts, sources: ConfigSources, notes: string[]): Promise<"mean" | "cls"> {
  const said = facts.pooling() ?? (await sources.sidecars.pooling());
  if (said === "mean" || said === "cls") return said;
  if (said === undefined) {
    notes.push("nothing says how token vectors become one: their mean is taken");
    return "mean";
  }
  const message = `Cannot pool by "${said}": must be mean or cls`;
  throw new UnsupportedError("unsupported/bert.pooling", message, { ...sources.at, path: "pooling" });
}

type DecidedRules = Pick<BertConfig, "lowerCase" | "stripAccents" | "ideographs" | "maxWordLength">;

/** Only what differs from BERT's own rules is kept, beside the case. */
async function decideText(facts: StatedFacts, sources: ConfigSources, notes: string[]): Promise<DecidedRules> {
  const { sidecars, vocabulary, given } = sources;
  const own = mergeTextRules(given?.rules, statedTextRules(facts));
  // Who states the case states the rest: nothing beside the file is read then.
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

/** A vocabulary that has capital letters in words was made from text as it was written. */
function guessCase(vocabulary: Vocabulary | undefined, notes: string[]): "lower" | "keep" {
  const isCased = vocabulary?.tokens.some((token) => /^(##)?[A-Z][a-z]/.test(token)) ?? false;
  if (isCased) notes.push("the vocabulary has words in capital letters: text is not lower-cased");
  return isCased ? "keep" : "lower";
}

/** Where facts are looked for. */
interface FactSources {
  readonly metadata: Metadata;
  readonly sidecars: Sidecars;
  /** Width of the word table. */
  readonly hidden: number;
}

/** EMBD's and Hugging Face's key, and GGUF's. */
const HEADS = ["num_attention_heads", "attention.head_count"] as const;

/** llama.cpp's pooling_type; 0 says that there is none. Those that are not computed here are refused by name. */
const GGML_POOLING: ReadonlyMap<string, string> = new Map([
  ["1", "mean"],
  ["2", "cls"],
  ["3", "last"],
  ["4", "rank"],
]);

/**
 * What a model's metadata and the `config.json` beside it say, under the names that formats use: EMBD's and Hugging
 * Face's own, `architecture` of APR, and GGUF's under the name of the architecture.
 */
export class StatedFacts {
  readonly #metadata: Metadata;
  readonly #architecture: Metadata;
  readonly #prefix: string | undefined;
  readonly #config: JsonNode | undefined;
  /** What the user should know about how the facts were found. */
  readonly notes: readonly string[];

  private constructor(metadata: Metadata, config: JsonNode | undefined, notes: readonly string[]) {
    this.notes = notes;
    const architecture = metadata.get("architecture");
    this.#metadata = metadata;
    this.#architecture = new Metadata(architecture?.type === "map" ? architecture.entries : []);
    this.#prefix = metadata.text("general.architecture");
    this.#config = config;
  }

  /** A `config.json` of another width than the tensors have belongs to another model: it is not used, and a note says so. */
  static async read({ metadata, sidecars, hidden }: FactSources): Promise<StatedFacts> {
    // A file that says its heads itself says the rest too: then nothing beside it is read.
    const own = new StatedFacts(metadata, undefined, []);
    if (own.count(HEADS) !== undefined) return own;
    const config = await sidecars.config();
    const width = numberIn(config, "hidden_size");
    if (width === undefined || width === hidden) return new StatedFacts(metadata, config, []);
    return new StatedFacts(metadata, undefined, [
      `config.json beside the model is not its own: hidden_size is ${width}, the word table has ${hidden} columns`,
    ]);
  }

  /**
   * What the model says it is, where that is no BERT encoder although its tensors are called so: XLM-RoBERTa counts its
   * positions otherwise.
   */
  foreignKind(): string | undefined {
    const type = textOf(this.#architecture.get("model_type")) ?? this.#prefix ?? this.#metadata.text("model_type");
    const own = type === undefined || type === "bert" || type === "unknown" ? undefined : type;
    return own ?? foreignArchitecture(this.#config);
  }

  /** Refuses such a model. */
  checkKind(at: Location): void {
    const kind = this.foreignKind();
    if (kind === undefined) return;
    const message = `Cannot run this model: must be a BERT encoder, found ${kind}`;
    throw new UnsupportedError("unsupported/bert.architecture", message, at);
  }

  heads(): number | undefined {
    return this.count(HEADS);
  }

  /** As metadata states it: a word, or llama.cpp's number for it. */
  pooling(): string | undefined {
    return this.text(["pooling"]) ?? GGML_POOLING.get(this.text(["pooling_type"]) ?? "");
  }

  /** The first of the keys that somebody says, as text: metadata wins over config.json. */
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

  /** Layers, under the names of EMBD, Hugging Face and GGUF. More than 1024 is no model. */
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

/** 1e-12 as a float32 is 9.999999960041972e-13: the fewest digits that still mean the same float32 are what was meant. */
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
