import { dequantize } from "../../../src/api/move/dequantize.ts";
import { FLOAT_TYPES } from "../../../src/api/move/quantization.ts";
import { defineCommand } from "../../command.ts";
import { EXIT } from "../../exit-codes.ts";
import { commandHost, writeOptions } from "../../host.ts";
import { showConversion } from "../../render/conversion.ts";

export const dequantizeCommand = defineCommand({
  positionals: { names: ["IN", "OUT"], min: 2, max: 2 },
  flags: {
    type: {
      kind: "choice",
      short: "t",
      choices: FLOAT_TYPES,
      letters: "any case",
      summary: "float type to write (f32)",
    },
    keep: { kind: "list", value: "GLOB", summary: "tensors to leave as they are; repeatable" },
    "allow-lossy": { kind: "switch", summary: "go on although something else cannot be carried" },
  },
  details: [
    "Blocks of Q8_0, Q4_0, Q4_1, Q5_0, Q5_1 and Q2_K … Q6_K become floats, bit for bit as ggml reads them, and aprender's APR_Q4 and APR_Q8 as aprender does; to f16 and bf16 they are rounded to nearest even. Other block types are refused by name. Tensors that are not quantised stay as they are.",
  ],
  examples: [{ command: "tare dequantize small.gguf model.safetensors -t f16", says: "for tools that know no blocks" }],
  output: "data",
  writes: [1],
  vaultOutput: "single file",
  remoteOutput: "s3",
  async run(context, { flags, positionals }) {
    const [input = "", output = ""] = positionals;
    const { type, keep, "allow-lossy": allowLossy } = flags;
    const options = { ...(await writeOptions(context)), type, keep, allowLossy };
    await showConversion(context, await dequantize(commandHost(context), input, output, options), output);
    return EXIT.success;
  },
});
