import { convertInput } from "../../../src/api/move/convert.ts";
import { UsageError } from "../../../src/base/errors.ts";
import { defineCommand } from "../../command.ts";
import type { Context } from "../../context.ts";
import { EXIT } from "../../exit-codes.ts";
import { CONVERT_FLAGS } from "../../flags/convert-flags.ts";
import type { FlagValues } from "../../flags/flags.ts";
import { enteredValues } from "../../flags/values.ts";
import { commandHost, writeOptions } from "../../host.ts";
import { showConversion } from "../../render/conversion.ts";
import { readPassword } from "../../terminal/password.ts";

export const convertCommand = defineCommand({
  positionals: { names: ["IN", "OUT"], min: 1, max: 2 },
  flags: CONVERT_FLAGS,
  details: [
    "Streams: memory does not grow with the model. What the output format has no place for travels in one metadata entry, tare.origin, so converting back gives the same bytes. What cannot be carried at all stops the conversion (exit 13) unless --allow-lossy.",
    "What is written is opened again before it gets its name. --verify also reads the tensors back: digests that the format carries are all compared, and where it carries none (SafeTensors, GGUF) every tensor is compared with its source.",
    "OUT may be - for standard output, or a directory, which needs --to.",
    "OUT may be VAULT::path: the file is stored in the vault, sealed as it comes and checked before the vault is changed. A set of files and AERO cannot be.",
    "OUT may be s3://bucket/key: the object appears when it is complete, and is then opened to be checked.",
    "--metadata, --model-name, --architecture and --set change the metadata on the way, in this order; a key that is set again wins. A folder's config.json says what AERO, AEROSET and APR must say of the model where the weights do not.",
    "A BERT model of any format becomes a .weights file that tare embed reads: tensors get the specification's names, and the vocabulary and configuration are taken from the files beside the model.",
    "--rename hf makes the checkpoint that llama.cpp's converter began with: names, the order of rows of q and k (llama), norms less one (Gemma). It knows the architectures llama without experts, qwen2, qwen3, gemma, gemma2, gemma3 and bert; every other model, and every tensor without a counterpart, is refused (exit 6) before anything is written. rope_freqs.weight has no counterpart: leaving it out is a loss (exit 13). Include and exclude take the names that IN has.",
    "A GGUF made from SafeTensors holds tensors and metadata, but no tokenizer and no hyper-parameters: llama.cpp will not run it.",
  ],
  examples: [
    { command: "tare convert model.safetensors model.gguf", says: "the extension names the format" },
    { command: "tare convert model.gguf half.safetensors --dtype f16", says: "with smaller floats" },
    { command: "tare convert all-MiniLM-L6-v2/ minilm.weights", says: "with the vocabulary in the folder" },
    {
      command: "tare convert model.safetensors m.aero --model-name tiny --set license=MIT",
      says: "with a name, and a key of your own",
    },
    { command: "tare convert model.gguf out/ --to safetensors --max-shard-size 5GB", says: "in several files" },
  ],
  output: "data",
  writes: [1],
  vaultOutput: "single file",
  remoteOutput: "s3",
  async run(context, { flags, positionals }) {
    const [input = "", output = context.flags.output] = positionals;
    if (output === undefined) {
      const hint = "Usage: tare convert IN OUT";
      throw new UsageError("usage/arguments", "Cannot run without OUT", { source: "command line" }, { hint });
    }
    const result = await convertInput(commandHost(context), input, output, await convertOptions(context, flags));
    await showConversion(context, result, output);
    return EXIT.success;
  },
});

type ConvertInputOptions = Parameters<typeof convertInput>[3];

async function convertOptions(context: Context, flags: FlagValues<typeof CONVERT_FLAGS>): Promise<ConvertInputOptions> {
  const { to, dtype, vocab, quantize, dequantize, keep, include, exclude, rename, align, layout, compress } = flags;
  const { metadata, uuid, encrypt, verify } = flags;
  return {
    ...(await writeOptions(context)),
    ...{ to, dtype, vocab, quantize, dequantize, keep, include, exclude, rename, align, layout, compress },
    ...{ metadata, uuid, encrypt, verify },
    modelName: flags["model-name"],
    architecture: flags.architecture,
    entered: enteredValues(flags.set),
    maxShardSize: flags["max-shard-size"],
    maxPartShards: flags["max-part-shards"],
    baseUrl: flags["base-url"],
    pageHashes: flags["page-hashes"],
    tensorHashes: flags["tensor-hashes"],
    controlHash: flags["control-hash"],
    sign: flags.sign,
    allowLossy: flags["allow-lossy"],
    // Asked when writing begins, when it is clear that there is something to write.
    password: encrypt === true ? (label) => readPassword(context, label, { use: "new" }) : undefined,
  };
}
