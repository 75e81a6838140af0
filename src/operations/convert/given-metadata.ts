import type { Bytes } from "../../base/bytes.ts";
import { UnsupportedError, UsageError } from "../../base/errors.ts";
import { isConfiguration } from "../../model/configuration.ts";
import type { FormatWriter } from "../../model/format.ts";
import { Metadata, type MetadataEntry, type MetadataValue, stringValue } from "../../model/metadata.ts";
import { decodeGivenJson, MAX_GIVEN_VALUES } from "../../model/metadata-json.ts";
import { checkEditable, type EnteredValue, fitValue } from "../stamp/values.ts";

/** Metadata that the caller of a conversion gives. Each part is laid over those before it. */
export interface GivenMetadata {
  readonly overlay?: MetadataOverlay | undefined;
  /** The model's name and architecture, under the keys that the format has for them. */
  readonly modelName?: string | undefined;
  readonly architecture?: string | undefined;
  /** Single keys, typed as in `stamp`. */
  readonly set?: readonly (readonly [key: string, entered: EnteredValue])[] | undefined;
}

/** A JSON object whose members are laid over a model's metadata. */
export interface MetadataOverlay {
  readonly entries: readonly MetadataEntry[];
}

/** Reads the overlay; refuses anything but one JSON object. */
export function decodeOverlay(bytes: Bytes, label: string): MetadataOverlay {
  const place = { source: label, offset: 0, maxValues: MAX_GIVEN_VALUES, what: "the metadata to lay over" };
  return { entries: decodeGivenJson(bytes, place) };
}

/** The metadata with everything that was given, in the types that the format to be written has. */
export function withGiven(metadata: Metadata, given: GivenMetadata, target?: FormatWriter): Metadata {
  const { overlay, set = [] } = given;
  const laid = overlay === undefined ? metadata : overlayMetadata(metadata, overlay, valuesOf(target));
  const named = withNames(laid, given, target);
  return set.reduce((edited, [key, entered]) => {
    checkEditable(key, target?.restamp?.fixedKeys ?? [], "metadata");
    return edited.with(key, fitValue(key, entered, edited.get(key), valuesOf(target)));
  }, named);
}

type Values = Parameters<typeof fitValue>[3];

/** A set of files has no place of its own that could be stamped; its metadata is JSON. */
function valuesOf(target: FormatWriter | undefined): Values {
  return target?.restamp?.values ?? "json";
}

/**
 * The metadata with the overlay's members set. A Hugging Face configuration has neither `architecture` as an object nor
 * `apr_version`. It becomes `architecture` as a whole, and its `model_type` also becomes the model's.
 */
export function overlayMetadata(metadata: Metadata, { entries }: MetadataOverlay, values: Values = "json"): Metadata {
  const own = new Metadata(entries);
  const isApr = own.get("apr_version") !== undefined || own.get("architecture")?.type === "map";
  if (isApr) return entries.reduce((laid, { key, value }) => laid.with(key, value), metadata);
  if (!isConfiguration(own)) {
    return entries.reduce((laid, { key, value }) => laid.with(key, fitted(key, value, laid, values)), metadata);
  }
  const type = own.text("model_type") ?? metadata.text("model_type") ?? "unknown";
  return metadata.with("model_type", stringValue(type)).with("architecture", { type: "map", entries });
}

/** A value that the format has no type for stays as it is: it travels in `tare.origin`. */
function fitted(key: string, value: MetadataValue, metadata: Metadata, values: Values): MetadataValue {
  try {
    return fitValue(key, { value }, metadata.get(key), values);
  } catch (error) {
    if (error instanceof UnsupportedError) return value;
    throw error;
  }
}

/** The keys under which formats and people write a model's name. One that is there must not contradict the new one. */
const NAME_KEYS = ["general.name", "model_name", "name", "modelspec.title"] as const;

function withNames(metadata: Metadata, { modelName, architecture }: GivenMetadata, target?: FormatWriter): Metadata {
  const { naming } = target ?? {};
  let named = metadata;
  if (modelName !== undefined) {
    const key = keyFor(naming?.model, "modelName", target);
    const others = NAME_KEYS.filter((other) => metadata.text(other) !== undefined);
    named = [...others, key].reduce((laid, name) => laid.with(name, stringValue(modelName)), named);
  }
  if (architecture === undefined) return named;
  return named.with(keyFor(naming?.architecture, "architecture", target), stringValue(architecture));
}

function keyFor(key: string | undefined, option: string, target: FormatWriter | undefined): string {
  if (key !== undefined) return key;
  const format = target?.format.name ?? "this format";
  const message = `Cannot use the option ${option} with ${format}: the format has no place for it`;
  throw new UsageError("usage/write-option", message, { source: "options" });
}
