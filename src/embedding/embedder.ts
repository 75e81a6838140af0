/// <reference lib="esnext.disposable" preserve="true" />
import { UnsupportedError } from "../base/errors.ts";
import type { Resolver } from "../bytes/resolver.ts";
import { readersOf } from "../formats/registry.ts";
import { type BertModel, readBertModel } from "../model/bert/model.ts";
import type { Vocabulary } from "../model/bert/vocabulary.ts";
import type { EncodedValue, MetadataValue } from "../model/metadata.ts";
import type { Model } from "../model/model.ts";
import { takeOrigin } from "../model/origin/origin.ts";
import { createEncoder, type EmbedCallOptions, type Encoder, type EncoderOptions } from "./encoder/encoder.ts";
import type { KernelKind, Precision } from "./encoder/shape.ts";
import { createTokenizer, type Tokenizer } from "./tokenizer/tokenizer.ts";

export interface EmbedderOptions extends Omit<EncoderOptions, "padding"> {
  /** Attention heads, if the model does not say. */
  readonly heads?: number | undefined;
  /** Opens the files beside the model: config.json, tokenizer.json, vocab.txt, 1_Pooling/config.json. */
  readonly resolver?: Resolver | undefined;
  /** Replaces the vocabulary of the model or its siblings. */
  readonly vocabulary?: Vocabulary | undefined;
  /** Replaces the setting of the model. "none" leaves the length of pooled vectors as it is. */
  readonly normalize?: "l2" | "none" | undefined;
  readonly pooling?: "mean" | "cls" | undefined;
  /** Computes what that library does, with its faults, instead of what the model was trained for. */
  readonly compat?: "cpp_embedder" | undefined;
  /** Called when the embedder is closed, after its threads ended. For example, it closes the model. */
  readonly onClose?: (() => Promise<void>) | undefined;
}

/** Sentences to vectors. `await using` closes it. */
export interface Embedder extends AsyncDisposable {
  readonly dimension: number;
  readonly kernel: KernelKind;
  readonly precision: Precision;
  /** Texts are cut to this many tokens, including [CLS] and [SEP]. */
  readonly maxTokens: number;
  readonly tokenizer: Tokenizer;
  /** Assumptions about settings that the model does not state; since a text was cut, also how many were. */
  readonly notes: readonly string[];
  /** One vector for each text, in their order. Other texts of the batch do not change it. */
  embed(texts: readonly string[], options?: EmbedCallOptions): Promise<Float32Array<ArrayBuffer>[]>;
  /** The same for token ids, including [CLS] and [SEP]. */
  embedTokens(batch: readonly Int32Array[], options?: EmbedCallOptions): Promise<Float32Array<ArrayBuffer>[]>;
  /** Ends threads; allowed twice. The caller's model stays open, and must be open until then. */
  close(): Promise<void>;
}

/** cpp_embedder pads every text to this many tokens by default. */
const COMPAT_TOKENS = 256;

/**
 * Makes an embedder of an opened model. Throws `unsupported/embed.vocabulary` if there is no vocabulary, and the errors
 * of `readBertModel` for models that are not BERT encoders.
 */
export async function loadEmbedder(model: Model, options: EmbedderOptions = {}): Promise<Embedder> {
  const { heads, resolver, vocabulary, signal } = options;
  const decodeValue = await carriedValues(model);
  const read = await readBertModel(model, { heads, resolver, vocabulary, signal, decodeValue });
  const bert = withSettings(read, options);
  if (bert.vocabulary === undefined) throw noVocabulary(model);
  const tokenizer = createTokenizer(bert.vocabulary, {
    mode: options.compat ?? "bert",
    lowerCase: bert.config.lowerCase,
    accents: bert.config.stripAccents,
    ideographs: bert.config.ideographs,
    maxWordLength: bert.config.maxWordLength,
  });
  const { pad } = bert.vocabulary.special;
  const padding = options.compat === undefined ? undefined : { id: pad, tokens: bert.config.maxTokens };
  const encoder = await createEncoder(bert, { ...options, maxTokens: bert.config.maxTokens, padding });
  return new TextEmbedder({ tokenizer, encoder, notes: bert.notes, onClose: options.onClose });
}

/** Decodes values that another format's writer carried in `tare.origin`, in that format's encoding. */
async function carriedValues(model: Model): Promise<(encoded: EncodedValue) => MetadataValue | undefined> {
  const chain = takeOrigin(model.metadata).origin?.chain ?? [];
  const formats = await readersOf(chain.map(({ format }) => format));
  return (encoded) => {
    for (const format of formats) {
      const value = format.decodeValue?.(encoded);
      if (value !== undefined) return value;
    }
    return undefined;
  };
}

