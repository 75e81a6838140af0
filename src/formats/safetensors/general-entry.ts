import { FormatError, LimitError, type Location, UnsupportedError } from "../../base/errors.ts";
import { checkedMultiply, MAX_OFFSET } from "../../base/integers.ts";
import { checkLimit } from "../../base/limits.ts";
import { countElements, formatShape, type Shape } from "../../model/dtype.ts";
import type { JsonScanner } from "../../struct/json-scanner.ts";
import type { ScannedEntry } from "./fast-entry.ts";
import { type DTypeRow, dtypeRow, SAFETENSORS_DTYPES } from "./layout.ts";

const FIELDS: readonly string[] = ["dtype", "shape", "data_offsets"];
const QUOTE = 0x22;
const OPEN_BRACKET = 0x5b;
const OPEN_BRACE = 0x7b;

/** Fields of tensor entries that the format does not define; readers skip them. */
export interface FurtherFields {
  /** The first tensor that has such fields. */
  readonly name: string;
  readonly count: number;
}

/**
 * Reads any legal JSON for a tensor entry: fields in any order, unknown fields, whitespace and escapes, and the array
 * of the three values that the reference implementation's derived parser also accepts.
 */
export class GeneralEntryReader {
  readonly #scanner: JsonScanner;
  readonly #errors: HeaderErrors;
  readonly #maxDimensions: number;
  /** The first tensor with fields that the format does not define, and the number of such fields. */
  further: FurtherFields | undefined;

  constructor(scanner: JsonScanner, errors: HeaderErrors, maxDimensions: number) {
    this.#scanner = scanner;
    this.#errors = errors;
    this.#maxDimensions = maxDimensions;
  }

  /** Reads the entry at the scanner's position. */
  read(name: string, into: ScannedEntry): void {
    const scanner = this.#scanner;
    const start = scanner.position;
    let seen = 0;
    if (scanner.peek() === OPEN_BRACE) {
      scanner.readObject((key, keyIndex) => {
        const field = FIELDS.indexOf(key);
        if (field < 0) {
          this.further = { name: this.further?.name ?? name, count: (this.further?.count ?? 0) + 1 };
          return scanner.skipValue();
        }
        if ((seen & (1 << field)) !== 0) throw this.#errors.duplicate(name, keyIndex, key);
        seen |= 1 << field;
        this.#readField(name, field, into);
      });
    } else if (scanner.peek() === OPEN_BRACKET) {
      scanner.readArray((field) => {
        if (field >= FIELDS.length) throw this.#errors.schema(name, scanner.position, "must have exactly 3 items");
        seen |= 1 << field;
        this.#readField(name, field, into);
      });
    } else {
      throw this.#errors.schema(name, start, `must be an object, found ${scanner.found()}`);
    }
    const missing = FIELDS.find((_, field) => (seen & (1 << field)) === 0);
    if (missing !== undefined) throw this.#errors.schema(name, start, `must have the field "${missing}", found none`);
    this.#count(name, start, into);
  }

