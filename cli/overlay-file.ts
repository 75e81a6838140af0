import { decodeOverlay, type MetadataOverlay } from "../src/operations/convert.ts";
import { readFlagFile } from "./flag-file.ts";

/** The JSON object that `--metadata` names. */
export async function readOverlay(path: string): Promise<MetadataOverlay> {
  return decodeOverlay(await readFlagFile(path, "data", "Cannot read --metadata"), path);
}
