import type { Bytes } from "../../base/bytes.ts";
import { UsageError } from "../../base/errors.ts";
import type { WriteOptions as WriterOptions } from "../../model/format.ts";
import { huggingFaceCheckpoint } from "../../model/ggml/hugging-face.ts";
import { passwordSource } from "../../model/password.ts";
import { unreadableError } from "../../operations/convert/check-written.ts";
import type { ConversionOptions } from "../../operations/convert/content.ts";
import { decodeOverlay, type GivenMetadata, type MetadataOverlay } from "../../operations/convert/given-metadata.ts";
import { nameAfter } from "../../operations/reading/file-names.ts";
import { findPasswordFault, wipe } from "../../primitives/crypto/secrets.ts";
import { type Request, requestOf, type VerbHost, warnOf } from "../host.ts";
import { bytesOfInput, NAMED_FILE_BYTES, readVocabulary, withInput } from "../input-use.ts";
import type { Input } from "../inputs.ts";
import {
  checkOptions,
  choiceRule,
  inputRule,
  integerRule,
  listOf,
  type OneOrMany,
  type OptionRule,
  type OptionRules,
  objectRule,
  type Size,
  sizeIn,
  switchRule,
  textRule,
  textsRule,
  typeRule,
  WRITE_RULES,
  type WriteOptions,
} from "../options.ts";
import { type Destination, destinationOf, type Output } from "../outputs.ts";
import { privateKeyOf } from "../trust/keys.ts";
import { signOpened } from "../trust/sign.ts";
import { checkNamed, chooseFormat, lossy, runConversion } from "./conversion.ts";
import { encodeJsonObject, enteredOf } from "./json-values.ts";
import {
  checkTypes,
  dequantizing,
  FLOAT_TYPES,
  type FloatType,
  floatTarget,
  QUANT_TYPES,
  Quantization,
  type QuantType,
} from "./quantization.ts";
import type { ConvertResult } from "./results.ts";
import { checkWriterOptions, type DigestOptions, digestOptions, roomRule } from "./writer-options.ts";

export type { ConvertResult } from "./results.ts";

/** Options of `convert`: the command's flags. */
export interface ConvertOptions extends WriteOptions, DigestOptions {
  /** The output's format, if its name does not say it. */
  readonly to?: string | undefined;
  /** Rounds floating-point tensors to this type; i8 gives matrices a scale a row (EMBD). */
  readonly dtype?: FloatType | "i8" | "I8" | undefined;
  /** Makes blocks of this type, as `quantize` does. */
  readonly quantize?: QuantType | undefined;
  /** Makes floats of blocks, as `dequantize` does. */
  readonly dequantize?: FloatType | undefined;
  /** Tensors that `quantize` and `dequantize` leave as they are. */
  readonly keep?: OneOrMany<string> | undefined;
  /** "hf" gives the names and values of Hugging Face's checkpoints to those of llama.cpp. */
  readonly rename?: "hf" | "none" | undefined;
  /** The model's tokens: a vocab.txt or tokenizer.json, if there is none beside the model (EMBD). */
  readonly vocab?: Input | undefined;
  /** Only tensors that match one of these. */
  readonly include?: OneOrMany<string> | undefined;
  /** Leaves out tensors that match one of these. */
  readonly exclude?: OneOrMany<string> | undefined;
  /**
   * Starts another file beyond this much tensor data, if the format has sets of files. Of an AEROSET another shard:
   * `maxPartShards` of them (4) share a file.
   */
  readonly maxShardSize?: Size | undefined;
  /** Shards in one file of an AEROSET. */
  readonly maxPartShards?: number | undefined;
  /** Where the AEROSET will be published. */
  readonly baseUrl?: string | undefined;
  /** Aligns tensor data to this many bytes, if the format lets one choose. */
  readonly align?: number | undefined;
  /** Layout of an APR file: the specification's, or the one that aprender reads. */
  readonly layout?: "spec" | "aprender" | undefined;
  /** Compresses tensor data, where the format can (APR). */
  readonly compress?: "lz4" | "none" | undefined;
  /**
   * Laid over the metadata: a config.json, which has `model_type` or `architectures`, becomes the architecture; any
   * other object sets its keys. `tare/node` also takes a path.
   */
  readonly metadata?: Readonly<Record<string, unknown>> | string | undefined;
  /** The model's name, under the output's key for it. */
  readonly modelName?: string | undefined;
  /** The model's architecture, under the output's key for it. */
  readonly architecture?: string | undefined;
  /** New values by key, typed as in `stamp`. They win over `metadata`. */
  readonly set?: Readonly<Record<string, unknown>> | undefined;
  /** Encrypts tensor data with the option password (APR). */
  readonly encrypt?: boolean | undefined;
  /** Signs what is written with this private key, as `sign` does. */
  readonly sign?: string | Uint8Array | undefined;
  /** Reads everything back and compares it before anything gets its name. */
  readonly verify?: boolean | undefined;
  /** Goes on although something cannot be carried; the result lists it. */
  readonly allowLossy?: boolean | undefined;
}

