import type { Bytes } from "../../base/bytes.ts";
import { decodeMetadataJson, type MetadataJson } from "../../model/metadata-json.ts";

/** Where the JSON stands and how much of it may be built. */
export interface MetadataPlace {
  readonly source: string;
  readonly offset: number;
  /** JSON values in all. */
  readonly maxValues: number;
}

/** The metadata of any APR layout; what pads it to metadata_size is told. */
export function decodeMetadata(bytes: Bytes, place: MetadataPlace): MetadataJson {
  const noObject = { code: "format/apr.metadata", path: "metadata" } as const;
  return decodeMetadataJson(bytes, { ...place, what: "APR metadata", noObject });
}
