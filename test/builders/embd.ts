import { type Bytes, concatBytes } from "../../src/base/bytes.ts";
import { encodeUtf8 } from "../../src/base/text.ts";
import { crc32Javascript } from "../../src/primitives/digest/crc32.ts";

/** EMBD files of the specification's layout by hand: every field can be anything. */
export interface EmbdTensor {
  readonly name: string;
  /** Type code. */
  readonly dtype: number;
  readonly shape: readonly number[];
  readonly bytes: Bytes;
  /** Of the data; behind the tensor before where absent. */
  readonly dataOffset?: number | bigint;
  readonly hash?: number;
  readonly ndim?: number;
  readonly nameLength?: number;
}

export interface EmbdFile {
  readonly tensors?: readonly EmbdTensor[];
  readonly metadata?: readonly (readonly [string | Bytes, string | Bytes])[];
  readonly tokens?: readonly (string | Bytes)[];
  readonly special?: readonly number[];
  readonly flags?: number;
  readonly version?: readonly [number, number];
  /** Header fields by their offset, written before the checksums are taken. */
  readonly fields?: Readonly<Record<number, number>>;
  /** entry_count and total_size of the metadata, token_count, total_size and special_tokens of the vocabulary. */
  readonly counts?: {
    readonly entries?: number;
    readonly metadataTotal?: number;
    readonly tokens?: number;
    readonly vocabularyTotal?: number;
    readonly pointer?: number;
  };
}

export const SPECIAL_TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] as const;

const u16 = (value: number): Bytes => new Uint8Array(Uint16Array.of(value).buffer);
export const u32 = (...values: readonly number[]): Bytes => new Uint8Array(Uint32Array.from(values).buffer);
const u64 = (value: number | bigint): Bytes => new Uint8Array(BigUint64Array.of(BigInt(value)).buffer);
export const f32 = (...values: readonly number[]): Bytes => floatBytes(values);
/** As many as there are: a stack takes no million arguments. */
const floatBytes = (values: readonly number[]): Bytes => new Uint8Array(Float32Array.from(values).buffer);
const bytesOf = (text: string | Bytes): Bytes => (typeof text === "string" ? encodeUtf8(text) : text);

export function fnv1a(text: string): number {
  let hash = 0x811c9dc5n;
  for (const byte of encodeUtf8(text)) hash = ((hash ^ BigInt(byte)) * 0x01000193n) & 0xffff_ffffn;
  return Number(hash);
}

export function buildEmbd(file: EmbdFile = {}): Bytes {
  const { tensors = [], flags = 6 | (file.tokens === undefined ? 0 : 1), version = [1, 0] } = file;
  const metadata = metadataSection(file);
  const vocabOffset = 64 + metadata.byteLength;
  const vocabulary = file.tokens === undefined ? new Uint8Array(0) : vocabularySection(file, file.tokens, vocabOffset);
  const indexOffset = vocabOffset + vocabulary.byteLength;
  const { descriptors, names, data } = indexAndData(tensors, flags);
  const controlEnd = indexOffset + descriptors.byteLength + names.byteLength;
  const dataOffset = (flags & 2) === 0 ? controlEnd : 64 * Math.ceil(controlEnd / 64);
  const total = dataOffset + data.byteLength + 16;
  const header = concatBytes([
    encodeUtf8("EMBD"),
    u16(version[0]),
    u16(version[1]),
    u32(flags, 64, metadata.byteLength, vocabulary.byteLength === 0 ? 0 : vocabOffset, vocabulary.byteLength),
    u32(indexOffset, tensors.length, dataOffset),
    u64(data.byteLength),
    u64(total),
    u32(0, 0),
  ]);
  for (const [offset, value] of Object.entries(file.fields ?? {})) setU32(header, Number(offset), value);
  const padding = new Uint8Array(dataOffset - controlEnd);
  const body = concatBytes([header, metadata, vocabulary, descriptors, names, padding, data]);
  return sealEmbd(concatBytes([body, new Uint8Array(8), encodeUtf8("DBME"), u32(0)]), dataOffset, data.byteLength);
}

