import * as zlib from "node:zlib";
import { type Bytes, concatBytes } from "../../src/base/bytes.ts";

/** What newer versions of node:zlib have beyond the types of the oldest that is supported. */
interface ZlibWithZstd {
  readonly constants: { readonly ZSTD_c_compressionLevel: number };
  createZstdCompress(options: object): NodeJS.ReadWriteStream;
}

/** The libzstd that `streamZstd` runs on: frames of different versions differ. */
export const ZSTD_VERSION: string = process.versions["zstd"] ?? (await import("@cloudpss/zstd/napi")).ZSTD_VERSION();

/** One frame in streaming mode, without content size, as the reference writes it. */
export async function streamZstd(bytes: Bytes, level: number): Promise<Bytes> {
  const stream = await openStream(level);
  const pieces: Bytes[] = [];
  return new Promise((resolve, reject) => {
    stream.on("data", (piece: Buffer) => pieces.push(new Uint8Array(piece)));
    stream.on("error", reject);
    stream.on("end", () => resolve(concatBytes(pieces)));
    stream.end(Buffer.from(bytes));
  });
}

async function openStream(level: number): Promise<NodeJS.ReadWriteStream> {
  const { createZstdCompress, constants } = zlib as unknown as Partial<ZlibWithZstd>;
  if (createZstdCompress !== undefined && constants !== undefined) {
    return createZstdCompress({ params: { [constants.ZSTD_c_compressionLevel]: level } });
  }
  const { Compressor } = await import("@cloudpss/zstd/napi");
  return new Compressor(level);
}