const nameRule: OptionRule = {
  must: "text that is not empty",
  test: (value) => typeof value === "string" && value !== "",
};

const RULES: OptionRules = {
  ...WRITE_RULES,
  to: textRule,
  dtype: typeRule(...FLOAT_TYPES, "i8"),
  quantize: typeRule(...QUANT_TYPES),
  dequantize: typeRule(...FLOAT_TYPES),
  keep: textsRule,
  rename: choiceRule("none", "hf"),
  vocab: inputRule,
  include: textsRule,
  exclude: textsRule,
  maxShardSize: roomRule,
  maxPartShards: integerRule(1, 100_000),
  baseUrl: textRule,
  align: integerRule(1, 1 << 20),
  layout: choiceRule("spec", "aprender"),
  compress: choiceRule("lz4", "none"),
  metadata: {
    must: "a plain object, or the path of a file",
    test: (value) => typeof value === "string" || objectRule.test(value),
  },
  pageHashes: {
    must: 'true, a number of bytes, or text such as "4MiB"',
    test: (value) => typeof value === "boolean" || sizeIn(value) !== undefined,
  },
  modelName: nameRule,
  architecture: nameRule,
  set: objectRule,
  tensorHashes: switchRule,
  controlHash: switchRule,
  uuid: textRule,
  encrypt: switchRule,
  sign: {
    must: "a private key: PEM text, or PEM or DER bytes",
    test: (value) => typeof value === "string" || value instanceof Uint8Array,
  },
  verify: switchRule,
  allowLossy: switchRule,
};

/** Converts a model to another format, streaming. Nothing is visible at the output before it is complete. */
export async function convert(
  host: VerbHost,
  input: Input,
  output: Output,
  options: ConvertOptions = {},
): Promise<ConvertResult> {
  checkOptions("convert", options, RULES);
  const { set = {}, ...others } = options;
  return convertInput(host, input, output, { ...others, entered: enteredOf(set, "convert") });
}

/** The options with values as they were typed. */
interface TypedOptions extends Omit<ConvertOptions, "set"> {
  readonly entered: NonNullable<GivenMetadata["set"]>;
}

export async function convertInput(
  host: VerbHost,
  input: Input,
  output: Output,
  { entered, ...options }: TypedOptions,
): Promise<ConvertResult> {
  const request = await requestOf(host, "convert", options, RULES);
  checkTypes(request);
  const place = await destinationOf(host, output, request);
  const target = chooseFormat(options.to, place);
  if (options.verify === true && place.isReadable === false) throw unreadableError(place.label);
  const seed = await signingKey(host, request, place);
  try {
    // A set has other names than the one that is given.
    if (options.maxShardSize === undefined) await checkNamed(place);
    return await withInput(host, input, request, async (opened) => {
      const named = nameAfter(opened.label, target);
      const name = place.fileName ?? (place.holds === "files" ? (target.folderName ?? named) : named);
      const quantization = await quantizationOf(request, opened);
      const conversion = {
        ...(await contentOptions(host, request)),
        given: await givenOf(host, request, entered),
        ...writerOptions(request),
        name,
        transform: await transformOf(request, quantization),
        keep: listOf(request.keep),
      };
      await checkWriterOptions(target, conversion);
      const result = await runConversion(host, request, {
        opened,
        target,
        place,
        options: conversion,
        verify: request.verify === true ? "verify" : undefined,
        sign: seed === undefined ? undefined : (path) => signWritten(host, request, { path, seed }),
      });
      for (const text of quantization?.warnings() ?? []) warnOf(host, request)(text);
      return result;
    });
  } finally {
    wipe(seed);
  }
}

/** Reads the key before anything is written, so that a wrong one costs nothing. */
async function signingKey(
  host: VerbHost,
  request: Request<ConvertOptions>,
  place: Destination,
): Promise<Bytes | undefined> {
  if (request.sign === undefined) return undefined;
  if (place.isDisk === true) return privateKeyOf(host, request.sign, request);
  const message = `Cannot sign what is written to ${place.label}: must be a file on disk`;
  throw new UsageError("usage/arguments", message, { source: "options" });
}

