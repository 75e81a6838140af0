import { stat } from "node:fs/promises";
import type { Bytes } from "../../src/base/bytes.ts";
import { UsageError } from "../../src/base/errors.ts";
import { isS3Url } from "../../src/bytes/s3/address.ts";
import { FORMATS, formatById, formatForName } from "../../src/formats/registry.ts";
import type { Format, Opened, WriteOptions } from "../../src/model/format.ts";
import type { Tensor } from "../../src/model/tensor.ts";
import { unreadableError } from "../../src/operations/check-written.ts";
import type { ConversionOptions } from "../../src/operations/convert.ts";
import { defineCommand } from "../command.ts";
import type { Context } from "../context.ts";
import { allowLossy, runConversion } from "../conversion.ts";
import { EXIT } from "../exit-codes.ts";
import { outputBaseName } from "../output-name.ts";
import { checkAbsent, outputFileName, pathIn } from "../output-target.ts";
import { readOverlay } from "../overlay-file.ts";
import { dequantizing, QUANT_CHOICES, Quantization, quantName } from "../quantization.ts";
import { FLOAT_CHOICES, type FloatChoice, floatName } from "../tensor-selection.ts";
import { checkOptions, writeExtras } from "../write-options.ts";

/** The page of AIP-0002, where --page-hashes gives none. */
const PAGE_BYTES = 4 << 20;

