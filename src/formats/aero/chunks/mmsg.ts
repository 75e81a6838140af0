import type { Bytes } from "../../../base/bytes.ts";
import { MsgpackReader } from "../../../primitives/encoding/msgpack-reader.ts";
import type { ContentPlace } from "./tidx.ts";

/** The part of the manifest that says something the tables do not; its lists of chunks and shards repeat the TOC. */
export interface Manifest {
  readonly name?: string;
  readonly architecture?: string;
}

/** Walks the whole manifest, so that damage anywhere in it is found; keeps the model's name and architecture. */
export function decodeMmsg(content: Bytes, place: ContentPlace): Manifest {
  const reader = new MsgpackReader(content, { source: place.label, base: place.offset, what: "AERO MMSG" });
  let manifest: Manifest = {};
  for (let left = reader.readMapHeader("mmsg"); left > 0; left--) {
    const key = reader.readKey("mmsg");
    if (key === "model" && reader.peekType(key) === "map") manifest = readModel(reader);
    else reader.skip(key);
  }
  reader.checkEnd("mmsg");
  return manifest;
}

function readModel(reader: MsgpackReader): Manifest {
  const found: { name?: string; architecture?: string } = {};
  for (let left = reader.readMapHeader("model"); left > 0; left--) {
    const key = reader.readKey("model");
    const isText = reader.peekType(`model.${key}`) === "string";
    if (isText && (key === "name" || key === "architecture")) found[key] = reader.readString(`model.${key}`);
    else reader.skip(`model.${key}`);
  }
  return found;
}
