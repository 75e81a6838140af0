import { basename } from "node:path";
import { UsageError } from "../../src/base/errors.ts";
import { printable } from "../../src/base/text.ts";
import { formatForName } from "../../src/formats/registry.ts";
import type { Tensor } from "../../src/model/tensor.ts";
import { keptReason, quantizeTensor } from "../../src/operations/quantize.ts";
import type { QuantError } from "../../src/operations/quantize-error.ts";
import { matchesAny } from "../../src/operations/select.ts";
import type { QuantType } from "../../src/primitives/quant/quantizer.ts";
import { defineCommand } from "../command.ts";
import type { Context } from "../context.ts";
import { allowLossy, runConversion } from "../conversion.ts";
import { EXIT } from "../exit-codes.ts";
import { checkAbsent } from "../output-target.ts";
import { renderTable } from "../render/table.ts";

export const QUANT_CHOICES = ["q8_0", "q4_0", "q4_1", "q5_0", "q5_1"] as const;

export const quantizeCommand = defineCommand({
  positionals: { names: ["IN", "OUT"], min: 2, max: 2 },
  flags: {
    type: { kind: "choice", short: "t", choices: QUANT_CHOICES, summary: "block type to write (required)" },
    keep: { kind: "list", value: "GLOB", summary: "tensors to leave as they are; repeatable" },
    report: { kind: "switch", summary: "show what it cost each tensor: error against the values it had" },
    "allow-lossy": { kind: "switch", summary: "go on although something else cannot be carried" },
  },
  details: [
    "Matrices of floats become blocks of 32, by the arithmetic of ggml's reference quantisers: the bytes are those of llama-quantize --pure. One-dimensional tensors and rows that are no multiple of 32 stay as they are and are listed with --report or -v.",
    "OUT's extension names the format. AERO holds blocks as packed tensors.",
  ],
  examples: [
    { command: "tare quantize model.gguf small.gguf -t q4_0", says: "4.5 bits a weight" },
    {
      command: 'tare quantize model.safetensors model.gguf -t q8_0 --keep "*embed*" --report',
      says: "embeddings stay, errors shown",
    },
  ],
  output: "data",
  async run(context, { flags, positionals }) {
    const [input = "", path = ""] = positionals;
    const type = flags.type?.toUpperCase() as QuantType | undefined;
    if (type === undefined) throw usage(`Cannot quantize without -t TYPE: must be one of ${QUANT_CHOICES.join(", ")}`);
    const target = formatForName(basename(path));
    if (target === undefined) throw usage(`Cannot tell the output format of "${path}"`);
    await checkAbsent(context, path);
    const opened = await context.open(input);
    const errors = flags.report === true ? "measured" : "ignored";
    const work = new Quantization({ context, type, keep: flags.keep ?? [], errors });
    const transform = await work.transform();
    await runConversion(context, {
      opened,
      target,
      path,
      options: { name: basename(path), transform, ...allowLossy(flags["allow-lossy"]) },
      details: flags.report === true ? () => work.report() : undefined,
    });
    work.warn();
    return EXIT.success;
  },
});

function usage(message: string): UsageError {
  return new UsageError("usage/arguments", message, { source: "command line" });
}

interface QuantizationOptions {
  readonly context: Context;
  readonly type: QuantType;
  readonly keep: readonly string[];
  /** Measuring costs as much as quantising: only for a report. */
  readonly errors: "measured" | "ignored";
}

/** Which tensors are quantised, and what became of them. */
class Quantization {
  readonly #options: QuantizationOptions;
  readonly #kept: { readonly name: string; readonly reason: string }[] = [];
  readonly #errors: (QuantError & { readonly name: string })[] = [];
  readonly #badBlocks = new Map<string, number>();

  constructor(options: QuantizationOptions) {
    this.#options = options;
  }

  async transform(): Promise<(tensor: Tensor) => Tensor> {
    const { context, type, keep, errors } = this.#options;
    const engine = await context.engine();
    const quantizer = await engine.quantizer();
    const add = ({ name }: Tensor, error: QuantError): void => void this.#errors.push({ name, ...error });
    const onError = errors === "measured" ? add : undefined;
    const onBadBlocks = ({ name }: Tensor, count: number): void => {
      this.#badBlocks.set(name, (this.#badBlocks.get(name) ?? 0) + count);
    };
    return (tensor) => {
      const asked = keep.length > 0 && matchesAny(keep, tensor.name);
      const reason = asked ? "asked for" : keptReason(tensor);
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
