import { QUANT_TYPES } from "../../../src/api/move/quantization.ts";
import { type QuantizeResult, quantize } from "../../../src/api/move/quantize.ts";
import { requireOption } from "../../../src/api/options.ts";
import { printable } from "../../../src/base/text.ts";
import { defineCommand } from "../../command.ts";
import type { Context } from "../../context.ts";
import { EXIT } from "../../exit-codes.ts";
import { commandHost, writeOptions } from "../../host.ts";
import { showConversion } from "../../render/conversion.ts";
import { renderTable } from "../../render/table.ts";

export const quantizeCommand = defineCommand({
  positionals: { names: ["IN", "OUT"], min: 2, max: 2 },
  flags: {
    type: {
      kind: "choice",
      short: "t",
      choices: QUANT_TYPES,
      letters: "any case",
      summary: "block type to write (required)",
    },
    keep: { kind: "list", value: "GLOB", summary: "tensors to leave as they are; repeatable" },
    report: { kind: "switch", summary: "show what it cost each tensor: error against the values it had" },
    "allow-lossy": { kind: "switch", summary: "go on although something else cannot be carried" },
  },
  details: [
    "Matrices of floats become blocks of 32, by the arithmetic of ggml's reference quantisers: the bytes are those of llama-quantize --pure. One-dimensional tensors and rows that are no multiple of 32 stay as they are and are listed with --report or -v.",
    "Of a GGUF, or of what was one, llama.cpp needs more tensors in floats: norms, routers of experts, position and type embeddings, small convolutions, the small matrices of RWKV, whatever does not end in weight. They stay. general.file_type and general.quantization_version say what the file holds afterwards.",
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
  writes: [1],
  vaultOutput: "single file",
  remoteOutput: "s3",
  async run(context, { flags, positionals }) {
    const [input = "", output = ""] = positionals;
    const { type, keep, report, "allow-lossy": allowLossy } = flags;
    requireOption("quantize", "type", type, `one of ${QUANT_TYPES.join(", ")}`);
    const options = {
      ...(await writeOptions(context)),
      type: type as (typeof QUANT_TYPES)[number],
      keep,
      report,
      allowLossy,
    };
    const result = await quantize(commandHost(context), input, output, options);
    await showConversion(context, result, output, report === true ? renderReport(result, context) : undefined);
    return EXIT.success;
  },
});

/** What it cost each tensor, and which tensors it left. */
function renderReport({ quantized = [], kept = [] }: QuantizeResult, { width }: Context): string {
  const rows = quantized.map(({ name, rmse, relative, maxAbs }) => [
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
  const lines = kept.map(({ name, reason }) => `kept  ${printable(name)} (${reason})`);
  return [...(rows.length === 0 ? [] : [renderTable(columns, rows, { width })]), ...lines].join("\n");
}
