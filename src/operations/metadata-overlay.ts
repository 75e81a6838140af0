import type { Bytes } from "../base/bytes.ts";
import { Metadata, type MetadataEntry, stringValue } from "../model/metadata.ts";
import { decodeMetadataJson } from "../model/metadata-json.ts";

/** Values of one JSON file; no configuration has more. */
const MAX_VALUES = 4_000_000;

/** A JSON object whose members are laid over a model's metadata. */
export interface MetadataOverlay {
  readonly entries: readonly MetadataEntry[];
}

/** Reads the overlay; refuses what is not one JSON object. */
export function decodeOverlay(bytes: Bytes, label: string): MetadataOverlay {
  const place = { source: label, offset: 0, maxValues: MAX_VALUES, what: "the metadata to lay over" };
  return { entries: decodeMetadataJson(bytes, place).entries };
}

/**
 * The metadata with the overlay's members set. A model's configuration, as Hugging Face keeps it beside the weights, has
 * neither `architecture` as an object nor `apr_version`: all of it becomes `architecture`, its `model_type` also the
 * model's.
 */
export function overlayMetadata(metadata: Metadata, { entries }: MetadataOverlay): Metadata {
  const own = new Metadata(entries);
  const isOverlay = own.get("apr_version") !== undefined || own.get("architecture")?.type === "map";
  if (isOverlay) return entries.reduce((laid, { key, value }) => laid.with(key, value), metadata);
  const type = own.text("model_type") ?? metadata.text("model_type") ?? "unknown";
  return metadata.with("model_type", stringValue(type)).with("architecture", { type: "map", entries });
}