/** Signs the file that was written; a signature inside makes it longer. */
async function signWritten(
  host: VerbHost,
  request: Request,
  { path, seed }: { readonly path: string; readonly seed: Bytes },
): Promise<number | undefined> {
  const existing = request.force === true ? undefined : ("refused" as const);
  const { place } = await withInput(host, path, request, (opened) =>
    signOpened({ host, input: path, opened, request }, { seed, existing }),
  );
  // Nothing may fail once there is a signature beside the file: it is not taken away.
  if (place === "beside") return undefined;
  return withInput(host, path, request, async ({ container }) => container.parts[0]?.byteLength ?? 0);
}

/** What becomes of the tensors and metadata. */
async function contentOptions(
  host: VerbHost,
  request: Request<ConvertOptions>,
): Promise<Omit<ConversionOptions, "formats" | "name">> {
  const { include, exclude, rename, dtype, vocab } = request;
  return {
    include: listOf(include),
    exclude: listOf(exclude),
    rename: rename === "hf" ? huggingFaceCheckpoint : undefined,
    ...roundingOf(dtype),
    vocabulary: vocab === undefined ? undefined : await readVocabulary(host, vocab, request),
  };
}

/** What floats become. */
function roundingOf(dtype: ConvertOptions["dtype"]): Pick<ConversionOptions, "int8" | "dtype"> {
  if (dtype === undefined) return {};
  return dtype.toLowerCase() === "i8" ? { int8: "rows" } : { dtype: floatTarget(dtype as FloatType) };
}

/** How it is written. */
function writerOptions(request: ConvertOptions): Omit<WriterOptions, "name"> {
  const { maxShardSize, maxPartShards, baseUrl, align, compress, layout, encrypt, password, allowLossy } = request;
  return {
    maxShardBytes: sizeIn(maxShardSize),
    maxPartShards,
    baseUrl,
    align,
    compress,
    layout,
    ...digestOptions(request),
    ...(encrypt === true ? { encrypt: { password: newPassword(password, request.signal) } } : {}),
    ...lossy(allowLossy),
  };
}

/** Asked when writing begins, when it is clear that there is something to write. */
function newPassword(
  password: ConvertOptions["password"],
  signal: AbortSignal | undefined,
): NonNullable<WriterOptions["encrypt"]>["password"] {
  const source = passwordSource(password, signal);
  if (source === undefined) return async () => undefined;
  return (label) =>
    source(label).then((bytes) => {
      const fault = bytes === undefined ? undefined : findPasswordFault(bytes);
      if (fault === undefined) return bytes;
      wipe(bytes);
      throw new UsageError("usage/password.source", `Cannot use the new password: ${fault}`, { source: label });
    });
}

async function givenOf(
  host: VerbHost,
  request: Request<Omit<ConvertOptions, "set">>,
  set: TypedOptions["entered"],
): Promise<GivenMetadata | undefined> {
  const { metadata, modelName, architecture } = request;
  const overlay = metadata === undefined ? undefined : await overlayOf(host, request, metadata);
  const isGiven = [overlay, modelName, architecture].some((part) => part !== undefined) || set.length > 0;
  return isGiven ? { overlay, modelName, architecture, set } : undefined;
}

async function overlayOf(
  host: VerbHost,
  request: Request<ConvertOptions>,
  metadata: NonNullable<ConvertOptions["metadata"]>,
): Promise<MetadataOverlay> {
  if (typeof metadata === "string") {
    const what = { option: "metadata", maxBytes: NAMED_FILE_BYTES };
    return decodeOverlay(await bytesOfInput(host, metadata, request, what), metadata);
  }
  return decodeOverlay(encodeJsonObject(metadata, { verb: "convert", option: "metadata" }), "metadata");
}

async function quantizationOf(
  { engine, quantize, keep }: Request<ConvertOptions>,
  opened: ConstructorParameters<typeof Quantization>[0]["opened"],
): Promise<Quantization | undefined> {
  if (quantize === undefined) return undefined;
  return new Quantization({ engine, type: quantize, keep: listOf(keep) ?? [], errors: "ignored", opened });
}

async function transformOf(
  { dequantize, keep }: ConvertOptions,
  quantization: Quantization | undefined,
): Promise<ConversionOptions["transform"]> {
  if (dequantize !== undefined) return dequantizing(dequantize, listOf(keep));
  return quantization?.transform();
}
