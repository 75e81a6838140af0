import type { Bytes } from "../../src/base/bytes.ts";
import type {
  DigestAlgorithm,
  Engine,
  EngineEntry,
  ExtentsOptions,
  HashExtent,
  RangeOptions,
  ReadableRange,
} from "../../src/primitives/engine.ts";

type Call<K extends keyof Engine> = Engine[K] extends (...args: infer A) => infer R ? (...args: A) => R : never;

/** Passes everything on to an engine that may still have to be loaded. */
export abstract class DelegatingEngine implements Engine {
  readonly name = "pooled";
  readonly entries: readonly EngineEntry[] = [];

  protected abstract inner(): Promise<Engine>;

  async digest(algorithm: DigestAlgorithm, bytes: Bytes): Promise<Bytes> {
    return (await this.inner()).digest(algorithm, bytes);
  }

  async digestRange(algorithm: DigestAlgorithm, range: ReadableRange, options: RangeOptions): Promise<Bytes> {
    return (await this.inner()).digestRange(algorithm, range, options);
  }

  async digestExtents(
    algorithm: DigestAlgorithm,
    range: ReadableRange,
    extents: readonly HashExtent[],
    options?: ExtentsOptions,
  ): Promise<Bytes[]> {
    return (await this.inner()).digestExtents(algorithm, range, extents, options);
  }

  readonly hasher: Call<"hasher"> = async (...args) => (await this.inner()).hasher(...args);
  readonly crc32: Call<"crc32"> = async (...args) => (await this.inner()).crc32(...args);
  readonly zstdCompress: Call<"zstdCompress"> = async (...args) => (await this.inner()).zstdCompress(...args);
  readonly zstdDecompress: Call<"zstdDecompress"> = async (...args) => (await this.inner()).zstdDecompress(...args);
  readonly quantizer: Call<"quantizer"> = async () => (await this.inner()).quantizer();
  readonly lz4: Call<"lz4"> = async () => (await this.inner()).lz4();
  readonly aes: Call<"aes"> = async () => (await this.inner()).aes();
  readonly aesBlocks: Call<"aesBlocks"> = async (...args) => (await this.inner()).aesBlocks(...args);
  readonly chacha20Poly1305: Call<"chacha20Poly1305"> = async (...args) =>
    (await this.inner()).chacha20Poly1305(...args);
  readonly pbkdf2Sha1: Call<"pbkdf2Sha1"> = async (...args) => (await this.inner()).pbkdf2Sha1(...args);
  readonly inflater: Call<"inflater"> = async () => (await this.inner()).inflater();
  readonly aesGcmSiv: Call<"aesGcmSiv"> = async (...args) => (await this.inner()).aesGcmSiv(...args);
  readonly blake3Keyed: Call<"blake3Keyed"> = async (...args) => (await this.inner()).blake3Keyed(...args);
  readonly gear: Call<"gear"> = async (...args) => (await this.inner()).gear(...args);
  readonly reedSolomon: Call<"reedSolomon"> = async (...args) => (await this.inner()).reedSolomon(...args);
  readonly ed25519: Call<"ed25519"> = async () => (await this.inner()).ed25519();
  readonly argon2id: Call<"argon2id"> = async (...args) => (await this.inner()).argon2id(...args);

  async close(): Promise<void> {
    await (await this.inner()).close();
  }
}
