import type { Warned } from "../../model/finding.ts";
import { type Metadata, type MetadataValue, plainValue, type ValueType } from "../../model/metadata.ts";
import { requireModel } from "../../open.ts";
import { metadataValue } from "../../operations/meta.ts";
import { requestOf, type VerbHost } from "../host.ts";
import { withInput } from "../input-use.ts";
import type { Input } from "../inputs.ts";
import { COMMON_RULES, type CommonOptions, textRule } from "../options.ts";

export interface MetaOptions extends CommonOptions {
  /** Only this key. */
  readonly key?: string | undefined;
}

/** What `tare meta --json` prints: all keys, or one. Arrays are whole. */
export interface MetaResult extends Warned {
  readonly format: string;
  /** Without a key. */
  readonly metadata?: Readonly<Record<string, unknown>>;
  readonly key?: string;
  /** Of the value, as the file has it: "string", "u32", "array" … */
  readonly type?: ValueType;
  /** Integers beyond 2^53 - 1 are text. */
  readonly value?: unknown;
}

/** What was asked for, for those who show it in another form. */
export interface FoundMetadata {
  readonly format: string;
  readonly metadata: Metadata;
  /** Present if one key was asked for. */
  readonly found?: { readonly key: string; readonly value: MetadataValue } | undefined;
}

/** The metadata of a model. The key may be given as an argument, as on the command line, or as an option. */
export async function meta(
  host: VerbHost,
  input: Input,
  keyOrOptions: string | MetaOptions = {},
  options: CommonOptions = {},
): Promise<MetaResult> {
  const given = typeof keyOrOptions === "string" ? { ...options, key: keyOrOptions } : keyOrOptions;
  return metaResult(await metaInput(host, input, given));
}

export async function metaInput(host: VerbHost, input: Input, options: MetaOptions): Promise<FoundMetadata> {
  const request = await requestOf(host, "meta", options, { ...COMMON_RULES, key: textRule });
  const { key } = options;
  return withInput(host, input, request, async ({ container, label }) => {
    const { format, metadata } = requireModel(container);
    const found = key === undefined ? undefined : { key, value: metadataValue(metadata, key, label) };
    return { format, metadata, found };
  });
}

export function metaResult({ format, metadata, found }: FoundMetadata): MetaResult {
  if (found === undefined) return { format, metadata: metadata.toJSON() };
  const { key, value } = found;
  return { format, key, type: value.type, value: plainValue(value) };
}
