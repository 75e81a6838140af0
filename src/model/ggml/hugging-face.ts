import type { Bytes } from "../../base/bytes.ts";
import { UnsupportedError } from "../../base/errors.ts";
import { ComputedSource } from "../../bytes/derived.ts";
import { checkRange } from "../../bytes/extents.ts";
import type { ReadOptions, Source } from "../../bytes/source.ts";
import { canonicalBertName } from "../bert/names.ts";
import { dtypeFacts, formatShape } from "../dtype.ts";
import type { Loss } from "../finding.ts";
import { Tensor } from "../tensor.ts";
import { convertToFloat32, FloatSource } from "../values/numbers.ts";
import { type ConvertedModel, checkHeads, checkLayers, refusal, statedCount } from "./layers-and-heads.ts";
import { checkShapes } from "./stated-shapes.ts";

export interface Checkpoint {
  readonly tensors: readonly Tensor[];
  /** Tensors that checkpoints have no place for. */
  readonly losses: readonly Loss[];
}

/**
 * The model as a Hugging Face checkpoint: names and values. llama.cpp's converter changes the values of some
 * architectures, so renaming alone would make a checkpoint that computes something else. A model that we do not know
 * how to restore is refused before anything is written. A model that already has the names of checkpoints is returned
 * as it is.
 */
export function huggingFaceCheckpoint(model: ConvertedModel): Checkpoint {
  const { metadata, tensors, names } = model;
  const architecture = metadata.text(ARCHITECTURE);
  if (architecture === undefined) {
    const foreign = [...names].find((name) => GGML_NAME.test(name));
    if (foreign === undefined) return { tensors, losses: [] };
    throw refusal(model, `"${foreign}" is a name of llama.cpp, but no ${ARCHITECTURE} says what its converter did`);
  }
  const rules = Object.hasOwn(ARCHITECTURES, architecture) ? ARCHITECTURES[architecture] : undefined;
  if (rules === undefined) {
    const known = Object.keys(ARCHITECTURES).join(", ");
    throw refusal(model, `what llama.cpp's converter does to "${architecture}" is not known; known are ${known}`);
  }
  const kind = metadata.text("general.type");
  if (kind !== undefined && kind !== "model") throw refusal(model, `it is no model but of general.type "${kind}"`);
  const ggml = [...names].filter((name) => rules.rename(name) !== undefined || name === ROPE_FACTORS);
  const unknown = [...names].filter((name) => rules.rename(name) === undefined && name !== ROPE_FACTORS);
  if (ggml.length === 0 && unknown.every((name) => rules.isCheckpoint(name))) return { tensors, losses: [] };
  // Only the tensors that are taken need a name. But a name that is already a checkpoint's shows that half of the model
  // was renamed.
  const taken = new Set(tensors.map(({ name }) => name));
  const odd = unknown.filter((name) => taken.has(name) || rules.isCheckpoint(name));
  if (odd.length > 0) throw refusal(model, `${listed(odd)} of a "${architecture}" model has no known counterpart`);
  checkLayers(model, architecture, ggml);
  checkHeads(model, architecture);
  checkShapes(model, architecture);
  return undone(model, rules.prepare(model), rules);
}

/** Restores the checkpoint's values of one tensor; returns the tensor itself if they did not change. */
type Undo = (tensor: Tensor, name: string) => Tensor;

interface ArchitectureRules {
  /** The checkpoint's name for one of llama.cpp's. */
  rename(name: string): string | undefined;
  /** True for the names that checkpoints have. */
  isCheckpoint(name: string): boolean;
  /** Checks what restoring needs to know of the whole model, and gives the function for each tensor. */
  prepare(model: ConvertedModel): Undo;
}

function undone({ tensors }: ConvertedModel, undo: Undo, { rename }: ArchitectureRules): Checkpoint {
  const losses: Loss[] = [];
  const kept = tensors.flatMap((tensor) => {
    const name = rename(tensor.name);
    if (name !== undefined) return [undo(tensor, tensor.name).with({ name })];
    losses.push({ name: tensor.name, reason: "checkpoints have no such tensor: config.json says it as rope_scaling" });
    return [];
  });
  return { tensors: kept, losses };
}

