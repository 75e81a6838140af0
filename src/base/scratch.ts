import type { Bytes } from "./bytes.ts";

/** Memory that is used again and again by jobs that run one after the other on one thread. */
export class Scratch {
  readonly #buffers = new Map<string, Bytes>();

  /** So many bytes, with anything in them: valid until this name is taken again. */
  take(name: "input" | "output", byteLength: number): Bytes {
    const known = this.#buffers.get(name);
    const buffer = known !== undefined && known.byteLength >= byteLength ? known : new Uint8Array(byteLength);
    this.#buffers.set(name, buffer);
    return buffer.subarray(0, byteLength);
  }
}
