import type { Bytes } from "../../src/base/bytes.ts";

/** A number in a GGUF header, and what it means. */
export interface GgufField {
  readonly kind: "version" | "count" | "length" | "type" | "rank" | "dimension" | "offset" | "value";
  readonly offset: number;
  readonly width: 1 | 2 | 4 | 8;
}

/** A run of a GGUF header. */
export interface GgufSpan {
  readonly kind: "key-value" | "tensor-info" | "text";
  readonly offset: number;
  readonly end: number;
}

export interface GgufMap {
  readonly fields: readonly GgufField[];
  readonly spans: readonly GgufSpan[];
}

const WIDTHS: readonly (1 | 2 | 4 | 8 | undefined)[] = [1, 1, 2, 2, 4, 4, 4, 1, undefined, undefined, 8, 8, 8];
/** Enough for any file of the corpus; a mutated count must not make the map long. */
const MOST = 500;

/** Where things stand in a little-endian GGUF file; as far as it makes sense where the file is damaged. Not the reader. */
export function mapGguf(bytes: Bytes): GgufMap {
  const mapper = new Mapper(bytes);
  mapper.run();
  return mapper;
}

class Mapper implements GgufMap {
  readonly fields: GgufField[] = [];
  readonly spans: GgufSpan[] = [];
  readonly #view: DataView;
  #at = 4;

  constructor(bytes: Bytes) {
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  run(): void {
    this.#take("version", 4);
    const tensors = this.#take("count", 8);
    const keys = this.#take("count", 8);
    for (let i = 0; i < keys && this.#isFine(); i++) this.#keyValue();
    for (let i = 0; i < tensors && this.#isFine(); i++) this.#tensorInfo();
  }

  #isFine(): boolean {
    return this.fields.length < MOST && this.#at < this.#view.byteLength;
  }

  /** Reads a field and goes past it; 0 and the end where there is no room. */
  #take(kind: GgufField["kind"], width: GgufField["width"]): number {
    const offset = this.#at;
    this.#at += width;
    if (this.#at > this.#view.byteLength) {
      this.#at = this.#view.byteLength;
      return 0;
    }
    this.fields.push({ kind, offset, width });
    if (width === 8) return Math.min(Number(this.#view.getBigUint64(offset, true)), this.#view.byteLength);
    return width === 4 ? this.#view.getUint32(offset, true) : this.#view.getUint8(offset);
  }

  #text(): void {
    const start = this.#at;
    const length = this.#take("length", 8);
    this.#at = Math.min(this.#at + length, this.#view.byteLength);
    this.spans.push({ kind: "text", offset: start, end: this.#at });
  }

  #keyValue(): void {
    const start = this.#at;
    this.#text();
    this.#value(this.#take("type", 4));
    this.spans.push({ kind: "key-value", offset: start, end: this.#at });
  }

  #value(type: number): void {
    if (!this.#isFine()) return;
    const width = WIDTHS[type];
    if (width !== undefined) this.#take("value", width);
    else if (type === 8) this.#text();
    else if (type === 9) {
      const elementType = this.#take("type", 4);
      const count = this.#take("count", 8);
      for (let i = 0; i < count && this.#isFine(); i++) this.#value(elementType);
    }
  }

  #tensorInfo(): void {
    const start = this.#at;
    this.#text();
    const rank = this.#take("rank", 4);
    for (let i = 0; i < rank && this.#isFine(); i++) this.#take("dimension", 8);
    this.#take("type", 4);
    this.#take("offset", 8);
    this.spans.push({ kind: "tensor-info", offset: start, end: this.#at });
  }
}