const ARCHITECTURE = "general.architecture";

/** Factors that the converter computes from rope_scaling of config.json. */
const ROPE_FACTORS = "rope_freqs.weight";

/** Names that only llama.cpp gives, for any architecture. */
const GGML_NAME =
  /(?:^|\.)blk\.\d|^(?:token_embd|token_embd_norm|token_types|position_embd|output|output_norm|rope_freqs|rope_factors_long|rope_factors_short)(?:\.|$)/;

/** llama.cpp's names for the tensors that a decoder has once, without ".weight". */
const WHOLE = {
  token_embd: "model.embed_tokens",
  output_norm: "model.norm",
  output: "lm_head",
};

/**
 * llama.cpp's names for the parts of "blk.N.", which is "model.layers.N." in checkpoints. These may also have a bias.
 */
const LINEAR = {
  attn_q: "self_attn.q_proj",
  attn_k: "self_attn.k_proj",
  attn_v: "self_attn.v_proj",
  attn_output: "self_attn.o_proj",
  ffn_gate: "mlp.gate_proj",
  ffn_up: "mlp.up_proj",
  ffn_down: "mlp.down_proj",
};

const TWO_NORMS = { attn_norm: "input_layernorm", ffn_norm: "post_attention_layernorm" };
/** "ffn_norm" is in both tables, for different norms: Gemma has one norm before and one after each half of a layer. */
const FOUR_NORMS = {
  attn_norm: "input_layernorm",
  post_attention_norm: "post_attention_layernorm",
  ffn_norm: "pre_feedforward_layernorm",
  post_ffw_norm: "post_feedforward_layernorm",
};
const HEAD_NORMS = { attn_q_norm: "self_attn.q_norm", attn_k_norm: "self_attn.k_norm" };

const asTheyAre = (): Undo => (tensor) => tensor;

/** Gemma's RMSNorm multiplies with the weight plus one; the converter adds that one (conversion/gemma.py). */
const normsLessOne = (): Undo => (tensor, name) => (name.endsWith("norm.weight") ? lessOne(tensor) : tensor);

/** The architectures whose conversion is proven, by llama.cpp's names. */
const ARCHITECTURES: Readonly<Record<string, ArchitectureRules>> = {
  llama: decoder(TWO_NORMS, rowsUnpaired),
  qwen2: decoder(TWO_NORMS, asTheyAre),
  qwen3: decoder({ ...TWO_NORMS, ...HEAD_NORMS }, asTheyAre),
  gemma: decoder(TWO_NORMS, normsLessOne),
  gemma2: decoder(FOUR_NORMS, normsLessOne),
  gemma3: decoder({ ...FOUR_NORMS, ...HEAD_NORMS }, normsLessOne),
  bert: { rename: ggmlBertName, isCheckpoint: (name) => canonicalBertName(name) === name, prepare: ofWordPieces },
};

function decoder(norms: Readonly<Record<string, string>>, prepare: (model: ConvertedModel) => Undo): ArchitectureRules {
  const parts = new Map(Object.entries({ ...LINEAR, ...norms }));
  const whole = new Map(Object.entries(WHOLE));
  const theirParts = new Set(parts.values());
  const theirWhole = new Set(whole.values());
  const known = (part: string, kind: string, table: { has(part: string): boolean }): boolean =>
    table.has(part) && (kind === "weight" || Object.hasOwn(LINEAR, part) || Object.values(LINEAR).includes(part));
  return {
    rename: (name) => {
      const [, layer, part = "", kind = ""] = /^(?:blk\.(0|[1-9]\d{0,3})\.)?([a-z_]+)\.(weight|bias)$/.exec(name) ?? [];
      const table = layer === undefined ? whole : parts;
      if (!known(part, kind, table)) return undefined;
      return `${layer === undefined ? "" : `model.layers.${layer}.`}${table.get(part)}.${kind}`;
    },
    isCheckpoint: (name) => {
      const [, layer, part = "", kind = ""] = /^(?:model\.layers\.(\d+)\.)?(.+)\.(weight|bias)$/.exec(name) ?? [];
      return known(part, kind, layer === undefined ? theirWhole : theirParts);
    },
    prepare,
  };
}

