import type { Bytes } from "../../../base/bytes.ts";
import { FormatError, UnsupportedError } from "../../../base/errors.ts";
import { MsgpackReader } from "../../../primitives/encoding/msgpack-reader.ts";
import { HASH_BYTES } from "../layout.ts";
import type { ContentPlace } from "./tidx.ts";

/** A run of the file, end exclusive. */
export type Range = readonly [start: number, end: number];

/** What an IHSH chunk says (AIP-0001). */
export interface ControlHash {
  /** In order, without overlap. */
  readonly ranges: readonly Range[];
  readonly digest: Bytes;
}

/** Decodes the first MessagePack value: the reference pads the chunk with zeros to 256 bytes, the text of the AIP does not. */
export function decodeIhsh(content: Bytes, place: ContentPlace): ControlHash {
  const decoder = new IhshDecoder(content, place);
  return decoder.run();
}

class IhshDecoder {
  readonly #reader: MsgpackReader;
  #algo: string | undefined;
  #ranges: readonly Range[] | undefined;
  #digest: Bytes | undefined;

  constructor(content: Bytes, place: ContentPlace) {
    const where = { source: place.label, base: place.offset, what: "AERO IHSH", path: "ihsh" };
    this.#reader = new MsgpackReader(content, where);
  }

  run(): ControlHash {
    const reader = this.#reader;
    for (let left = reader.readMapHeader(); left > 0; left--) {
      const key = reader.readKey();
      if (key === "algo") this.#algo = reader.readString(key);
      else if (key === "covered_ranges") this.#ranges = this.#readRanges(key);
      else if (key === "digest") this.#digest = reader.readBin(key);
      else reader.skip(key);
    }
    if (this.#algo !== "blake3-256") {
      const message = `Cannot check AERO IHSH: algo must be "blake3-256", found ${JSON.stringify(this.#algo)}`;
      throw new UnsupportedError("unsupported/aero.algo", message, this.#reader.at("algo", 0));
    }
    if (this.#ranges === undefined || this.#ranges.length === 0) throw this.#fault("must have covered_ranges");
    if (this.#digest?.byteLength !== HASH_BYTES) {
      throw this.#fault(`digest must have ${HASH_BYTES} bytes, found ${this.#digest?.byteLength ?? "none"}`);
    }
    return { ranges: this.#ranges, digest: this.#digest };
  }

  /** In order and apart, so that no list, however long, makes us read more than the file. */
  #readRanges(path: string): Range[] {
    const reader = this.#reader;
    const ranges: Range[] = [];
    let position = 0;
    for (let left = reader.readArrayHeader(path); left > 0; left--) {
      if (reader.readArrayHeader(path) !== 2) throw this.#fault("covered_ranges must hold pairs");
      const start = reader.readUint(path);
      const end = reader.readUint(path);
      if (start < position || end < start) {
        throw this.#fault(`covered_ranges must be in order, found ${start} to ${end} behind ${position}`);
      }
      ranges.push([start, end]);
      position = end;
    }
    return ranges;
  }

  #fault(problem: string): FormatError {
    return new FormatError("format/aero.ihsh", `Cannot read AERO IHSH: ${problem}`, this.#reader.at());
  }
}
