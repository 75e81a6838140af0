import type { Source } from "../../bytes/source.ts";
import type { OpenContext } from "../../model/format.ts";
import { openShards } from "./open-shards.ts";
import { readHeader, readOpening } from "./read-header.ts";
import { type SafetensorsModel, singleFileModel } from "./safetensors-model.ts";
import { isIndexText } from "./sniff.ts";

/** Opens a SafeTensors file, or a set by its `*.safetensors.index.json`. Reads no tensor data. */
export async function openSafetensors(source: Source, context: OpenContext): Promise<SafetensorsModel> {
  const opening = await readOpening(source, context.signal);
  if (isIndexText(opening)) return openShards(source, opening, context);
  return singleFileModel(source, await readHeader(source, opening, context));
}