/** Takes all three checksums anew, where the flags ask for them. */
export function sealEmbd(bytes: Bytes, dataOffset: number, dataSize: number): Bytes {
  const sealed = bytes.slice();
  if (((sealed[8] ?? 0) & 4) === 0) return sealed;
  setU32(sealed, 56, crc32Javascript(sealed.subarray(0, 56), 0));
  const footer = sealed.byteLength - 16;
  setU32(sealed, footer, crc32Javascript(sealed.subarray(dataOffset, dataOffset + dataSize), 0));
  setU32(sealed, footer + 4, crc32Javascript(sealed.subarray(0, footer), 0));
  return sealed;
}

export function setU32(bytes: Bytes, offset: number, value: number): void {
  new DataView(bytes.buffer, bytes.byteOffset).setUint32(offset, value, true);
}

function metadataSection({ metadata = [], counts = {} }: EmbdFile): Bytes {
  const entries = metadata.map(([key, value]) => {
    const [k, v] = [bytesOf(key), bytesOf(value)];
    return concatBytes([u16(k.byteLength), u16(v.byteLength), k, v]);
  });
  const body = concatBytes(entries);
  return concatBytes([u32(counts.entries ?? entries.length, counts.metadataTotal ?? body.byteLength), body]);
}

function vocabularySection(
  { special = [0, 1, 2, 3, 4], counts = {} }: EmbdFile,
  tokens: readonly (string | Bytes)[],
  offset: number,
): Bytes {
  const body = concatBytes(tokens.map((token) => concatBytes([u16(bytesOf(token).byteLength), bytesOf(token)])));
  const pointer = counts.pointer ?? offset + 12 + body.byteLength;
  const header = u32(counts.tokens ?? tokens.length, counts.vocabularyTotal ?? body.byteLength, pointer);
  return concatBytes([header, body, u32(...special)]);
}

function indexAndData(tensors: readonly EmbdTensor[], flags: number) {
  const descriptors: Bytes[] = [];
  const data: Bytes[] = [];
  let end = 0;
  for (const { name, dtype, shape, bytes, dataOffset, hash, ndim, nameLength } of tensors) {
    const aligned = (flags & 2) === 0 ? end : 64 * Math.ceil(end / 64);
    const slots = [...shape, 0, 0, 0, 0].slice(0, 4);
    const nameBytes = encodeUtf8(name);
    descriptors.push(
      concatBytes([
        u32(hash ?? fnv1a(name)),
        Uint8Array.of(dtype, ndim ?? shape.length),
        u16(nameLength ?? nameBytes.byteLength),
        u32(...slots),
        u64(dataOffset ?? aligned),
      ]),
    );
    if (bytes.byteLength === 0) continue;
    data.push(new Uint8Array(aligned - end), bytes);
    end = aligned + bytes.byteLength;
  }
  const names = concatBytes(tensors.map(({ name }) => encodeUtf8(name)));
  return { descriptors: concatBytes(descriptors), names, data: concatBytes(data) };
}

export interface StreamTensor {
  readonly name: string;
  readonly shape: readonly number[];
  readonly values: readonly number[];
}

/** What cpp_embedder's converter writes. */
export function buildStream(
  tensors: readonly StreamTensor[],
  tokens: readonly string[],
  tokenCount = tokens.length,
): Bytes {
  const texts = (text: string): Bytes => concatBytes([u32(encodeUtf8(text).byteLength), encodeUtf8(text)]);
  return concatBytes([
    encodeUtf8("EMBD"),
    u32(1, tensors.length),
    ...tensors.flatMap(({ name, shape, values }) => [texts(name), u32(shape.length, ...shape), floatBytes(values)]),
    u32(tokenCount),
    ...tokens.map(texts),
  ]);
}