/**
 * For "llama" the converter puts pairs of rows of q and k next to each other, head by head (conversion/llama.py,
 * permute).
 */
function rowsUnpaired(model: ConvertedModel): Undo {
  const heads = statedCount(model, "llama.attention.head_count");
  if (heads === undefined) throw refusal(model, "no llama.attention.head_count says how its rows were put in order");
  // If nothing is stated, every head has its own keys and values.
  const kvHeads = statedCount(model, "llama.attention.head_count_kv") ?? heads;
  // The converter states the length of a head twice, and permutes the whole head. If the two differ, something else was
  // done.
  const stated = ["llama.attention.key_length", "llama.rope.dimension_count"].map((key) => statedCount(model, key));
  return (tensor, name) => {
    const part = /\.attn_([qk])\.(?:weight|bias)$/.exec(name)?.[1];
    if (part === undefined) return tensor;
    const count = part === "q" ? heads : kvHeads;
    const rows = (tensor.shape[0] ?? 0) / count;
    if (stated.some((length) => length !== undefined && length !== rows)) {
      throw refusal(model, `"${name}" has ${rows} rows a head, which is not what the metadata says`, name);
    }
    return unpairedRows(tensor, count);
  };
}

function ggmlBertName(name: string): string | undefined {
  if (!GGML_NAME.test(name) || !/\.(weight|bias)$/.test(name)) return undefined;
  return canonicalBertName(name);
}

/**
 * The converter also writes "bert" for DistilBERT, whose checkpoints have other names and no token types, and for
 * RoBERTa, whose position table it cuts. Those have other tokenizers (conversion/bert.py).
 */
function ofWordPieces(model: ConvertedModel): Undo {
  const { metadata, names } = model;
  if (metadata.text("tokenizer.ggml.model") !== "bert") {
    throw refusal(model, "its tokenizer is not BERT's, so its position table may not be the checkpoint's");
  }
  if (!names.has("token_types.weight")) {
    throw refusal(model, "it has no token types, so its checkpoint may have the names of DistilBERT");
  }
  return (tensor) => tensor;
}

function listed(names: readonly string[]): string {
  const shown = names.slice(0, 3).map((name) => `"${name}"`);
  return names.length > 3 ? `${shown.join(", ")} and ${names.length - 3} more` : shown.join(", ");
}

/** The functions below undo what llama.cpp's converter does to the values of a checkpoint, when the values are read. */

/**
 * The rows of an attention projection in the order of the checkpoint. Rotary embeddings rotate pairs of rows. llama.cpp
 * keeps the two rows of a pair next to each other; checkpoints keep the first rows of all pairs of a head before the
 * second ones. Rows move as a whole, so blocks of quantised values stay unchanged.
 */
function unpairedRows(tensor: Tensor, heads: number): Tensor {
  const { name, dtype, shape, byteLength, offset, storedByteLength, file } = tensor;
  const [rows = 0] = shape;
  const facts = dtypeFacts(dtype);
  const isWhole =
    facts.layout === "plain"
      ? facts.bits % 8 === 0
      : facts.layout === "block" && shape.length === 2 && (shape.at(-1) ?? 0) % facts.blockElements === 0;
  const headRows = rows / heads;
  if (!isWhole || shape.length < 1 || shape.length > 2 || headRows % 2 !== 0 || headRows === 0) {
    throw undoRefusal(tensor, `its ${dtype} ${formatShape(shape)} is not made of ${heads} heads with pairs of rows`);
  }
  if (byteLength === 0) return tensor;
  const order = { rowBytes: byteLength / rows, headRows };
  if (order.rowBytes * headRows > MAX_HEAD_BYTES)
    throw undoRefusal(tensor, "a head is too large to put its rows in order");
  const turned = { name, dtype, shape, byteLength, offset, storedByteLength, file };
  return new Tensor(turned, { source: () => new UnpairedSource(tensor.source(), order) });
}