export const convertCommand = defineCommand({
  positionals: { names: ["IN", "OUT"], min: 1, max: 2 },
  flags: {
    to: { kind: "text", value: "FORMAT", summary: "output format, where the extension of OUT does not say it" },
    dtype: {
      kind: "choice",
      choices: [...FLOAT_CHOICES, "i8"],
      summary: "round floating-point tensors to this type; i8 gives matrices a scale a row (EMBD)",
    },
    vocab: {
      kind: "path",
      value: "FILE",
      summary: "the model's tokens: a vocab.txt or tokenizer.json, where none stands beside the model (EMBD)",
    },
    quantize: { kind: "choice", choices: QUANT_CHOICES, summary: "make blocks of this type, as tare quantize" },
    dequantize: { kind: "choice", choices: FLOAT_CHOICES, summary: "make floats of blocks, as tare dequantize" },
    keep: { kind: "list", value: "GLOB", summary: "tensors that --quantize and --dequantize leave as they are" },
    include: { kind: "list", value: "GLOB", summary: "only tensors that match; repeatable" },
    exclude: { kind: "list", value: "GLOB", summary: "leave out tensors that match; repeatable" },
    rename: {
      kind: "choice",
      choices: ["none", "hf"],
      summary: "hf: names and values of Hugging Face's checkpoints for those of llama.cpp (none)",
    },
    "max-shard-size": { kind: "size", value: "SIZE", summary: "start another file beyond this much data" },
    "max-part-shards": {
      kind: "integer",
      value: "N",
      min: 1,
      max: 100_000,
      summary: "shards in one file of an AEROSET (4)",
    },
    "base-url": { kind: "text", value: "URL", summary: "where the AEROSET will be published" },
    align: {
      kind: "integer",
      value: "N",
      min: 1,
      max: 1 << 20,
      summary: "align tensor data to N bytes, where the format lets one choose",
    },
    layout: {
      kind: "choice",
      choices: ["spec", "aprender"],
      summary: "layout of an APR file: the specification's, or the one that aprender reads",
    },
    compress: {
      kind: "choice",
      choices: ["lz4", "none"],
      summary: "compress tensor data, where the format can (APR)",
    },
    metadata: {
      kind: "path",
      value: "FILE",
      summary: "lay a JSON object over the metadata: config.json becomes the architecture",
    },
    "page-hashes": {
      kind: "optional-size",
      value: "SIZE",
      default: PAGE_BYTES,
      summary: "put a digest of every SIZE bytes (4 MiB) into the file",
    },
    "tensor-hashes": { kind: "switch", summary: "put a digest of every tensor into the file" },
    "control-hash": { kind: "switch", summary: "put a digest of header and tables into the file" },
    uuid: { kind: "text", value: "HEX", summary: "identity of the file, 32 hex digits; random where not given" },
    encrypt: { kind: "switch", summary: "encrypt tensor data with a password (APR)" },
    sign: { kind: "path", value: "KEY", summary: "sign what is written with this private key, as tare sign" },
    verify: { kind: "switch", summary: "read everything back and compare it before the file gets its name" },
    "allow-lossy": { kind: "switch", summary: "go on although something cannot be carried" },
  },
  details: [
    "Streams: memory does not grow with the model. What the output format has no place for travels in one metadata entry, tare.origin, so converting back gives the same bytes. What cannot be carried at all stops the conversion (exit 13) unless --allow-lossy.",
    "What is written is opened again before it gets its name. --verify also reads the tensors back: digests that the format carries are all compared, and where it carries none (SafeTensors, GGUF) every tensor is compared with its source.",
    "OUT may be - for standard output, or a directory, which needs --to.",
    "OUT may be VAULT::path: the file is stored in the vault, sealed as it comes and checked before the vault is changed. A set of files and AERO cannot be.",
    "OUT may be s3://bucket/key: the object appears when it is complete, and is then opened to be checked.",
    "A BERT model of any format becomes a .weights file that tare embed reads: tensors get the specification's names, and the vocabulary and configuration are taken from the files beside the model.",
    "--rename hf makes the checkpoint that llama.cpp's converter began with: names, the order of rows of q and k (llama), norms less one (Gemma). It knows the architectures llama without experts, qwen2, qwen3, gemma, gemma2, gemma3 and bert; every other model, and every tensor without a counterpart, is refused (exit 6) before anything is written. rope_freqs.weight has no counterpart: leaving it out is a loss (exit 13). Include and exclude take the names that IN has.",
    "A GGUF made from SafeTensors holds tensors and metadata, but no tokenizer and no hyper-parameters: llama.cpp will not run it.",
  ],
  examples: [
    { command: "tare convert model.safetensors model.gguf", says: "the extension names the format" },
    { command: "tare convert model.gguf half.safetensors --dtype f16", says: "with smaller floats" },
    { command: "tare convert all-MiniLM-L6-v2/ minilm.weights", says: "with the vocabulary in the folder" },
    { command: "tare convert model.gguf out/ --to safetensors --max-shard-size 5GB", says: "in several files" },
  ],
  output: "data",
  writes: [1],
  vaultOutput: "single file",
  remoteOutput: "s3",
  async run(context, { flags, positionals }) {
    const [input = "", out = context.flags.output] = positionals;
    if (out === undefined) {
      throw new UsageError(
        "usage/arguments",
        "Cannot run without OUT",
        { source: "command line" },
        {
          hint: "Usage: tare convert IN OUT",
        },
      );
    }
    if (out === "-" && flags.verify === true) throw unreadableError("standard output");
    const isFolder = out.endsWith("/") || (await isDirectory(out));
    const target = chooseFormat(flags.to, isFolder || out === "-" ? undefined : out);
    if (!isFolder && out !== "-" && flags["max-shard-size"] === undefined)
      await checkAbsent(context, out, { inputs: "rewritten" });
    const opened = await context.open(input);
    const named = outputBaseName(opened.label, target);
    const path = isFolder ? pathIn(out, target.folderName ?? named) : out;
    const quantization = quantizationOf(context, opened, flags);
    const options = {
      transform: await transformOf(quantization, flags),
      name: out === "-" ? named : await outputFileName(path),
      include: flags.include,
      exclude: flags.exclude,
      rename:
        flags.rename === "hf" ? (await import("../../src/model/ggml/checkpoint.ts")).huggingFaceCheckpoint : undefined,
      ...valueTypes(flags.dtype),
      maxShardBytes: flags["max-shard-size"],
      maxPartShards: flags["max-part-shards"],
      baseUrl: flags["base-url"],
      align: flags.align,
      compress: flags.compress,
      overlay: flags.metadata === undefined ? undefined : await readOverlay(flags.metadata),
      vocabulary:
        flags.vocab === undefined
          ? undefined
          : await (await import("../vocabulary-file.ts")).readVocabulary(flags.vocab),
      layout: flags.layout,
      ...writeExtras(flags),
      ...encryption(context, flags.encrypt),
      ...allowLossy(flags["allow-lossy"]),
    };
    await checkOptions(target, options);
    const seed = await signingKey(flags.sign, path);
    await runConversion(context, {
      opened,
      target,
      path,
      options,
      verify: flags.verify === true ? "verify" : undefined,
      finish: seed === undefined ? undefined : (written) => signWritten(context, written, seed),
    });
    quantization?.warn();
    return EXIT.success;
  },
});

