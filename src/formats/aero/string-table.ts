import type { Bytes } from "../../base/bytes.ts";
import { FormatError, type Location } from "../../base/errors.ts";
import { decodeUtf8, findInvalidUtf8 } from "../../base/text.ts";

/** Tables up to this are decoded in one piece: a hundred thousand short names cost one call instead of as many. */
const WHOLE_BYTES = 16 << 20;

/** Chunk names by (name_off, name_len). NULs only separate them for people: readers go by the lengths. */
export class StringTable {
  readonly byteLength: number;
  readonly #bytes: Bytes;
  /** The whole table, where every byte is one character. */
  readonly #text: string | undefined;
  readonly #label: string;
  readonly #offset: number;

  constructor(bytes: Bytes, { label, offset }: { readonly label: string; readonly offset: number }) {
    this.#bytes = bytes;
    this.byteLength = bytes.byteLength;
    this.#label = label;
    this.#offset = offset;
    this.#text = bytes.byteLength <= WHOLE_BYTES && isAscii(bytes) ? decodeUtf8(bytes) : undefined;
  }

  /** `locate` is only called to refuse: a name outside the table, or one that is not UTF-8. */
  name(nameOff: number, nameLen: number, locate: () => Location): string {
    const end = nameOff + nameLen; // two u32: exact
    if (end > this.byteLength) {
      const message = `Cannot read AERO chunk name: name_off + name_len must be <= ${this.byteLength}, found ${end}`;
      throw new FormatError("format/aero.name-bounds", message, locate());
    }
    if (this.#text !== undefined) return this.#text.slice(nameOff, end);
    const bytes = this.#bytes.subarray(nameOff, end);
    const name = decodeUtf8(bytes);
    if (name !== undefined) return name;
    const message = "Cannot read AERO chunk name: must be valid UTF-8";
    throw new FormatError("format/aero.name-utf8", message, {
      source: this.#label,
      offset: this.#offset + nameOff + findInvalidUtf8(bytes),
      path: `${locate().path}.name`,
    });
  }
}

function isAscii(bytes: Bytes): boolean {
  for (let i = 0; i < bytes.length; i++) if ((bytes[i] as number) > 0x7f) return false;
  return true;
}
