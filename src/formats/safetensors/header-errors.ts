import { FormatError, type Location } from "../../base/errors.ts";
import { formatShape } from "../../model/shape.ts";
import type { JsonScanner } from "../../struct/json-scanner.ts";
import type { ScannedEntry } from "./standard-entry.ts";

/** The words for what a header gets wrong. Locations count bytes from the start, so they are made on failure only. */
export class HeaderErrors {
  readonly #scanner: JsonScanner;

  constructor(scanner: JsonScanner) {
    this.#scanner = scanner;
  }

  /** The location of a character, under the key and field that a reader of the JSON would look for. */
  at(name: string, index: number, field?: string): Location {
    const key = JSON.stringify(name);
    return this.#scanner.locate(index, field === undefined ? key : `${key}.${field}`);
  }

  schema(name: string, index: number, problem: string, field?: string): FormatError {
    const message = `Cannot read SafeTensors header: ${field ?? JSON.stringify(name)} ${problem}`;
    return new FormatError("format/safetensors.header", message, this.at(name, index, field));
  }

  duplicate(name: string, index: number, field?: string): FormatError {
    const at = this.at(name, index, field);
    const message = `Cannot read SafeTensors header: keys must be unique, found ${at.path} twice`;
    return new FormatError("format/safetensors.duplicate-key", message, at);
  }

  /** Says which of the three rules a range breaks: order, whole bytes, or size. */
  size(name: string, index: number, { row, shape, elementCount, begin, end }: ScannedEntry): FormatError {
    const bits = elementCount * row.bits;
    const at = this.at(name, index, "data_offsets");
    if (end < begin) {
      const message = `Cannot read SafeTensors header: data_offsets must not end before they begin, found [${begin}, ${end}]`;
      return new FormatError("format/safetensors.offsets", message, at);
    }
    if (bits % 8 !== 0) {
      const message = `Cannot read SafeTensors header: ${elementCount} elements of ${row.dtype} must be whole bytes, found ${bits} bits`;
      return new FormatError("format/safetensors.partial-byte", message, this.at(name, index, "shape"));
    }
    const wanted = `${row.dtype} ${formatShape(shape).slice(0, 200)} must take ${bits / 8} bytes`;
    const message = `Cannot read SafeTensors header: ${wanted}, found data_offsets [${begin}, ${end}]`;
    return new FormatError("format/safetensors.size-mismatch", message, at);
  }
}
