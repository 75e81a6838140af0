import type { Bytes } from "../../base/bytes.ts";
import { isTareError } from "../../base/errors.ts";
import { encodeUtf8, isWellFormed } from "../../base/text.ts";
import { configuredType, type ModelFolder } from "../../model/configuration.ts";
import type { Loss } from "../../model/finding.ts";
import { arrayValue, Metadata, type MetadataEntry, type MetadataValue, stringValue } from "../../model/metadata.ts";
import { decodeMetadataJson, fingerprint, type MetadataJson, renderMetadata } from "../../model/metadata-json.ts";
import { addedEntry, type Holding, packMetadata, retypeLike } from "../../model/origin/metadata.ts";
import {
  type CarriedEntry,
  type CarriedTensor,
  encodeOrigin,
  ORIGIN_KEY,
  type OriginLink,
} from "../../model/origin/origin.ts";
import { APR_LIMITS } from "./limits.ts";
import { APR_VERSION } from "./spec/layout.ts";

/** Where the JSON is and how many values of it may be built. */
interface MetadataPlace {
  readonly source: string;
  readonly offset: number;
  /** JSON values in all. */
  readonly maxValues: number;
}

/** Why a value is a loss that no reader gives. */
const SHADOWED = "the metadata has the key twice, and only the last value counts";

/** Of a key that comes twice with two values, the first one: only the text of the metadata has it. */
export function shadowedLosses(keys: readonly string[], where = ""): Loss[] {
  return keys.map((key) => ({ name: `${JSON.stringify(key)}${where}`, reason: SHADOWED }));
}

/** Those among other losses. */
export function isShadowed({ reason }: Loss): boolean {
  return reason === SHADOWED;
}

/** The metadata of any APR layout, with the length of what pads it to metadata_size. */
export function decodeMetadata(bytes: Bytes, place: MetadataPlace): MetadataJson {
  const noObject = { code: "format/apr.metadata", path: "metadata" } as const;
  return decodeMetadataJson(bytes, { ...place, what: "APR metadata", noObject });
}

interface MetadataContent {
  readonly metadata: Metadata;
  /** What other formats need to write their files again. */
  readonly chain: readonly OriginLink[];
  readonly tensors: readonly CarriedTensor[];
  readonly order: readonly number[] | undefined;
  /** Keys that the writer needs for itself. A model's value under one of them is carried in `tare.origin`. */
  readonly reserved: readonly string[];
  readonly folder?: ModelFolder | undefined;
}

/** The value of `model_type` if a model does not say what it is. */
const UNKNOWN_TYPE = "unknown";

/**
 * The members of the metadata object that the specification asks for: the three required keys, every key of the model that JSON can say exactly, and
 * `tare.origin` with everything else, if there is anything.
 */
export function planMetadata(content: MetadataContent): readonly MetadataEntry[] {
  const { metadata, chain, tensors, order } = content;
  const reserved = new Set([...content.reserved, ORIGIN_KEY]);
  const required = requiredEntries(metadata, content.folder?.configuration);
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
      : [
          ...(entries ?? native.map(({ key }) => [key] as const)),
          ...unsaid.map(({ key, value }) => addedEntry(key, value)),
        ];
  if (chain.length === 0 && carried === undefined && tensors.length === 0) return members;
  const origin = encodeOrigin({
    chain,
    ...(carried === undefined ? {} : { entries: carried }),
    ...(tensors.length === 0 ? {} : { tensors }),
    ...(order === undefined ? {} : { order }),
  });
  return [...members, { key: ORIGIN_KEY, value: stringValue(origin) }];
}

/** The model's own values if they have the types that the specification shows; else what is known about the model. */
function requiredEntries(metadata: Metadata, configuration: Metadata | undefined): readonly MetadataEntry[] {
  const version = metadata.get("apr_version");
  const type = metadata.get("model_type");
  const architecture = metadata.get("architecture");
  return [
    { key: "apr_version", value: isVersion2(version) ? version : stringValue(APR_VERSION) },
    { key: "model_type", value: isText(type) ? type : stringValue(modelType(metadata, configuration)) },
    {
      key: "architecture",
      value:
        architecture?.type === "map" && holdingOf(architecture) !== "none"
          ? architecture
          : hyperParameters(metadata, configuration),
    },
  ];
}

function isText(value: MetadataValue | undefined): value is MetadataValue & { readonly type: "string" } {
  return value?.type === "string" && value.raw === undefined && isWellFormed(value.value);
}

function isVersion2(value: MetadataValue | undefined): value is MetadataValue {
  return isText(value) && /^2(\.|$)/.test(value.value);
}

/** GGUF's key, then the string that other formats keep under `architecture`, then the folder's configuration. */
function modelType(metadata: Metadata, configuration: Metadata | undefined): string {
  for (const key of ["general.architecture", "architecture"]) {
    const value = metadata.get(key);
    if (isText(value) && value.value !== "") return value.value;
  }
  return configuredType(configuration) ?? UNKNOWN_TYPE;
}

/**
 * GGUF writes them as "llama.block_count": takes the numbers and texts under the architecture's name, without it. A
 * model that has none has its folder's configuration.
 */
