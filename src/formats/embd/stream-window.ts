import type { Bytes } from "../../base/bytes.ts";
import { FormatError } from "../../base/errors.ts";
import type { Source } from "../../bytes/source.ts";

/** One read on the way from record to record: small tensors lie inside it, so that they cost none of their own. */
const WINDOW_BYTES = 32 << 10;

/** Small reads at growing offsets, served from a window that moves along. */
export class StreamWindow {
  readonly #source: Source;
  readonly #signal: AbortSignal | undefined;
  #start = 0;
  #bytes: Bytes;

  constructor(source: Source, opening: Bytes, signal: AbortSignal | undefined) {
    this.#source = source;
    this.#bytes = opening;
    this.#signal = signal;
  }

  /** Exactly these bytes; a file that ends before is refused, with the field's path. */
  async take(offset: number, byteLength: number, path: string): Promise<Bytes> {
    const { label, byteLength: size } = this.#source;
    if (offset + byteLength > size) {
      const message = `Cannot read EMBD stream: ${byteLength} bytes must follow at ${offset}, found ${Math.max(0, size - offset)}`;
      const hint = "The file was cut short: download or copy it again";
      throw new FormatError("format/embd.truncated", message, { source: label, offset, path }, { hint });
    }
    if (offset < this.#start || offset + byteLength > this.#start + this.#bytes.byteLength) {
      const length = Math.min(Math.max(byteLength, WINDOW_BYTES), size - offset);
      this.#bytes = await this.#source.read(offset, length, { signal: this.#signal });
      this.#start = offset;
    }
    return this.#bytes.subarray(offset - this.#start, offset - this.#start + byteLength);
  }

  async u32(offset: number, path: string): Promise<number> {
    const bytes = await this.take(offset, 4, path);
    return new DataView(bytes.buffer, bytes.byteOffset).getUint32(0, true);
  }
}
