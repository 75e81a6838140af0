import { UsageError } from "../../base/errors.ts";
import { decodeHex } from "../../base/text.ts";
import { DEFAULT_PAGE_BYTES, type Format, type FormatOption, type WriteOptions } from "../../model/format.ts";
import { type Size, shownRule, sizeIn, sizeRule } from "../options.ts";

/** Digests and identity of a file that only some formats have a place for. */
export interface DigestOptions {
  /** Puts a digest of every run of this many bytes into the file; true for 4 MiB. */
  readonly pageHashes?: boolean | Size | undefined;
  /** Puts a digest of every tensor into the file. */
  readonly tensorHashes?: boolean | undefined;
  /** Puts a digest of header and tables into the file. */
  readonly controlHash?: boolean | undefined;
  /** Identity of the file, 32 hex digits; random if absent. */
  readonly uuid?: string | undefined;
}

/** The options in the form that writers take. */
export function digestOptions(options: DigestOptions): Pick<WriteOptions, "hashes" | "uuid"> {
  const { pageHashes, tensorHashes, controlHash, uuid } = options;
  const pageBytes = pageHashes === true ? DEFAULT_PAGE_BYTES : pageHashes === false ? undefined : sizeIn(pageHashes);
  if (pageBytes === 0) throw refusal("Cannot use the option pageHashes with pages of 0 bytes");
  const hashes = {
    ...(pageBytes === undefined ? {} : { pageBytes }),
    ...(tensorHashes === true ? { tensors: "tensors" as const } : {}),
    ...(controlHash === true ? { control: "control" as const } : {}),
  };
  return {
    ...(Object.keys(hashes).length === 0 ? {} : { hashes }),
    ...(uuid === undefined ? {} : { uuid: parseUuid(uuid) }),
  };
}

function parseUuid(text: string): Uint8Array<ArrayBuffer> {
  const bytes = decodeHex(text.replaceAll("-", ""));
  if (bytes?.byteLength === 16) return bytes;
  throw refusal(`Cannot use "${text}" as the option uuid: must be 32 hex digits, with or without dashes`);
}

/** How callers name what a format may support. */
const OPTION_OF: Readonly<Record<FormatOption, string>> = {
  align: "the option align",
  maxShardBytes: "the option maxShardSize",
  maxPartShards: "the option maxPartShards",
  baseUrl: "the option baseUrl",
  uuid: "the option uuid",
  pageHashes: "the option pageHashes",
  tensorHashes: "the option tensorHashes",
  controlHash: "the option controlHash",
  compress: "the option compress",
  layout: "the option layout",
  encrypt: "the option encrypt",
  int8: "the option dtype i8",
  vocabulary: "the option vocab",
};

/** Refuses an option that the output format does not support: users must not rely on something that is not there. */
export async function checkWriterOptions(target: Format, options: WriteOptions): Promise<void> {
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
    throw refusal(`Cannot use ${OPTION_OF[option]} with ${target.name}: the format has no place for it`);
  }
}

function refusal(message: string): UsageError {
  return new UsageError("usage/write-option", message, { source: "options" });
}

/** Sizes that hold something. */
export const roomRule = shownRule(
  'at least 1 byte, as a number or text such as "64MiB"',
  (value) => sizeIn(value) !== 0 && sizeRule.test(value),
);
