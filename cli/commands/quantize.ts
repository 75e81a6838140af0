import { UsageError } from "../../src/base/errors.ts";
import { formatForName } from "../../src/formats/registry.ts";
import { defineCommand } from "../command.ts";
import { allowLossy, runConversion } from "../conversion.ts";
import { EXIT } from "../exit-codes.ts";
import { checkAbsent, outputFileName } from "../output-target.ts";
import { QUANT_CHOICES, Quantization, quantName } from "../quantization.ts";

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
    const [input = "", path = ""] = positionals;
    if (flags.type === undefined)
      throw usage(`Cannot quantize without -t TYPE: must be one of ${QUANT_CHOICES.join(", ")}`);
    const name = await outputFileName(path);
    const target = formatForName(name);
    if (target === undefined) throw usage(`Cannot tell the output format of "${path}"`);
    await checkAbsent(context, path, { inputs: "rewritten" });
    const opened = await context.open(input);
    const errors = flags.report === true ? "measured" : "ignored";
    const work = new Quantization({ context, type: quantName(flags.type), keep: flags.keep ?? [], errors, opened });
    const transform = await work.transform();
    await runConversion(context, {
      opened,
      target,
      path,
      options: { name, transform, ...allowLossy(flags["allow-lossy"]) },
      details: flags.report === true ? () => work.report() : undefined,
    });
    work.warn();
    return EXIT.success;
  },
});

function usage(message: string): UsageError {
  return new UsageError("usage/arguments", message, { source: "command line" });
}