function withSettings(bert: BertModel, options: EmbedderOptions): BertModel {
  const { config } = bert;
  const compat =
    options.compat === undefined
      ? {}
      : {
          // The library's own values, whatever the model says: tanh, 1e-5 and mean pooling are in its code.
          activation: "gelu_tanh" as const,
          epsilon: 1e-5,
          pooling: "mean" as const,
          maxTokens: Math.min(COMPAT_TOKENS, config.positions),
        };
  const chosen = { ...config, ...compat };
  const changed = {
    ...chosen,
    normalize: options.normalize ?? chosen.normalize,
    pooling: options.pooling ?? chosen.pooling,
    maxTokens: options.maxTokens ?? chosen.maxTokens,
  };
  const { vocabulary, notes } = bert;
  const tensor = (name: string) => bert.tensor(name);
  return { config: changed, vocabulary, notes, tensor, has: (name) => bert.has(name) };
}

function noVocabulary(model: Model): UnsupportedError {
  const at = { source: model.parts[0]?.label ?? model.format };
  return new UnsupportedError("unsupported/embed.vocabulary", "Cannot embed text: the model has no vocabulary", at, {
    hint: "Put its vocab.txt or tokenizer.json beside it, or name one with the option vocab",
  });
}

interface EmbedderParts extends Pick<EmbedderOptions, "onClose"> {
  readonly tokenizer: Tokenizer;
  readonly encoder: Encoder;
  readonly notes: readonly string[];
}

/** A character becomes at most three tokens: a Hangul syllable is three jamo. */
const MOST_TOKENS = 3;

/** Counts the texts that are longer than an embedder reads. */
export class CutTexts {
  readonly #maxTokens: number;
  #texts = 0;
  #cut = 0;

  constructor(maxTokens: number) {
    this.#maxTokens = maxTokens;
  }

  /** The ids of a text, after it was counted. */
  encode(text: string, tokenizer: Tokenizer): Int32Array<ArrayBuffer> {
    const most = this.#maxTokens;
    this.#texts++;
    if (text.length * MOST_TOKENS <= most - 2) return tokenizer.encode(text, most);
    const ids = tokenizer.encode(text, most + 1);
    if (ids.length <= most) return ids;
    this.#cut++;
    return tokenizer.encode(text, most);
  }

  get notes(): readonly string[] {
    if (this.#cut === 0) return [];
    const which = `${this.#cut} of ${this.#texts} ${this.#texts === 1 ? "text" : "texts"}`;
    return [`${which} ${this.#cut === 1 ? "has" : "have"} more than ${this.#maxTokens} tokens and lost the end`];
  }
}

class TextEmbedder implements Embedder {
  readonly tokenizer: Tokenizer;
  readonly #assumed: readonly string[];
  readonly #cut: CutTexts;
  readonly #encoder: Encoder;
  readonly #onClose: (() => Promise<void>) | undefined;
  #closing: Promise<void> | undefined;

  constructor({ tokenizer, encoder, notes, onClose }: EmbedderParts) {
    this.tokenizer = tokenizer;
    this.#assumed = notes;
    this.#cut = new CutTexts(encoder.maxTokens);
    this.#encoder = encoder;
    this.#onClose = onClose;
  }

  get notes(): readonly string[] {
    return [...this.#assumed, ...this.#cut.notes];
  }

  get dimension(): number {
    return this.#encoder.dimension;
  }

  get kernel(): KernelKind {
    return this.#encoder.kernel;
  }

  get precision(): Precision {
    return this.#encoder.precision;
  }

  get maxTokens(): number {
    return this.#encoder.maxTokens;
  }

  async embed(texts: readonly string[], options?: EmbedCallOptions): Promise<Float32Array<ArrayBuffer>[]> {
    const batch = texts.map((text) => this.#cut.encode(text, this.tokenizer));
    return this.#encoder.embed(batch, options);
  }

  embedTokens(batch: readonly Int32Array[], options?: EmbedCallOptions): Promise<Float32Array<ArrayBuffer>[]> {
    return this.#encoder.embed(batch, options);
  }

  close(): Promise<void> {
    this.#closing ??= this.#end();
    return this.#closing;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #end(): Promise<void> {
    await this.#encoder.close();
    await this.#onClose?.();
  }
}
