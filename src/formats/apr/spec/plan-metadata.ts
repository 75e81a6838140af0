import { isTareError } from "../../../base/errors.ts";
import { encodeUtf8 } from "../../../base/text.ts";
import { type Metadata, type MetadataEntry, type MetadataValue, stringValue } from "../../../model/metadata.ts";
import { fingerprint, renderMetadata } from "../../../model/metadata-json.ts";
import {
  type CarriedEntry,
  type CarriedTensor,
  encodeOrigin,
  ORIGIN_KEY,
  type OriginLink,
} from "../../../model/origin.ts";
import { addedEntry, type Holding, packMetadata, retypeLike } from "../../../model/origin-metadata.ts";
import { APR_LIMITS } from "../limits.ts";
import { decodeMetadata } from "../metadata.ts";
import { APR_VERSION } from "./layout.ts";
import { isWellFormed } from "./plan-tensors.ts";

export interface MetadataContent {
  readonly metadata: Metadata;
  /** What others need to write their files again. */
  readonly chain: readonly OriginLink[];
  readonly tensors: readonly CarriedTensor[];
  readonly order: readonly number[] | undefined;
  /** Keys that the writer needs for itself; a value of the model under one of them is carried. */
  readonly reserved: readonly string[];
}

/** What stands in `model_type` where a model does not say what it is. */
const UNKNOWN_TYPE = "unknown";

/**
 * The members of the metadata object: the three required keys, every key of the model that JSON can say exactly, and
 * `tare.origin` with everything else, where there is anything.
 */
export function planMetadata(content: MetadataContent): readonly MetadataEntry[] {
  const { metadata, chain, tensors, order } = content;
  const reserved = new Set([...content.reserved, ORIGIN_KEY]);
  const required = requiredEntries(metadata);
  const owned = new Map(required.map(({ key, value }) => [key, value]));
  const { native, entries } = packMetadata(metadata, ({ key, value }) => {
    const ours = owned.get(key);
    if (ours !== undefined && ours !== value) return "none";
    return reserved.has(key) || !isWellFormed(key) ? "none" : holdingOf(value);
  });
  const held = new Set(native.map(({ key }) => key));
  const added = required.filter(({ key }) => !held.has(key));
  const members = [...added, ...native];
  const unsaid = added.filter(({ key }) => metadata.get(key) === undefined);
  const carried: readonly CarriedEntry[] | undefined =
    entries === undefined && unsaid.length === 0
      ? undefined
      : [...(entries ?? native.map(({ key }) => [key] as const)), ...unsaid.map(({ key }) => addedEntry(key))];
  if (chain.length === 0 && carried === undefined && tensors.length === 0) return members;
  const origin = encodeOrigin({
    chain,
    ...(carried === undefined ? {} : { entries: carried }),
    ...(tensors.length === 0 ? {} : { tensors }),
    ...(order === undefined ? {} : { order }),
  });
  return [...members, { key: ORIGIN_KEY, value: stringValue(origin) }];
}

/** The model's own values where they have the types that the specification shows; else what is known of it. */
function requiredEntries(metadata: Metadata): readonly MetadataEntry[] {
  const version = metadata.get("apr_version");
  const type = metadata.get("model_type");
  const architecture = metadata.get("architecture");
  return [
    { key: "apr_version", value: isVersion2(version) ? version : stringValue(APR_VERSION) },
    { key: "model_type", value: isText(type) ? type : stringValue(modelType(metadata)) },
    {
      key: "architecture",
      value:
        architecture?.type === "map" && holdingOf(architecture) !== "none" ? architecture : hyperParameters(metadata),
    },
  ];
}

function isText(value: MetadataValue | undefined): value is MetadataValue & { readonly type: "string" } {
  return value?.type === "string" && value.raw === undefined && isWellFormed(value.value);
}

function isVersion2(value: MetadataValue | undefined): value is MetadataValue {
  return isText(value) && /^2(\.|$)/.test(value.value);
}

/** GGUF's key, then the string that other formats have under `architecture`. */
function modelType(metadata: Metadata): string {
  for (const key of ["general.architecture", "architecture"]) {
    const value = metadata.get(key);
    if (isText(value) && value.value !== "") return value.value;
  }
  return UNKNOWN_TYPE;
}

/** GGUF says them as "llama.block_count": the numbers and texts under the architecture's name, without it. */
function hyperParameters(metadata: Metadata): MetadataValue {
  const prefix = `${metadata.text("general.architecture") ?? ""}.`;
  const entries: MetadataEntry[] = [];
  for (const { key, value } of metadata) {
    if (prefix === "." || !key.startsWith(prefix) || value.type === "array" || value.type === "map") continue;
    const rest = key.slice(prefix.length);
    if (rest !== "" && isWellFormed(rest) && holdingOf(value) !== "none") entries.push({ key: rest, value });
  }
  return { type: "map", entries };
}

/** Asks our own reader what it would make of the value, instead of knowing its rules a second time. */
export function holdingOf(value: MetadataValue): Holding {
  if (value.type === "bytes") return "none";
  if (value.type === "string") return isText(value) ? "native" : "none";
  const bytes = encodeUtf8(renderMetadata([{ key: "", value }]));
  try {
    const place = { source: ORIGIN_KEY, offset: 0, maxValues: APR_LIMITS.metadataValues.default };
    const [entry] = decodeMetadata(bytes, place).entries;
    if (entry === undefined) return "none";
    const wanted = fingerprint(value);
    if (fingerprint(entry.value) === wanted) return "native";
    return fingerprint(retypeLike(entry.value, value)) === wanted ? "untyped" : "none";
  } catch (error) {
    if (isTareError(error)) return "none"; // NaN, half a surrogate pair, too deep: no JSON, or none that is read
    throw error;
  }
}