function hyperParameters(metadata: Metadata, configuration: Metadata | undefined): MetadataValue {
  const prefix = `${metadata.text("general.architecture") ?? ""}.`;
  const entries: MetadataEntry[] = [];
  for (const { key, value } of metadata) {
    if (prefix === "." || !key.startsWith(prefix) || value.type === "array" || value.type === "map") continue;
    const rest = key.slice(prefix.length);
    if (rest !== "" && isWellFormed(rest) && holdingOf(value) !== "none") entries.push({ key: rest, value });
  }
  if (entries.length > 0 || configuration === undefined) return { type: "map", entries };
  const whole: MetadataValue = { type: "map", entries: configuration.entries };
  return holdingOf(whole) === "native" ? whole : { type: "map", entries };
}

/** Asks our own reader what it makes of the value, so that its rules exist only once. */
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
    if (isTareError(error)) return "none"; // NaN, half a surrogate pair, too deep: not JSON, or not JSON that we read
    throw error;
  }
}

/** The text of the original file if it still says the same; else our own rendering. */
export function metadataText(members: readonly MetadataEntry[], text: string | undefined): string {
  const rendered = renderMetadata(members);
  if (text === undefined || text === rendered) return rendered;
  try {
    const place = { source: "metadata", offset: 0, maxValues: APR_LIMITS.metadataValues.default };
    const { entries } = decodeMetadata(encodeUtf8(text), place);
    const mapOf = (list: readonly MetadataEntry[]): string => fingerprint({ type: "map", entries: list });
    return mapOf(entries) === mapOf(members) ? text : rendered;
  } catch (error) {
    if (isTareError(error)) return rendered; // a damaged origin
    throw error;
  }
}

/** The key that keeps the values that upgrading replaces. */
const SOURCE_KEY = "source_metadata";

/** Hyper-parameters of whisper models. The specification has them in `architecture`, old files at the top. */
const ARCHITECTURE_KEYS: readonly string[] = [
  "n_vocab",
  "n_audio_ctx",
  "n_audio_state",
  "n_audio_head",
  "n_audio_layer",
  "n_text_ctx",
  "n_text_state",
  "n_text_head",
  "n_text_layer",
  "n_mels",
];

/**
 * Derives the keys that the APR v2 specification requires from an older file's metadata; every other key stays. Values
 * under `replaced` no longer hold once the tensors are upgraded, so they move to `source_metadata`.
 */
export function upgradeMetadata(metadata: Metadata, replaced: readonly string[] = []): Metadata {
  const moved: MetadataEntry[] = [];
  let upgraded = new Metadata(metadata.entries.map(({ key, value }) => ({ key, value: jsonValue(value) })));
  for (const key of replaced) {
    const value = upgraded.get(key);
    if (value !== undefined) moved.push({ key, value });
    upgraded = upgraded.without(key);
  }
  const type = upgraded.get("model_type");
  if (type?.type !== "string") {
    if (type !== undefined && type.type !== "null") moved.push({ key: "model_type", value: type });
    upgraded = upgraded.with("model_type", stringValue("unknown"));
  }
  const architecture = upgraded.get("architecture");
  if (architecture?.type !== "map") {
    if (architecture !== undefined && architecture.type !== "null") {
      moved.push({ key: "architecture", value: architecture });
    }
    upgraded = upgraded.with("architecture", architectureOf(upgraded, architecture));
  }
  return withMoved(upgraded.with("apr_version", stringValue(APR_VERSION)), moved);
}

function architectureOf(metadata: Metadata, old: MetadataValue | undefined): MetadataValue {
  if (old?.type === "string") return { type: "map", entries: [{ key: "name", value: old }] };
  const entries = metadata.entries.filter(({ key }) => ARCHITECTURE_KEYS.includes(key));
  return { type: "map", entries };
}

/** Adds to what the file already keeps there; if that is not an object, uses a separate key. */
function withMoved(metadata: Metadata, moved: readonly MetadataEntry[]): Metadata {
  if (moved.length === 0) return metadata;
  const held = metadata.get(SOURCE_KEY);
  if (held !== undefined && held.type !== "map") {
    return metadata.with(`${SOURCE_KEY}.upgrade`, { type: "map", entries: moved });
  }
  const kept = (held?.entries ?? []).filter(({ key }) => !moved.some((entry) => entry.key === key));
  return metadata.with(SOURCE_KEY, { type: "map", entries: [...kept, ...moved] });
}

/** The value as JSON gives it back: JSON has one kind of integer and one kind of float. */
function jsonValue(value: MetadataValue): MetadataValue {
  switch (value.type) {
    case "map":
      return {
        type: "map",
        entries: value.entries.map((entry) => ({ key: entry.key, value: jsonValue(entry.value) })),
      };
    case "array": {
      const items = value.slice().map(jsonValue);
      const [first] = items;
      return arrayValue(items, items.every((item) => item.type === first?.type) ? first?.type : undefined);
    }
    case "f32":
      return { type: "f64", value: value.value };
    case "u8":
    case "i8":
    case "u16":
    case "i16":
    case "u32":
    case "i32":
    case "u64":
      return value.value < 2n ** 63n ? { type: "i64", value: value.value } : value;
    default:
      return value;
  }
}
