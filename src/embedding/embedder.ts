import { UnsupportedError } from "../base/errors.ts";
import type { Resolver } from "../bytes/resolver.ts";
import { readersOf } from "../formats/registry.ts";
import { type BertModel, readBertModel } from "../model/bert/model.ts";
import type { Vocabulary } from "../model/bert/vocabulary.ts";
import type { EncodedValue, MetadataValue } from "../model/metadata.ts";
import type { Model } from "../model/model.ts";
import { takeOrigin } from "../model/origin.ts";
import { createEncoder, type EmbedOptions, type Encoder, type EncoderOptions } from "./encoder/encoder.ts";
import type { KernelKind, Precision } from "./encoder/shape.ts";
import { createTokenizer, type Tokenizer } from "./tokenizer/tokenizer.ts";

export interface EmbedderOptions extends Omit<EncoderOptions, "padding"> {
  /** Attention heads, where the model does not say. */
  readonly heads?: number | undefined;
  /** Reaches the files beside the model: config.json, tokenizer.json, vocab.txt, 1_Pooling/config.json. */
  readonly resolver?: Resolver | undefined;
  /** Used instead of what the model or its siblings have. */
  readonly vocabulary?: Vocabulary | undefined;
  /** Instead of what the model says: "none" leaves pooled vectors as long as they are. */
  readonly normalize?: "l2" | "none" | undefined;
  readonly pooling?: "mean" | "cls" | undefined;
  /** Repeats what that library computes, faults included, instead of what the model was trained for. */
  readonly compat?: "cpp_embedder" | undefined;
  /** Called when the embedder is closed, after its threads ended: closes the model, for one. */
  readonly onClose?: (() => Promise<void>) | undefined;
}

/** Sentences to vectors. */
export interface Embedder {
  readonly dimension: number;
  readonly kernel: KernelKind;
  readonly precision: Precision;
  /** Tokens a text is cut to, [CLS] and [SEP] included. */
  readonly maxTokens: number;
  readonly tokenizer: Tokenizer;
  /** What had to be assumed because nothing says it. */
  readonly notes: readonly string[];
  /** One vector for each text, in their order; each is what it would be alone. */
  embed(texts: readonly string[], options?: EmbedOptions): Promise<Float32Array<ArrayBuffer>[]>;
  /** The same for token ids, [CLS] and [SEP] included. */
  embedTokens(batch: readonly Int32Array[], options?: EmbedOptions): Promise<Float32Array<ArrayBuffer>[]>;
  /** Ends threads. A model that was given opened is left open, and must be open until then. */
  close(): Promise<void>;
}

/** cpp_embedder pads every text to this many tokens where nobody says otherwise. */
const COMPAT_TOKENS = 256;

/**
 * Makes an embedder of an opened model. Throws `unsupported/embed.vocabulary` where there is none, and what
 * `readBertModel` throws for models that are no BERT encoders.
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

/** What another format's writer carried in `tare.origin` is in that format's encoding. */
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
          // Its own, whatever the model says: tanh, 1e-5 and mean pooling are in its code.
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
    hint: "Put its vocab.txt or tokenizer.json beside it, or name one with --vocab",
  });
}

interface EmbedderParts extends Pick<EmbedderOptions, "onClose"> {
  readonly tokenizer: Tokenizer;
  readonly encoder: Encoder;
  readonly notes: readonly string[];
}

class TextEmbedder implements Embedder {
  readonly tokenizer: Tokenizer;
  readonly notes: readonly string[];
  readonly #encoder: Encoder;
  readonly #onClose: (() => Promise<void>) | undefined;

  constructor({ tokenizer, encoder, notes, onClose }: EmbedderParts) {
    this.tokenizer = tokenizer;
    this.notes = notes;
    this.#encoder = encoder;
    this.#onClose = onClose;
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

  async embed(texts: readonly string[], options?: EmbedOptions): Promise<Float32Array<ArrayBuffer>[]> {
    const batch = texts.map((text) => this.tokenizer.encode(text, this.maxTokens));
    return this.#encoder.embed(batch, options);
  }

  embedTokens(batch: readonly Int32Array[], options?: EmbedOptions): Promise<Float32Array<ArrayBuffer>[]> {
    return this.#encoder.embed(batch, options);
  }

  async close(): Promise<void> {
    await this.#encoder.close();
    await this.#onClose?.();
  }
}
