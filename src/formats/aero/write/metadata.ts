import { isTareError } from "../../../base/errors.ts";
import { encodeUtf8 } from "../../../base/text.ts";
import { type Metadata, type MetadataEntry, type MetadataValue, stringValue } from "../../../model/metadata.ts";
import { fingerprint } from "../../../model/metadata-json.ts";
import { type CarriedTensor, encodeOrigin, ORIGIN_KEY, type OriginLink } from "../../../model/origin.ts";
import { addedEntry, type Holding, packMetadata, retypeLike } from "../../../model/origin-metadata.ts";
import { decodeMjsn, renderJsonObject, renderJsonValue } from "../chunks/metadata.ts";
import { isWellFormed } from "./tensors.ts";

export interface MetadataContent {
  readonly metadata: Metadata;
  /** What others need to write their files again. */
  readonly chain: readonly OriginLink[];
  readonly tensors: readonly CarriedTensor[];
  readonly descriptors: MetadataValue | undefined;
}

/** The MJSN and what the manifest repeats of it. */
export interface PlannedMetadata {
  readonly text: string;
  readonly name: string;
  readonly architecture: string;
}

/** The reference converters' words where a model does not say (formats/aero.md 5.2). */
const NO_NAME = "converted";
const NO_ARCHITECTURE = "unknown";

/** Where formats say what a model is called: AERO's own key first, then GGUF's, then what people write by hand. */
const NAME_KEYS = ["model_name", "general.name", "name"] as const;
const ARCHITECTURE_KEYS = ["architecture", "general.architecture", "model_type"] as const;

/** Longer arrays of another encoding are vocabularies: kept as stored, they cost a copy, not a decoding. */
const MAX_ITEMS = 64;

/**
 * The metadata as one JSON object: the keys that AERO expects, every key of the model that JSON can say exactly, and
 * `tare.origin` with everything else: order, widths of numbers, long arrays, and which keys are ours.
 */
export function planMetadata({ metadata, chain, tensors, descriptors }: MetadataContent): PlannedMetadata {
  const name = firstText(metadata, NAME_KEYS) ?? NO_NAME;
  const architecture = firstText(metadata, ARCHITECTURE_KEYS) ?? NO_ARCHITECTURE;
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
    // A value of the model under a key of ours stands where both say the same; else it is carried.
    if (ours !== undefined && !sameJson(entry.value, ours)) return "none";
    return entry.key === ORIGIN_KEY || !isWellFormed(entry.key) ? "none" : holdingOf(entry.value);
  });
  const held = new Set(native.map(({ key }) => key));
  const added = expected.filter(({ key }) => !held.has(key));
  const origin = encodeOrigin({
    chain,
    entries: [
      ...(entries ?? native.map(({ key }) => [key] as const)),
      ...added.filter(({ key }) => metadata.get(key) === undefined).map(({ key }) => addedEntry(key)),
    ],
    ...(tensors.length === 0 ? {} : { tensors }),
  });
  const members = [...native, ...added, { key: ORIGIN_KEY, value: stringValue(origin) }];
  return { text: renderJsonObject(members), name, architecture };
}

/** The first of the keys that holds some text; the manifest can say nothing else. */
function firstText(metadata: Metadata, keys: readonly string[]): string | undefined {
  for (const key of keys) {
    const value = metadata.get(key);
    const isText = value?.type === "string" && value.raw === undefined && isWellFormed(value.value);
    if (isText && value.value !== "") return value.value;
  }
  return undefined;
}

function sameJson(a: MetadataValue, b: MetadataValue): boolean {
  return holdingOf(a) !== "none" && renderJsonValue(a) === renderJsonValue(b);
}

/** Strings, booleans and null are what they are; numbers lose their width and get it back from `tare.origin`. */
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

/** True where neither the value nor anything in it has more than so many elements. */
function isShort(value: MetadataValue): boolean {
  if (value.type === "array") return value.length <= MAX_ITEMS && value.slice().every(isShort);
  if (value.type === "map") return value.entries.length <= MAX_ITEMS && value.entries.every((e) => isShort(e.value));
  return true;
}

/** Asks our own reader what it would make of the value, instead of knowing its rules a second time. */
function survivesJson(value: MetadataValue): boolean {
  const text = renderJsonObject([{ key: "", value }]);
  try {
    const [entry] = decodeMjsn(encodeUtf8(text), { label: ORIGIN_KEY, offset: 0 }).entries;
    return entry !== undefined && fingerprint(retypeLike(entry.value, value)) === fingerprint(value);
  } catch (error) {
    if (isTareError(error)) return false; // NaN, half a surrogate pair, too deep: no JSON, or none that is read
    throw error;
  }
}