  #count(name: string, start: number, into: ScannedEntry): void {
    let count = 1;
    let overflows = false;
    for (const dimension of into.shape) {
      count *= dimension;
      // A later zero does not repair a product that has already left the exact integers.
      overflows ||= count > MAX_OFFSET;
    }
    if (overflows || count * into.row.bits > MAX_OFFSET) {
      const at = this.#errors.at(name, start, "shape");
      checkedMultiply(countElements(into.shape, at), into.row.bits, at);
    }
    into.elementCount = count;
  }

  #readField(name: string, field: number, into: ScannedEntry): void {
    if (field === 0) into.row = this.#readDType(name);
    else if (field === 1) into.shape = this.#readShape(name);
    else this.#readOffsets(name, into);
  }

  #readDType(name: string): DTypeRow {
    const scanner = this.#scanner;
    const start = scanner.position;
    let text: string;
    if (scanner.peek() === QUOTE) text = scanner.readString();
    else if (scanner.peek() === OPEN_BRACE) text = this.#readDTypeObject(name);
    else throw this.#errors.schema(name, start, `must be a string, found ${scanner.found()}`, "dtype");
    const row = dtypeRow(text);
    if (row !== undefined) return row;
    const message = `Cannot read SafeTensors header: dtype must be one the format knows, found ${JSON.stringify(text.slice(0, 64))}`;
    throw new UnsupportedError("unsupported/safetensors.dtype", message, this.#errors.at(name, start, "dtype"), {
      hint: `Known are ${SAFETENSORS_DTYPES.join(", ")}`,
    });
  }

  /** `{"F32": null}`: the reference implementation's parser accepts this spelling of an enumeration too. */
  #readDTypeObject(name: string): string {
    const scanner = this.#scanner;
    const start = scanner.position;
    let text: string | undefined;
    const wrong = () => this.#errors.schema(name, start, "must be a string, found an object", "dtype");
    scanner.readObject((key) => {
      if (text !== undefined || !scanner.readLiteral("null")) throw wrong();
      text = key;
    });
    if (text === undefined) throw wrong();
    return text;
  }

  #readShape(name: string): Shape {
    this.#expectArray(name, "shape");
    const dimensions: number[] = [];
    this.#scanner.readArray((item) => {
      if (item >= this.#maxDimensions) {
        const at = this.#errors.at(name, this.#scanner.position, "shape");
        checkLimit(item + 1, this.#maxDimensions, "dimensions of a tensor", "limit/safetensors.dimensions", at);
      }
      dimensions.push(this.#readInteger(name, "shape", item));
    });
    return dimensions;
  }

  #readOffsets(name: string, into: ScannedEntry): void {
    const start = this.#scanner.position;
    this.#expectArray(name, "data_offsets");
    let count = 0;
    this.#scanner.readArray((item) => {
      const value = this.#readInteger(name, "data_offsets", item);
      if (item === 0) into.begin = value;
      else into.end = value;
      count++;
      if (count > 2) throw this.#errors.schema(name, start, "must be 2 offsets, found more", "data_offsets");
    });
    if (count !== 2) throw this.#errors.schema(name, start, `must be 2 offsets, found ${count}`, "data_offsets");
  }

  #expectArray(name: string, field: string): void {
    const scanner = this.#scanner;
    if (scanner.peek() === OPEN_BRACKET) return;
    throw this.#errors.schema(name, scanner.position, `must be an array, found ${scanner.found()}`, field);
  }

  #readInteger(name: string, field: string, item: number): number {
    const scanner = this.#scanner;
    const start = scanner.position;
    const code = scanner.peek();
    const path = () => `${field}[${item}]`;
    if (!(code === 0x2d || (code >= 0x30 && code <= 0x39))) {
      throw this.#errors.schema(name, start, `must be an unsigned integer, found ${scanner.found()}`, path());
    }
    const text = scanner.readNumber();
    if (code === 0x2d || /[^0-9]/.test(text)) {
      throw this.#errors.schema(name, start, `must be an unsigned integer, found ${text.slice(0, 32)}`, path());
    }
    const value = Number(text);
    if (value <= MAX_OFFSET) return value;
    const message = `Cannot use ${text.slice(0, 32)} as an offset or length: the highest is 2^53 - 1`;
    throw new LimitError("limit/integer", message, this.#errors.at(name, start, path()), {
      hint: "The field is damaged, or the file was crafted to break readers",
    });
  }
}

/** The errors of a header. Locations count bytes from the start, so they are computed only on failure. */
export class HeaderErrors {
  readonly #scanner: JsonScanner;

  constructor(scanner: JsonScanner) {
    this.#scanner = scanner;
  }

  /** The location of a character, with the key and field that a user would look for in the JSON. */
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

  /** Tells which of the three rules a range breaks: order, whole bytes, or size. */
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
