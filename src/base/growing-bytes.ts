import type { Bytes } from "./bytes.ts";

/** A buffer that writers append to. Its bytes and view are other ones after `grow`, so they are taken afterwards. */
export class GrowingBytes {
  bytes: Bytes;
  view: DataView<ArrayBuffer>;
  byteLength = 0;

  constructor(capacity: number) {
    this.bytes = new Uint8Array(capacity);
    this.view = new DataView(this.bytes.buffer);
  }

  /** Makes room behind what is there, and returns where it begins. */
  grow(byteLength: number): number {
    const start = this.byteLength;
    this.byteLength = start + byteLength;
    if (this.byteLength > this.bytes.byteLength) {
      const grown = new Uint8Array(Math.max(2 * this.bytes.byteLength, this.byteLength));
      grown.set(this.bytes.subarray(0, start));
      this.bytes = grown;
      this.view = new DataView(grown.buffer);
    }
    return start;
  }

  append(bytes: Bytes): void {
    const start = this.grow(bytes.byteLength);
    this.bytes.set(bytes, start);
  }

  /** What was written since the start or the last call; the buffer begins anew. */
  take(): Bytes {
    const taken = this.bytes.slice(0, this.byteLength);
    this.byteLength = 0;
    return taken;
  }
}
