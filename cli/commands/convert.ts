import { stat } from "node:fs/promises";
import { basename, join } from "node:path";
import { UsageError } from "../../src/base/errors.ts";
import { FORMATS, formatById, formatForName } from "../../src/formats/registry.ts";
import type { Format } from "../../src/model/format.ts";
import { defineCommand } from "../command.ts";
import { allowLossy, runConversion } from "../conversion.ts";
import { EXIT } from "../exit-codes.ts";
import { outputBaseName } from "../output-name.ts";
import { checkAbsent } from "../output-target.ts";
import { FLOAT_CHOICES, floatName } from "../tensor-selection.ts";
import { checkOptions, writeExtras } from "../write-options.ts";

/** The page of AIP-0002, where --page-hashes gives none. */
const PAGE_BYTES = 4 << 20;

export const convertCommand = defineCommand({
  positionals: { names: ["IN", "OUT"], min: 1, max: 2 },
  flags: {
    to: { kind: "text", value: "FORMAT", summary: "output format, where the extension of OUT does not say it" },
    dtype: { kind: "choice", choices: FLOAT_CHOICES, summary: "round floating-point tensors to this type" },
    include: { kind: "list", value: "GLOB", summary: "only tensors that match; repeatable" },
    exclude: { kind: "list", value: "GLOB", summary: "leave out tensors that match; repeatable" },
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
    "page-hashes": {
      kind: "optional-size",
      value: "SIZE",
      default: PAGE_BYTES,
      summary: "put a digest of every SIZE bytes (4 MiB) into the file",
    },
    "tensor-hashes": { kind: "switch", summary: "put a digest of every tensor into the file" },
    "control-hash": { kind: "switch", summary: "put a digest of header and tables into the file" },
    uuid: { kind: "text", value: "HEX", summary: "identity of the file, 32 hex digits; random where not given" },
    "allow-lossy": { kind: "switch", summary: "go on although something cannot be carried" },
  },
  details: [
    "Streams: memory does not grow with the model. What the output format has no place for travels in one metadata entry, tare.origin, so converting back gives the same bytes. What cannot be carried at all stops the conversion (exit 13) unless --allow-lossy.",
    "OUT may be - for standard output, or a directory, which needs --to.",
    "A GGUF made from SafeTensors holds tensors and metadata, but no tokenizer and no hyper-parameters: llama.cpp will not run it.",
  ],
  examples: [
    { command: "tare convert model.safetensors model.gguf", says: "the extension names the format" },
    { command: "tare convert model.gguf half.safetensors --dtype f16", says: "with smaller floats" },
    { command: "tare convert model.gguf out/ --to safetensors --max-shard-size 5GB", says: "in several files" },
  ],
  output: "data",
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
    const isFolder = out.endsWith("/") || (await isDirectory(out));
    const target = chooseFormat(flags.to, isFolder || out === "-" ? undefined : out);
    if (!isFolder && out !== "-" && flags["max-shard-size"] === undefined) await checkAbsent(context, out);
    const opened = await context.open(input);
    const named = outputBaseName(opened.label, target);
    const path = isFolder ? join(out, named) : out;
    const options = {
      name: out === "-" ? named : basename(path),
      include: flags.include,
      exclude: flags.exclude,
      dtype: flags.dtype === undefined ? undefined : floatName(flags.dtype),
      maxShardBytes: flags["max-shard-size"],
      maxPartShards: flags["max-part-shards"],
      baseUrl: flags["base-url"],
      align: flags.align,
      ...writeExtras(flags),
      ...allowLossy(flags["allow-lossy"]),
    };
    checkOptions(target, options);
    await runConversion(context, { opened, target, path, options });
    return EXIT.success;
  },
});

function chooseFormat(to: string | undefined, path: string | undefined): Format {
  const known = FORMATS.filter((format) => format.plan !== undefined);
  if (to !== undefined) {
    const named = formatById(to.toLowerCase().replace(/^\./, "")) ?? formatForName(`x.${to}`);
    if (named !== undefined) return named;
    const message = `Cannot write "${to}": must be one of ${known.map((format) => format.id).join(", ")}`;
    throw new UsageError("usage/output-format", message, { source: "command line" });
  }
  const format = path === undefined ? undefined : formatForName(path);
  if (format !== undefined) return format;
  const extensions = known.map((candidate) => candidate.extensions[0]).join(", ");
  throw new UsageError(
    "usage/output-format",
    path === undefined
      ? "Cannot tell the output format: OUT has no extension"
      : `Cannot tell the output format of "${path}"`,
    { source: "command line" },
    { hint: `Pass --to FORMAT, or use one of the extensions ${extensions}` },
  );
}

async function isDirectory(path: string): Promise<boolean> {
  return stat(path).then(
    (facts) => facts.isDirectory(),
    () => false,
  );
}