/** Norms as Gemma's checkpoints hold them: the difference from one. As F32, so that nothing more is rounded. */
function lessOne(tensor: Tensor): Tensor {
  const { name, dtype, shape, offset, storedByteLength, file, elementCount } = tensor;
  if (dtype !== "F32" && dtype !== "F16" && dtype !== "BF16")
    throw undoRefusal(tensor, `one cannot be taken from ${dtype}`);
  const facts = { name, dtype: "F32" as const, shape, byteLength: 4 * elementCount, offset, storedByteLength, file };
  return new Tensor(facts, { source: () => new LessOneSource(tensor) });
}

/** The longest head that is held in memory to reorder its rows; 256 rows of 16,384 floats are a quarter of it. */
const MAX_HEAD_BYTES = 64 << 20;
/** Heads are read together up to this length. */
const READ_BYTES = 4 << 20;

interface RowOrder {
  readonly rowBytes: number;
  readonly headRows: number;
}

class UnpairedSource extends ComputedSource {
  readonly #inner: Source;
  readonly #order: RowOrder;
  readonly #unitBytes: number;
  /** The heads that were reordered last: copying reads pieces of them one after the other. */
  #held: { readonly start: number; readonly bytes: Bytes } | undefined;

  constructor(inner: Source, order: RowOrder) {
    const headBytes = order.rowBytes * order.headRows;
    const unitBytes = headBytes * Math.max(1, Math.floor(READ_BYTES / headBytes));
    super({ label: inner.label, byteLength: inner.byteLength, pieceBytes: unitBytes });
    this.#inner = inner;
    this.#order = order;
    this.#unitBytes = unitBytes;
  }

  async read(offset: number, byteLength: number, options: ReadOptions = {}): Promise<Bytes> {
    checkRange(this.label, this.byteLength, offset, byteLength);
    const result = options.into ?? new Uint8Array(byteLength);
    const end = offset + byteLength;
    for (let position = offset; position < end; ) {
      const start = position - (position % this.#unitBytes);
      const unit = await this.#unit(start, options.signal);
      const piece = unit.subarray(position - start, Math.min(unit.byteLength, end - start));
      result.set(piece, position - offset);
      position += piece.byteLength;
    }
    return result;
  }

  async #unit(start: number, signal: AbortSignal | undefined): Promise<Bytes> {
    if (this.#held?.start === start) return this.#held.bytes;
    const byteLength = Math.min(this.#unitBytes, this.byteLength - start);
    const bytes = unpair(await this.#inner.read(start, byteLength, { signal }), this.#order);
    this.#held = { start, bytes };
    return bytes;
  }
}

/** Row 2j + s of a head becomes its row s · (rows / 2) + j. */
function unpair(stored: Bytes, { rowBytes, headRows }: RowOrder): Bytes {
  const ordered = new Uint8Array(stored.byteLength);
  const half = headRows / 2;
  for (let row = 0; row * rowBytes < stored.byteLength; row++) {
    const within = row % headRows;
    const place = row - within + (within % 2) * half + Math.floor(within / 2);
    ordered.set(stored.subarray(row * rowBytes, (row + 1) * rowBytes), place * rowBytes);
  }
  return ordered;
}

class LessOneSource extends FloatSource {
  readonly #tensor: Tensor;
  readonly #inner: Source;

  constructor(tensor: Tensor) {
    const inner = tensor.source();
    super({ label: inner.label, elementCount: tensor.elementCount });
    this.#tensor = tensor;
    this.#inner = inner;
  }

  protected async values(
    first: number,
    last: number,
    signal: AbortSignal | undefined,
  ): Promise<Float32Array<ArrayBuffer>> {
    const { dtype, name } = this.#tensor;
    const itemBytes = dtype === "F32" ? 4 : 2;
    const bytes = await this.#inner.read(first * itemBytes, (last - first) * itemBytes, { signal });
    const values = convertToFloat32(dtype, bytes, { source: this.label, path: name });
    for (let i = 0; i < values.length; i++) values[i] = (values[i] as number) - 1;
    return values;
  }
}

function undoRefusal({ name, file }: Tensor, why: string): UnsupportedError {
  const message = `Cannot make "${name}" what the checkpoint has: ${why}`;
  return new UnsupportedError("unsupported/rename", message, { source: file ?? name, path: name });
}
