import { type Metadata, stringValue } from "../model/metadata.ts";
import { type CarriedEntry, encodeOrigin, ORIGIN_KEY, parseOrigin } from "../model/origin.ts";

/**
 * The metadata with what `tare.origin` says of a key brought in line with an edit of it: a value that only the origin
 * carried must not come back in the next conversion, and a key that a writer had added is the model's own once it was
 * set. The type of a value that the file holds as text or as a plain number stays.
 */
export function reviseOrigin(metadata: Metadata, key: string, edit: "set" | "unset"): Metadata {
  const text = metadata.text(ORIGIN_KEY);
  const origin = text === undefined ? undefined : parseOrigin(text);
  const entry = origin?.entries?.find(([name]) => name === key);
  if (origin?.entries === undefined || entry === undefined) return metadata;
  const isHeld = entry.length === 1 || (entry.length === 2 && entry[1] !== "added");
  if (edit === "set" && isHeld) return metadata;
  const entries = origin.entries.flatMap((other): CarriedEntry[] => {
    if (other[0] !== key) return [other];
    return edit === "set" ? [[key]] : [];
  });
  return metadata.with(ORIGIN_KEY, stringValue(encodeOrigin({ ...origin, entries })));
}
