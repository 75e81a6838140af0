import { isTareError } from "../../../base/errors.ts";
import { encodeUtf8, isWellFormed } from "../../../base/text.ts";
import { configuredType, type ModelFolder } from "../../../model/configuration.ts";
import { type Metadata, type MetadataEntry, type MetadataValue, stringValue } from "../../../model/metadata.ts";
import { fingerprint } from "../../../model/metadata-json.ts";
import { addedEntry, type Holding, packMetadata, retypeLike } from "../../../model/origin/metadata.ts";
import { type CarriedTensor, encodeOrigin, ORIGIN_KEY, type OriginLink } from "../../../model/origin/origin.ts";
import { decodeMjsn, renderJsonObject, renderJsonValue } from "../chunks/metadata.ts";

/** The level for metadata, written or stamped, as the reference writer has it (docs/formats/aero.md#writing). */
export const ZSTD_LEVEL = 6;

export interface MetadataContent {
  readonly metadata: Metadata;
  /** What other formats need to write their files again. */
  readonly chain: readonly OriginLink[];
  readonly tensors: readonly CarriedTensor[];
  readonly descriptors: MetadataValue | undefined;
  readonly folder?: ModelFolder | undefined;
}

/** The MJSN and the parts of it that the manifest repeats. */
export interface PlannedMetadata {
  readonly text: string;
  readonly name: string;
  readonly architecture: string;
}

/** The reference converters' texts for a model that does not say (docs/formats/aero.md#writing). */
const NO_NAME = "converted";
const NO_ARCHITECTURE = "unknown";

/** Keys with a model's name: AERO's own first, then GGUF's, then what people write by hand. */
const NAME_KEYS = ["model_name", "general.name", "name"] as const;
const ARCHITECTURE_KEYS = ["architecture", "general.architecture", "model_type"] as const;

/** Longer arrays of another encoding are vocabularies: keeping them as stored costs a copy, not a decoding. */
const MAX_ITEMS = 64;

/**
 * The metadata as one JSON object: the keys that AERO expects, every key of the model that JSON can say exactly, and
 * `tare.origin` with everything else: order, widths of numbers, long arrays, and which keys are ours.
 */
export function planMetadata({ metadata, chain, tensors, descriptors, folder }: MetadataContent): PlannedMetadata {
  const name = firstText(metadata, NAME_KEYS) ?? told(folder?.name) ?? NO_NAME;
  const architecture =
    firstText(metadata, ARCHITECTURE_KEYS) ?? told(configuredType(folder?.configuration)) ?? NO_ARCHITECTURE;
  const source = chain[0]?.format;
  const expected: MetadataEntry[] = [
    { key: "model_name", value: stringValue(name) },
    { key: "architecture", value: stringValue(architecture) },
    ...(source === undefined ? [] : [{ key: "source_format", value: stringValue(source) }]),
    ...(descriptors === undefined ? [] : [{ key: "quant_descriptors", value: descriptors }]),
  ];
  const owned = new Map(expected.map(({ key, value }) => [key, value]));
  const { native, entries } = packMetadata(metadata, (entry) => {
    const ours = owned.get(entry.key);
    // A model's value under one of our keys is kept if both say the same; else it is carried.
    if (ours !== undefined && !sameJson(entry.value, ours)) return "none";
    return entry.key === ORIGIN_KEY || !isWellFormed(entry.key) ? "none" : holdingOf(entry.value);
  });
  const held = new Set(native.map(({ key }) => key));
  const added = expected.filter(({ key }) => !held.has(key));
  const origin = encodeOrigin({
    chain,
    entries: [
      ...(entries ?? native.map(({ key }) => [key] as const)),
      ...added.filter(({ key }) => metadata.get(key) === undefined).map(({ key, value }) => addedEntry(key, value)),
    ],
    ...(tensors.length === 0 ? {} : { tensors }),
  });
  const members = [...native, ...added, { key: ORIGIN_KEY, value: stringValue(origin) }];
  return { text: renderJsonObject(members), name, architecture };
}

/** The first of the keys with non-empty text; the manifest can hold nothing else. */
function firstText(metadata: Metadata, keys: readonly string[]): string | undefined {
  for (const key of keys) {
    const value = metadata.get(key);
    const isText = value?.type === "string" && value.raw === undefined && isWellFormed(value.value);
    if (isText && value.value !== "") return value.value;
  }
  return undefined;
}

function told(text: string | undefined): string | undefined {
  return text === undefined || text === "" || !isWellFormed(text) ? undefined : text;
}

function sameJson(a: MetadataValue, b: MetadataValue): boolean {
  return holdingOf(a) !== "none" && renderJsonValue(a) === renderJsonValue(b);
}

/** Strings, booleans and null stay as they are; numbers lose their width and get it back from `tare.origin`. */
function holdingOf(value: MetadataValue): Holding {
  switch (value.type) {
    case "null":
      return "native";
    case "bool":
      return value.raw === undefined ? "native" : "none";
    case "string":
      return value.raw === undefined && isWellFormed(value.value) ? "native" : "none";
    case "bytes":
      return "none";
    case "array":
    case "map":
      return (value.encoded === undefined || isShort(value)) && survivesJson(value) ? "untyped" : "none";
    default:
      return survivesJson(value) ? "untyped" : "none";
  }
}

/** True if neither the value nor anything in it has more than MAX_ITEMS elements. */
function isShort(value: MetadataValue): boolean {
  if (value.type === "array") return value.length <= MAX_ITEMS && value.slice().every(isShort);
  if (value.type === "map") return value.entries.length <= MAX_ITEMS && value.entries.every((e) => isShort(e.value));
  return true;
}

/** Asks our own reader what it makes of the value, so that its rules exist only once. */
function survivesJson(value: MetadataValue): boolean {
  const text = renderJsonObject([{ key: "", value }]);
  try {
    const [entry] = decodeMjsn(encodeUtf8(text), { label: ORIGIN_KEY, offset: 0 }).entries;
    return entry !== undefined && fingerprint(retypeLike(entry.value, value)) === fingerprint(value);
  } catch (error) {
    if (isTareError(error)) return false; // NaN, half a surrogate pair, too deep: not JSON, or not JSON that we read
    throw error;
  }
}