/** Floats of another width, or 8-bit integers with scales. */
function valueTypes(choice: FloatChoice | "i8" | undefined): Pick<ConversionOptions, "dtype" | "int8"> {
  if (choice === undefined) return {};
  return choice === "i8" ? { int8: "rows" } : { dtype: floatName(choice) };
}

interface BlockFlags {
  readonly quantize?: (typeof QUANT_CHOICES)[number] | undefined;
  readonly dequantize?: (typeof FLOAT_CHOICES)[number] | undefined;
  readonly dtype?: FloatChoice | "i8" | undefined;
  readonly keep?: readonly string[] | undefined;
}

function quantizationOf(context: Context, opened: Opened, flags: BlockFlags): Quantization | undefined {
  const { quantize, dequantize, dtype, keep } = flags;
  const given = { quantize, dequantize, dtype };
  const names = Object.entries(given).flatMap(([name, value]) => (value === undefined ? [] : [`--${name}`]));
  if (names.length > 1) throw usage(`Cannot use ${names.join(" with ")}: tensors are of one type`);
  if (keep !== undefined && quantize === undefined && dequantize === undefined) {
    throw usage("Cannot use --keep without --quantize or --dequantize");
  }
  if (quantize === undefined) return undefined;
  return new Quantization({ context, type: quantName(quantize), keep: keep ?? [], errors: "ignored", opened });
}

async function transformOf(
  quantization: Quantization | undefined,
  { dequantize, keep }: BlockFlags,
): Promise<((tensor: Tensor) => Tensor) | undefined> {
  if (dequantize !== undefined) return dequantizing(floatName(dequantize), keep);
  return quantization?.transform();
}

function usage(message: string): UsageError {
  return new UsageError("usage/arguments", message, { source: "command line" });
}

/** Read before anything is written, so that a wrong path costs nothing. */
async function signingKey(keyPath: string | undefined, path: string): Promise<Bytes | undefined> {
  if (keyPath === undefined) return undefined;
  if (path !== "-" && !isS3Url(path)) return (await import("../key-file.ts")).readPrivateKey(keyPath);
  const message = `Cannot sign what is written to ${path === "-" ? "standard output" : path}: must be a file on disk`;
  throw new UsageError("usage/arguments", message, { source: "command line" });
}

async function signWritten(context: Context, path: string, seed: Bytes): Promise<void> {
  const { signOpened } = await import("../sign-file.ts");
  await signOpened(context, await context.open(path), { seed });
  seed.fill(0);
}

/** The password is asked for when writing begins, not before it is clear that there is something to write. */
function encryption(context: Context, flag: true | undefined): Pick<WriteOptions, "encrypt"> {
  if (flag === undefined) return {};
  return {
    encrypt: { password: async (label) => (await import("../password.ts")).readPassword(context, label, "new") },
  };
}

function chooseFormat(to: string | undefined, path: string | undefined): Format {
  if (to !== undefined) {
    const named = formatById(to.toLowerCase().replace(/^\./, "")) ?? formatForName(`x.${to}`);
    if (named !== undefined) return named;
    const ids = writableFormats().map((format) => format.id);
    const message = `Cannot write "${to}": must be one of ${ids.join(", ")}`;
    throw new UsageError("usage/output-format", message, { source: "command line" });
  }
  const format = path === undefined ? undefined : formatForName(path);
  if (format !== undefined) return format;
  const extensions = writableFormats()
    .map((candidate) => candidate.extensions[0])
    .join(", ");
  throw new UsageError(
    "usage/output-format",
    path === undefined
      ? "Cannot tell the output format: OUT has no extension"
      : `Cannot tell the output format of "${path}"`,
    { source: "command line" },
    { hint: `Pass --to FORMAT, or use one of the extensions ${extensions}` },
  );
}

function writableFormats(): readonly Format[] {
  return FORMATS.filter((format) => format.write !== undefined);
}

async function isDirectory(path: string): Promise<boolean> {
  return stat(path).then(
    (facts) => facts.isDirectory(),
    () => false,
  );
}
