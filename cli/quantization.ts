import { printable } from "../src/base/text.ts";
import type { Opened } from "../src/model/format.ts";
import type { Tensor } from "../src/model/tensor.ts";
import { castTensor, type FloatTarget } from "../src/model/values/casts.ts";
import { wasGguf } from "../src/operations/convert.ts";
import { isBlockType, keptReason, type QuantError, quantizeTensor } from "../src/operations/quantize.ts";
import { matchesAny } from "../src/operations/select.ts";
import type { QuantType } from "../src/primitives/quant/quantizer.ts";
import type { Context } from "./context.ts";
import { renderTable } from "./render/table.ts";

export const QUANT_CHOICES = ["q8_0", "q4_0", "q4_1", "q5_0", "q5_1"] as const;

/** "q8_0", as people type it, as the type is called. */
export function quantName(choice: (typeof QUANT_CHOICES)[number]): QuantType {
  return choice.toUpperCase() as QuantType;
}

/** Makes floats of blocks; tensors that are not quantised, or that match `keep`, stay as they are. */
export function dequantizing(to: FloatTarget, keep: readonly string[] = []): (tensor: Tensor) => Tensor {
  return (tensor) => {
    const kept = keep.length > 0 && matchesAny(keep, tensor.name);
    return kept || !isBlockType(tensor) ? tensor : castTensor(tensor, to);
  };
}

interface QuantizationOptions {
  readonly context: Context;
  readonly type: QuantType;
  readonly keep: readonly string[];
  /** What is quantised: llama.cpp needs some tensors of a GGUF, and of what was one, in floats. */
  readonly opened: Opened;
  /** Measuring costs as much as quantising: only for a report. */
  readonly errors: "measured" | "ignored";
}

/** Which tensors are quantised, and what became of them. */
export class Quantization {
  readonly #options: QuantizationOptions;
  readonly #kept: { readonly name: string; readonly reason: string }[] = [];
  readonly #errors: (QuantError & { readonly name: string })[] = [];
  readonly #badBlocks = new Map<string, number>();

  constructor(options: QuantizationOptions) {
    this.#options = options;
  }

  async transform(): Promise<(tensor: Tensor) => Tensor> {
    const { context, type, keep, errors, opened } = this.#options;
    const names = wasGguf(opened) ? "gguf" : "any";
    const engine = await context.engine();
    const quantizer = await engine.quantizer();
    const add = ({ name }: Tensor, error: QuantError): void => void this.#errors.push({ name, ...error });
    const onError = errors === "measured" ? add : undefined;
    const onBadBlocks = ({ name }: Tensor, count: number): void => {
      this.#badBlocks.set(name, (this.#badBlocks.get(name) ?? 0) + count);
    };
    return (tensor) => {
      const asked = keep.length > 0 && matchesAny(keep, tensor.name);
      const reason = asked ? "asked for" : keptReason(tensor, names);
      if (reason === undefined) return quantizeTensor(tensor, type, { quantizer, engine, onError, onBadBlocks });
      this.#kept.push({ name: tensor.name, reason });
      return tensor;
    };
  }

  report(): { readonly json: object; readonly text: string } {
    const rows = this.#errors.map(({ name, rmse, relative, maxAbs }) => [
      rmse.toPrecision(4),
      `${(100 * relative).toFixed(2)} %`,
      maxAbs.toPrecision(4),
      printable(name),
    ]);
    const columns = [
      { title: "rmse", align: "right" },
      { title: "of rms", align: "right" },
      { title: "max", align: "right" },
      { title: "name", cut: "middle" },
    ] as const;
    const kept = this.#kept.map(({ name, reason }) => `kept  ${printable(name)} (${reason})`);
    const { context, type } = this.#options;
    return {
      json: { type, quantized: this.#errors, kept: this.#kept },
      text: [...(rows.length === 0 ? [] : [renderTable(columns, rows, { width: context.width })]), ...kept].join("\n"),
    };
  }

  /** A scale that overflows makes its block useless: nobody should find that out later. */
  warn(): void {
    for (const [name, badBlocks] of this.#badBlocks) {
      this.#options.context.warn(
        `tare: warning: "${printable(name)}": ${badBlocks} blocks hold values that no scale fits; they decode to nothing useful`,
      );
    }
  }
}
