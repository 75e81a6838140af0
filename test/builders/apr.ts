import { type Bytes, concatBytes } from "../../src/base/bytes.ts";
import { encodeUtf8 } from "../../src/base/text.ts";
import { crc32Javascript } from "../../src/primitives/digest/crc32.ts";

/** One tensor of a file to be built; whatever is left out is what a sound file has. */
export interface BuiltTensor {
  readonly name: string | Bytes;
  /** Type id; 7 (U8) where absent. */
  readonly dtype?: number;
  readonly dims?: readonly (number | bigint)[];
  /** Stored bytes. */
  readonly data?: Bytes;
  readonly offset?: number | bigint;
  readonly size?: number | bigint;
  readonly rawSize?: number | bigint;
  readonly flags?: number;
}

/** A file of the specification's layout, every field of which can be wrong. */
export interface BuiltFile {
  readonly magic?: string;
  readonly version?: readonly [number, number];
  readonly flags?: number;
  readonly metadata?: string | Bytes;
  readonly tensors?: readonly BuiltTensor[];
  readonly tensorCount?: number;
  /** Of the index header. */
  readonly reserved?: number;
  /** Counted by index_size, behind the last entry. */
  readonly indexRest?: Bytes;
  readonly metadataOffset?: number;
  readonly metadataSize?: number;
  readonly indexOffset?: number;
  readonly indexSize?: number;
  readonly dataOffset?: number;
  readonly align?: number;
  /** Bytes between the data and the footer: a signature. */
  readonly beforeFooter?: Bytes;
  readonly crc?: number;
  readonly magicEnd?: string;
  readonly fileSize?: number | bigint;
}

export const APR_METADATA = '{"apr_version":"2.0.0","model_type":"test","architecture":{}}';

/** Builds the file by the specification's tables, independent of the code under test but for CRC-32. */
export function buildApr(file: BuiltFile = {}): Bytes {
  const { tensors = [], align = 64 } = file;
  const metadata = typeof file.metadata === "object" ? file.metadata : encodeUtf8(file.metadata ?? APR_METADATA);
  const data: Bytes[] = [];
  let end = 0;
  const entries = tensors.map((tensor) => {
    const bytes = tensor.data ?? new Uint8Array(0);
    const offset = Math.ceil(end / align) * align;
    data.push(new Uint8Array(offset - end), bytes);
    end = offset + bytes.byteLength;
    return encodeEntry(tensor, offset, bytes);
  });
  const index = concatBytes([
    numbers([4, file.tensorCount ?? tensors.length], [4, file.reserved ?? 0]),
    ...entries,
    file.indexRest ?? new Uint8Array(0),
  ]);
  const indexOffset = 32 + metadata.byteLength;
  const dataOffset = Math.ceil((indexOffset + index.byteLength) / 64) * 64;
  const header = concatBytes([
    encodeUtf8(file.magic ?? "APR2"),
    numbers(
      [2, file.version?.[0] ?? 2],
      [2, file.version?.[1] ?? 0],
      [4, file.flags ?? 2],
      [4, file.metadataOffset ?? 32],
      [4, file.metadataSize ?? metadata.byteLength],
      [4, file.indexOffset ?? indexOffset],
      [4, file.indexSize ?? index.byteLength],
      [4, file.dataOffset ?? dataOffset],
    ),
  ]);
  const padding = new Uint8Array(dataOffset - indexOffset - index.byteLength);
  const body = concatBytes([header, metadata, index, padding, ...data, file.beforeFooter ?? new Uint8Array(0)]);
  return concatBytes([
    body,
    numbers([4, file.crc ?? crc32Javascript(body, 0)]),
    encodeUtf8(file.magicEnd ?? "2RPA"),
    numbers([8, file.fileSize ?? body.byteLength + 16]),
  ]);
}

function encodeEntry(tensor: BuiltTensor, offset: number, data: Bytes): Bytes {
  const name = typeof tensor.name === "string" ? encodeUtf8(tensor.name) : tensor.name;
  const dims = tensor.dims ?? [data.byteLength];
  return concatBytes([
    numbers([2, name.byteLength]),
    name,
    numbers([1, tensor.dtype ?? 7], [1, dims.length], ...dims.map((dim) => [8, dim] as const)),
    numbers(
      [8, tensor.offset ?? offset],
      [8, tensor.size ?? data.byteLength],
      [8, tensor.rawSize ?? 0],
      [4, tensor.flags ?? 0],
    ),
  ]);
}

/** Little-endian numbers, each with its width in bytes. */
function numbers(...fields: readonly (readonly [width: number, value: number | bigint])[]): Bytes {
  const bytes: number[] = [];
  for (const [width, value] of fields) {
    for (let i = 0; i < width; i++) bytes.push(Number((BigInt(value) >> BigInt(8 * i)) & 0xffn));
  }
  return Uint8Array.from(bytes);
}

/** Stored blocks of a tensor: each with its length in front. */
export function aprBlocks(...blocks: readonly Bytes[]): Bytes {
  return concatBytes(blocks.flatMap((block) => [numbers([4, block.byteLength]), block]));
}

/** An LZ4 block of literals alone. */
export function literalBlock(bytes: Bytes): Bytes {
  const { byteLength } = bytes;
  if (byteLength < 15) return concatBytes([Uint8Array.of(byteLength << 4), bytes]);
  const rest = byteLength - 15;
  const lengths = [...Array(Math.floor(rest / 255)).fill(255), rest % 255] as number[];
  return concatBytes([Uint8Array.of(0xf0, ...lengths), bytes]);
}
