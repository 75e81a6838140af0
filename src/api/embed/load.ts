import { type Embedder, loadEmbedder as embedderOf } from "../../embedding/embedder.ts";
import type { KernelKind, Precision } from "../../embedding/encoder/shape.ts";
import { checkSource } from "../../operations/convert/source-check.ts";
import { doubtsOf } from "../../operations/reading/trust.ts";
import { type Request, requestOf, type VerbHost, warnOf } from "../host.ts";
import { provesDamage, readVocabulary } from "../input-use.ts";
import { type Input, openInput } from "../inputs.ts";
import { modelOf } from "../open/index.ts";
import {
  COMMON_RULES,
  type CommonOptions,
  choiceRule,
  inputRule,
  integerRule,
  type OptionRules,
  switchRule,
} from "../options.ts";

/** What `embed` and `loadEmbedder` say about the model. */
export interface EncodingOptions {
  /** Attention heads, where the model does not say. */
  readonly heads?: number | undefined;
  /** Cuts texts to this many tokens. */
  readonly maxLength?: number | undefined;
  /** False leaves the length of the vectors as it is. If absent, as the model says. */
  readonly normalize?: boolean | undefined;
  /** A vocab.txt or tokenizer.json to use in place of the model's. */
  readonly vocab?: Input | undefined;
  /** Repeats what that library computes, with its faults. */
  readonly compat?: "cpp_embedder" | undefined;
}

/** Options of `loadEmbedder`. */
export interface EmbedderOptions extends CommonOptions, EncodingOptions {
  /** If absent, the fastest that runs here. */
  readonly kernel?: KernelKind | "auto" | undefined;
  /** If absent, int8 for models whose weights are I8, float for all others. */
  readonly precision?: Precision | "auto" | undefined;
  /** If absent, as the model says. */
  readonly pooling?: "mean" | "cls" | undefined;
  /** `tare/node` only. Threads for large batches; if absent, as many as there are cores, up to eight. */
  readonly threads?: number | undefined;
}

export const ENCODING_RULES = {
  heads: integerRule(1, 4096),
  maxLength: integerRule(2, 1_000_000),
  normalize: switchRule,
  vocab: inputRule,
  compat: choiceRule("cpp_embedder"),
} as const satisfies OptionRules;

const RULES: OptionRules = {
  ...COMMON_RULES,
  ...ENCODING_RULES,
  kernel: choiceRule("auto", "relaxed", "simd", "scalar"),
  precision: choiceRule("auto", "float", "int8"),
  pooling: choiceRule("mean", "cls"),
  threads: integerRule(1, 1024),
};

/** For more than one call: the model is loaded once. */
export async function loadEmbedder(host: VerbHost, weights: Input, options: EmbedderOptions = {}): Promise<Embedder> {
  const request = await requestOf(host, "loadEmbedder", options, RULES);
  return (await loadFor(host, weights, request)).embedder;
}

export interface LoadedEmbedder {
  readonly embedder: Embedder;
  /** The model as the user named it, without credentials. */
  readonly label: string;
}

/** Opens the weights, refuses damaged ones, and makes an embedder that closes what was opened. */
export async function loadFor(
  host: VerbHost,
  weights: Input,
  request: Request<EmbedderOptions>,
): Promise<LoadedEmbedder> {
  const { heads, maxLength, normalize, compat, kernel, precision, pooling, threads, signal, onNote } = request;
  // A vocabulary is small: what is wrong with it is told before a large model is read.
  const vocabulary = request.vocab === undefined ? undefined : await readVocabulary(host, request.vocab, request);
  const opened = await openInput(host, weights, request);
  const model = await modelOf(opened);
  try {
    const runner = await host.embedding?.runner(threads ?? request.concurrency);
    const loading = embedderOf(model, {
      heads,
      vocabulary,
      compat,
      kernel,
      precision,
      pooling,
      signal,
      runner,
      maxTokens: maxLength,
      normalize: normalize === undefined ? undefined : normalize ? "l2" : "none",
      resolver: opened.siblings,
      onClose: () => opened.close(),
    });
    // Another thread computes the checksums meanwhile.
    const warn = warnOf(host, request);
    const checking = checkSource(opened, {
      engine: request.engine,
      limits: request.limits ?? {},
      signal,
      damage: "refuse",
      hint: "Get the file again; see what is damaged with: tare verify",
      onWarning: ({ message, code }) => warn(`${message} [${code}]`),
    });
    const [made, checked] = await Promise.allSettled([loading, checking]);
    if (checked.status === "rejected" || made.status === "rejected") {
      if (made.status === "fulfilled") await made.value.close();
      else await runner?.close();
      throw made.status === "rejected" ? made.reason : (checked as PromiseRejectedResult).reason;
    }
    for (const text of doubtsOf(model)) warn(text);
    for (const { message } of opened.notes) onNote?.(message);
    for (const note of made.value.notes) onNote?.(note);
    return { embedder: made.value, label: opened.label };
  } catch (error) {
    await (provesDamage(error) ? opened.distrust() : opened.close());
    throw error;
  }
}
