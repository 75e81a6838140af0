import type { BertShapes } from "../../model/bert/bert-shapes.ts";
import type { Sidecars } from "../../model/bert/sidecars.ts";
import type { StatedFacts } from "../../model/bert/stated-facts.ts";
import { mergeTextRules, statedTextRules, textRuleEntries } from "../../model/bert/text-rules.ts";
import type { Vocabulary } from "../../model/bert/vocabulary.ts";

/** What the metadata of a new file is made from. */
export interface FactSources {
  readonly facts: StatedFacts;
  readonly sidecars: Sidecars;
  /** Undefined where tensors were left out, so that shapes say nothing. */
  readonly shapes: BertShapes | undefined;
  /** The vocabulary that the user named. */
  readonly given: Vocabulary | undefined;
  /** Of the output: "model.weights". */
  readonly name: string;
}

/** The spec's example, for models that have no version: the key is required and of the form 1.2.3. */
const FIRST_VERSION = "1.0.0";

/**
 * The keys that the EMBD specification requires, in its order, and those by which an embedder knows how to use the
 * model. `created_at` is not among them, so that the same input gives the same file; heads that nobody states are not.
 */
export async function modelFacts(sources: FactSources): Promise<readonly (readonly [string, string])[]> {
  const { facts, shapes, sidecars, given } = sources;
  const number = (value: number | undefined): string | undefined => (value === undefined ? undefined : String(value));
  const isMiniLm = shapes?.hidden === 384 && shapes.intermediate === 1536 && shapes.layers === 6;
  const heads = number(facts.heads() ?? (isMiniLm ? 12 : undefined));
  const rules = mergeTextRules(given?.rules, statedTextRules(facts), await sidecars.textRules());
  const all: readonly (readonly [string, string | undefined])[] = [
    ["model_name", modelName(sources)],
    ["model_version", FIRST_VERSION],
    ["embedding_dim", number(shapes?.hidden)],
    ["vocab_size", number(shapes?.vocabularySize)],
    ["num_layers", number(shapes?.layers)],
    ["num_attention_heads", heads],
    ["hidden_size", number(shapes?.hidden)],
    ["intermediate_size", number(shapes?.intermediate)],
    ["max_position_emb", number(shapes?.positions)],
    ["layer_norm_eps", facts.text(["layer_norm_eps", "attention.layer_norm_epsilon"])],
    ["hidden_act", facts.text(["hidden_act"])],
    ["pooling", facts.pooling() ?? (await sidecars.pooling())],
    ["max_seq_length", facts.text(["max_seq_length"]) ?? number(await sidecars.maxTokens())],
    ...textRuleEntries(rules),
  ];
  return all.filter((entry): entry is readonly [string, string] => entry[1] !== undefined);
}

/** Where the model says its name: GGUF's key, the repository that a configuration names, else the output's own. */
function modelName({ facts, name }: FactSources): string {
  const said = facts.text(["general.name", "_name_or_path"])?.replace(/[\\/]+$/, "");
  const last = said?.split(/[\\/]/).at(-1);
  return last === undefined || last === "" ? name.replace(/\.weights$/i, "") : last;
}
