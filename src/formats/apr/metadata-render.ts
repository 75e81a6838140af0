import type { MetadataEntry } from "../../model/metadata.ts";
import { renderMembers } from "../../model/metadata-json.ts";

export { fingerprint } from "../../model/metadata-json.ts";

/** Compact JSON in the order given, text as it is. */
export function renderMetadata(entries: readonly MetadataEntry[]): string {
  return renderMembers(entries, JSON.stringify);
}
