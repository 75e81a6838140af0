import type { Bytes } from "../base/bytes.ts";
import type { Sink } from "../bytes/sink.ts";
import type { Engine } from "../primitives/engine.ts";

/** A Sink that takes the CRC-32 of what passes through it on the way to another one. */
export class CrcSink implements Sink {
  readonly label: string;
  readonly #sink: Sink;
  readonly #engine: Engine;
  #crc: Promise<number> = Promise.resolve(0);
  #byteLength = 0;

  constructor(sink: Sink, engine: Engine) {
    this.label = sink.label;
    this.#sink = sink;
    this.#engine = engine;
  }

  get position(): number {
    return this.#sink.position;
  }

  /** Bytes that have passed. */
  get byteLength(): number {
    return this.#byteLength;
  }

  async append(bytes: Bytes): Promise<void> {
    this.#byteLength += bytes.byteLength;
    const written = this.#sink.append(bytes);
    this.#crc = this.#crc.then((crc) => this.#engine.crc32(bytes, crc));
    await Promise.all([written, this.#crc]);
  }

  /** Of everything that has been appended. */
  crc(): Promise<number> {
    return this.#crc;
  }

  commit(): Promise<void> {
    return this.#sink.commit();
  }

  abort(): Promise<void> {
    return this.#sink.abort();
  }
}
