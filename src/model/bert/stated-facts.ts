import type { Location } from "../../base/errors.ts";
import { UnsupportedError } from "../../base/errors.ts";
import type { JsonNode } from "../../struct/strict-json.ts";
import { Metadata, type MetadataValue } from "../metadata.ts";
import { member, numberIn } from "./json-members.ts";
import { foreignArchitecture, type Sidecars } from "./sidecars.ts";

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
