import { UsageError } from "../../base/errors.ts";
import { printable } from "../../base/text.ts";
import type { AnyCase } from "../../model/dtype.ts";
import type { Opened } from "../../model/format.ts";
import type { Tensor } from "../../model/tensor.ts";
import { castTensor, type FloatTarget, type OnUnfit } from "../../model/values/casts.ts";
import { wasGguf } from "../../operations/convert.ts";
import type { QuantError } from "../../operations/quantize/tally.ts";
import { isBlockType, keptReason, quantizeTensor } from "../../operations/quantize.ts";
import { matchesAny } from "../../operations/reading/glob.ts";
import type { Engine } from "../../primitives/engine.ts";
import type { QuantType as BlockType } from "../../primitives/quant/quantizer.ts";

/** Block types that can be written, as people type them. */
export const QUANT_TYPES = ["q8_0", "q4_0", "q4_1", "q5_0", "q5_1"] as const;
export type QuantType = AnyCase<(typeof QUANT_TYPES)[number]>;

/** The types that floats can be rounded to, as people type them. */
export const FLOAT_TYPES = ["f32", "f16", "bf16"] as const;
export type FloatType = AnyCase<(typeof FLOAT_TYPES)[number]>;

export function floatTarget(type: FloatType): FloatTarget {
  return type.toUpperCase() as FloatTarget;
}

/** Converts blocks to floats; tensors that are not quantised, or that match `keep`, stay as they are. */
export function dequantizing(
  type: FloatType,
  keep: readonly string[] = [],
): (tensor: Tensor, onUnfit?: OnUnfit | undefined) => Tensor {
  return (tensor, onUnfit) => {
    const kept = matchesAny(keep, tensor.name);
    return kept || !isBlockType(tensor) ? tensor : castTensor(tensor, floatTarget(type), onUnfit);
  };
}

export interface QuantizationOptions {
  readonly engine: Engine;
  readonly type: QuantType;
  readonly keep: readonly string[];
  /** The model to quantise: llama.cpp needs some tensors of a GGUF, or of a converted GGUF, in floats. */
  readonly opened: Opened;
  /** Measuring costs as much as quantising, so only a report does it. */
  readonly errors: "measured" | "ignored";
}

/** Which tensors were quantised, with what error, and which were not. */
export interface QuantReport {
  readonly type: string;
  readonly quantized: readonly (QuantError & { readonly name: string })[];
  readonly kept: readonly { readonly name: string; readonly reason: string }[];
}

/** The quantisation of one model: what to do with each tensor, and what came of it. */
export class Quantization {
  readonly #options: QuantizationOptions;
  readonly #kept: { readonly name: string; readonly reason: string }[] = [];
  readonly #errors: (QuantError & { readonly name: string })[] = [];
  readonly #order: string[] = [];
  readonly #badBlocks = new Map<string, number>();

  constructor(options: QuantizationOptions) {
    this.#options = options;
  }

  get type(): BlockType {
    return this.#options.type.toUpperCase() as BlockType;
  }

  async transform(): Promise<(tensor: Tensor) => Tensor> {
    const { engine, keep, errors, opened } = this.#options;
    const names = wasGguf(opened) ? "gguf" : "any";
    const quantizer = await engine.quantizer();
    const add = ({ name }: Tensor, error: QuantError): void => void this.#errors.push({ name, ...error });
    const onError = errors === "measured" ? add : undefined;
    const onBadBlocks = ({ name }: Tensor, { length }: readonly number[]): void => {
      this.#badBlocks.set(name, (this.#badBlocks.get(name) ?? 0) + length);
    };
    return (tensor) => {
      const asked = matchesAny(keep, tensor.name);
      const reason = asked ? "asked for" : keptReason(tensor, names);
      if (reason === undefined) this.#order.push(tensor.name);
      if (reason === undefined) return quantizeTensor(tensor, this.type, { quantizer, engine, onError, onBadBlocks });
      this.#kept.push({ name: tensor.name, reason });
      return tensor;
    };
  }

  report(): QuantReport {
    // Tensors are quantised side by side and end in any order.
    const order = new Map(this.#order.map((name, i) => [name, i]));
    const quantized = [...this.#errors].sort((a, b) => (order.get(a.name) ?? 0) - (order.get(b.name) ?? 0));
    return { type: this.type, quantized, kept: this.#kept };
  }

  /** A value or a scale that is not finite makes its block useless: the user must know now, not later. */
  warnings(): readonly string[] {
    return [...this.#badBlocks].map(([name, count]) => {
      const found = count === 1 ? "1 block holds" : `${count} blocks hold`;
      const decodes = count === 1 ? "it decodes" : "they decode";
      return `"${printable(name)}": ${found} values that no scale fits; ${decodes} to nothing useful`;
    });
  }
}

/** Refuses types that contradict each other, and tensors to keep where none would change. */
export function checkTypes(options: {
  readonly quantize?: unknown;
  readonly dequantize?: unknown;
  readonly dtype?: unknown;
  readonly keep?: unknown;
}): void {
  const { quantize, dequantize, dtype, keep } = options;
  const names = Object.entries({ quantize, dequantize, dtype }).flatMap(([name, value]) =>
    value === undefined ? [] : [`the option ${name}`],
  );
  const at = { source: "options" };
  if (names.length > 1) {
    throw new UsageError("usage/arguments", `Cannot use ${names.join(" with ")}: tensors are of one type`, at);
  }
  if (keep === undefined || quantize !== undefined || dequantize !== undefined) return;
  const message = "Cannot use the option keep without the option quantize or the option dequantize";
  throw new UsageError("usage/arguments", message, at);
}
