import { UsageError } from "../base/errors.ts";
import { printable } from "../base/text.ts";
import type { Metadata, MetadataValue } from "../model/metadata.ts";
import { nearNames } from "../model/model.ts";

/** The value of one key; refuses a key that is not there, with near ones as the hint. */
export function metadataValue(metadata: Metadata, key: string, label: string): MetadataValue {
  const value = metadata.get(key);
  if (value !== undefined) return value;
  const near = nearNames(
    key,
    metadata.entries.map((entry) => entry.key),
  );
  const hint =
    near.length === 0
      ? "List the keys with: tare meta"
      : `Did you mean ${near.map((name) => `"${printable(name)}"`).join(", ")}?`;
  const message = `Cannot find the key "${printable(key)}" in the metadata`;
  throw new UsageError("usage/key-not-found", message, { source: label }, { hint });
}
