import type { Bytes } from "../../../base/bytes.ts";
import { decodeUtf8 } from "../../../base/text.ts";
import { MsgpackReader } from "../../../primitives/encoding/msgpack-reader.ts";
import { VERSION } from "../layout.ts";
import type { FurtherKeys } from "./further-keys.ts";
import type { ContentPlace } from "./tidx.ts";

/** The part of the manifest that says something the tables do not; its lists of chunks and shards repeat the TOC. */
export interface Manifest {
  readonly name?: string;
  readonly architecture?: string;
}

/** What the lists have in each row (formats/aero.md 1.5): it is made anew with the tables. */
const ROW_KEYS: Readonly<Record<string, readonly string[]>> = {
  chunks: ["role", "fourcc", "toc_index", "shard_id"],
  shards: ["shard_id", "toc_index", "size_bytes", "tensor_count", "mmap_critical"],
};

/**
 * Walks the whole manifest, so that damage anywhere in it is found; keeps the model's name and architecture, and hands
 * the keys that the specification does not name to `further`.
 */
export function decodeMmsg(content: Bytes, place: ContentPlace, further?: FurtherKeys): Manifest {
  return new MmsgDecoder(content, place, further).run();
}

class MmsgDecoder {
  readonly #content: Bytes;
  readonly #reader: MsgpackReader;
  readonly #further: FurtherKeys | undefined;

  constructor(content: Bytes, place: ContentPlace, further: FurtherKeys | undefined) {
    this.#content = content;
    this.#reader = new MsgpackReader(content, { source: place.label, base: place.offset, what: "AERO MMSG" });
    this.#further = further;
  }

  run(): Manifest {
    const reader = this.#reader;
    let manifest: Manifest = {};
    const seen = new Set<string>();
    for (let left = reader.readMapHeader("mmsg"); left > 0; left--) {
      const start = reader.offset;
      const key = reader.readKey("mmsg");
      const isKnown = key === "model" || key === "format" || Object.hasOwn(ROW_KEYS, key);
      if (isKnown && seen.has(key)) this.#further?.unplaced(`MMSG.${key}, the second of that name`);
      seen.add(key);
      if (key === "model" && reader.peekType(key) === "map") manifest = this.#readModel();
      else if (key === "format") this.#readFormat();
      else if (Object.hasOwn(ROW_KEYS, key)) this.#readRows(key, ROW_KEYS[key] ?? []);
      else {
        reader.skip(key);
        if (isKnown) this.#further?.unplaced(`MMSG.${key}`);
        else this.#further?.manifest(key, this.#content.subarray(start, reader.offset));
      }
    }
    reader.checkEnd("mmsg");
    return manifest;
  }

  #readModel(): Manifest {
    const reader = this.#reader;
    const found: { name?: string; architecture?: string } = {};
    for (let left = reader.readMapHeader("model"); left > 0; left--) {
      const start = reader.offset;
      const key = reader.readKey("model");
      const isText = reader.peekType(`model.${key}`) === "string";
      const isKnown = key === "name" || key === "architecture";
      if (isText && isKnown) {
        found[key] = reader.readString(`model.${key}`);
        continue;
      }
      reader.skip(`model.${key}`);
      if (isKnown) this.#further?.unplaced(`MMSG.model.${key}, which is no text`);
      else this.#further?.model(key, this.#content.subarray(start, reader.offset));
    }
    return found;
  }

  /** A new manifest says AERO 0.1: whatever else stands there is told. */
  #readFormat(): void {
    const reader = this.#reader;
    if (reader.peekType("format") !== "map") {
      reader.skip("format");
      this.#further?.unplaced("MMSG.format");
      return;
    }
    for (let left = reader.readMapHeader("format"); left > 0; left--) {
      const key = this.#readAnyText("format");
      const start = reader.offset;
      const isUsual = key === "name" && this.#readAnyText("format.name") === FORMAT_NAME;
      if (key !== "name") reader.skip("format");
      if (isUsual || (key === "version" && isVersion(this.#content.subarray(start, reader.offset)))) continue;
      this.#further?.unplaced(`MMSG.format.${key ?? "?"}`);
    }
  }

  #readRows(list: string, known: readonly string[]): void {
    const reader = this.#reader;
    if (reader.peekType(list) !== "array") {
      reader.skip(list);
      this.#further?.unplaced(`MMSG.${list}`);
      return;
    }
    for (let left = reader.readArrayHeader(list); left > 0; left--) {
      if (reader.peekType(list) !== "map") {
        reader.skip(list);
        this.#further?.unplaced(`MMSG.${list}`);
        continue;
      }
      for (let members = reader.readMapHeader(list); members > 0; members--) {
        const key = this.#readAnyText(list);
        const isFalse = reader.peekType(list) === "bool" && this.#content[reader.offset] === FALSE;
        reader.skip(list);
        // `mmap_critical` is true in every manifest that is made: another value would be lost.
        if (key === undefined || !known.includes(key) || isFalse) {
          this.#further?.unplaced(`MMSG.${list}[].${key ?? "?"}`);
        }
      }
    }
  }

  /** Undefined for what is no text, or no UTF-8: where nobody reads it, that is no damage. */
  #readAnyText(path: string): string | undefined {
    const reader = this.#reader;
    if (reader.peekType(path) === "string") return decodeUtf8(reader.readTextBytes(path));
    reader.skip(path);
    return undefined;
  }
}

/** MessagePack's byte for false. */
const FALSE = 0xc2;

/** What `format.name` is (formats/aero.md 1.5). */
const FORMAT_NAME = "AERO";

/** `value` is one whole value: it has been walked over. */
function isVersion(value: Bytes): boolean {
  const reader = new MsgpackReader(value, { source: "", base: 0 });
  if (reader.peekType() !== "array" || reader.readArrayHeader() !== 2) return false;
  const numbers = [VERSION.major, VERSION.minor];
  return numbers.every((number) => reader.peekType() === "integer" && reader.readInteger() === number);
}
