import { UsageError } from "../src/base/errors.ts";
import { decodeHex } from "../src/base/text.ts";
import type { Format, FormatOption, WriteOptions } from "../src/model/format.ts";

/** Flags of `convert` that only some formats honour. */
export interface ExtraFlags {
  readonly "page-hashes"?: number;
  readonly "tensor-hashes"?: true;
  readonly "control-hash"?: true;
  readonly uuid?: string;
}

/** The flags as writers take them. */
export function writeExtras(flags: ExtraFlags): Pick<WriteOptions, "hashes" | "uuid"> {
  const pageBytes = flags["page-hashes"];
  if (pageBytes === 0) throw usage("Cannot use --page-hashes with pages of 0 bytes");
  const hashes = {
    ...(pageBytes === undefined ? {} : { pageBytes }),
    ...(flags["tensor-hashes"] === true ? { tensors: "tensors" as const } : {}),
    ...(flags["control-hash"] === true ? { control: "control" as const } : {}),
  };
  return {
    ...(Object.keys(hashes).length === 0 ? {} : { hashes }),
    ...(flags.uuid === undefined ? {} : { uuid: parseUuid(flags.uuid) }),
  };
}

function parseUuid(text: string): Uint8Array<ArrayBuffer> {
  const bytes = decodeHex(text.replaceAll("-", ""));
  if (bytes?.byteLength === 16) return bytes;
  throw usage(`Cannot use "${text}" as --uuid: must be 32 hex digits, with or without dashes`);
}

const FLAG_OF: Readonly<Record<FormatOption, string>> = {
  align: "--align",
  maxShardBytes: "--max-shard-size",
  maxPartShards: "--max-part-shards",
  baseUrl: "--base-url",
  uuid: "--uuid",
  pageHashes: "--page-hashes",
  tensorHashes: "--tensor-hashes",
  controlHash: "--control-hash",
  compress: "--compress",
  layout: "--layout",
  encrypt: "--encrypt",
  int8: "--dtype i8",
  vocabulary: "--vocab",
};

/** An option that the output format has no use for is refused, so that nobody relies on what is not there. */
export async function checkOptions(target: Format, options: WriteOptions): Promise<void> {
  const { options: honoured } = (await target.write?.()) ?? {};
  const asked: Readonly<Record<FormatOption, unknown>> = {
    align: options.align,
    maxShardBytes: options.maxShardBytes,
    maxPartShards: options.maxPartShards,
    baseUrl: options.baseUrl,
    uuid: options.uuid,
    pageHashes: options.hashes?.pageBytes,
    tensorHashes: options.hashes?.tensors,
    controlHash: options.hashes?.control,
    compress: options.compress,
    layout: options.layout,
    encrypt: options.encrypt,
    int8: options.int8,
    vocabulary: options.vocabulary,
  };
  for (const [option, value] of Object.entries(asked) as [FormatOption, unknown][]) {
    if (value === undefined || honoured?.includes(option) === true) continue;
    throw usage(`Cannot use ${FLAG_OF[option]} with ${target.name}: the format has no place for it`);
  }
}

function usage(message: string): UsageError {
  return new UsageError("usage/write-option", message, { source: "command line" });
}
