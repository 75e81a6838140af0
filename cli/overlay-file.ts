import { readFile } from "node:fs/promises";
import { decodeOverlay, type MetadataOverlay } from "../src/operations/metadata-overlay.ts";
import { fileError } from "../src/platform/node/errors.ts";

/** The JSON object that `--metadata` names. */
export async function readOverlay(path: string): Promise<MetadataOverlay> {
  let bytes: Uint8Array<ArrayBuffer>;
  try {
    bytes = new Uint8Array(await readFile(path));
  } catch (error) {
    throw fileError(error, "Cannot read --metadata", { source: path });
  }
  return decodeOverlay(bytes, path);
}
