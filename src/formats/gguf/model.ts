import type { Bytes } from "../../base/bytes.ts";
import { type TareError, UnsupportedError, UsageError } from "../../base/errors.ts";
import { ReadGuard } from "../../bytes/layers/base.ts";
import { PIECE_BYTES, type ReadOptions, type Source, type StreamOptions } from "../../bytes/source.ts";
import type { Container } from "../../model/archive.ts";
import { type CutFile, cutShortFinding, presentBytes } from "../../model/cut-short.ts";
import { dtypeFacts } from "../../model/dtype.ts";
import type { Finding, Loss } from "../../model/finding.ts";
import type { Metadata } from "../../model/metadata.ts";
import { fingerprint } from "../../model/metadata-json.ts";
import { type Model, type Part, TensorIndex } from "../../model/model.ts";
import { Tensor, type TensorReader } from "../../model/tensor.ts";
import type { GgufHeader } from "./header.ts";
import { ALIGNMENT_KEY, SPLIT_KEYS } from "./layout.ts";

/** One file with its header read. */
export interface GgufFile {
  readonly source: Source;
  readonly header: GgufHeader;
}

interface GgufContent {
  /** In order; the first one has the metadata. */
  readonly files: readonly [GgufFile, ...GgufFile[]];
  /** The metadata of the model, without the keys that describe its files. */
  readonly metadata: Metadata;
  readonly warnings: readonly Finding[];
}

/** An opened GGUF file, or a set of split files as one model. Owns the sources. */
export class GgufModel implements Model {
  readonly kind = "model";
  readonly format = "gguf";
  readonly version: string;
  readonly files: readonly [GgufFile, ...GgufFile[]];
  readonly parts: readonly Part[];
  readonly metadata: Metadata;
  readonly tensors: readonly Tensor[];
  readonly warnings: readonly Finding[];
  readonly cutShort: Finding | undefined;
  readonly facts: readonly (readonly [string, string])[];
  readonly #index: TensorIndex;

  constructor({ files, metadata, warnings }: GgufContent) {
    const [first] = files;
    this.files = files;
    this.version = String(first.header.version);
    this.parts = files.map(({ source }) => ({ label: source.label, byteLength: source.byteLength, source }));
    this.metadata = metadata;
    const tensors = files.map((file) => fileTensors(file, files.length > 1 ? file.source.label : undefined));
    this.tensors = tensors.length === 1 ? (tensors[0] ?? []) : tensors.flat();
    this.cutShort = cutShortFinding(cutFiles(files, tensors), this.tensors.length);
    const cut = this.cutShort === undefined ? [] : [this.cutShort];
    this.warnings = [...cut, ...files.flatMap(({ header }) => header.warnings), ...warnings];
    this.facts = factsOf(files);
    this.#index = new TensorIndex(this.tensors, first.source.label);
  }

  /** Bytes after the padding of the last tensor, and metadata of parts that the first part does not have. */
  get unread(): readonly Loss[] {
    const [first, ...others] = this.files;
    return [...this.files.flatMap(trailingLosses), ...others.flatMap((file) => partMetadataLosses(file, first))];
  }

  tensor(name: string): Tensor {
    return this.#index.get(name);
  }

  async close(): Promise<void> {
    await Promise.all(this.files.map(({ source }) => source.close()));
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

function cutFiles(files: readonly GgufFile[], tensors: readonly (readonly Tensor[])[]): CutFile[] {
  return files.flatMap(({ source, header: { layout } }, i) => {
    return layout.fault === undefined ? [] : [{ source, fault: layout.fault, tensors: tensors[i] ?? [] }];
  });
}

function trailingLosses({ source, header }: GgufFile): Loss[] {
  const { paddedEnd } = header.layout;
  const byteLength = source.byteLength - paddedEnd;
  if (byteLength <= 0) return [];
  const at = { source: source.label, offset: paddedEnd, byteLength };
  const reason = `they follow the last tensor of ${source.label}`;
  return [{ name: `${byteLength} bytes from ${paddedEnd}`, reason, at }];
}

/** Only the first part's metadata counts. Other parts may repeat it. */
function partMetadataLosses({ source, header }: GgufFile, first: GgufFile): Loss[] {
  return header.metadata.entries
    .filter(({ key, value }) => {
      if (key === ALIGNMENT_KEY || (SPLIT_KEYS as readonly string[]).includes(key)) return false;
      const same = first.header.metadata.get(key);
      return same === undefined || fingerprint(same) !== fingerprint(value);
    })
    .map(({ key }) => ({ name: key, reason: `metadata of ${source.label} that the first part does not have` }));
}

function fileTensors({ source, header }: GgufFile, label: string | undefined): Tensor[] {
  const { dataStart, byteOrder, infos, layout } = header;
  const stored = (tensor: Tensor): Source => presentBytes(source, tensor, layout.fault);
  const reader: TensorReader =
    byteOrder === "little" ? { source: stored } : { source: (tensor) => swappedSource(stored(tensor), tensor) };
  return infos.map(({ name, dtype, shape, byteLength, offset }) => {
    return new Tensor({ name, dtype, shape, byteLength, offset: dataStart + offset, file: label }, reader);
  });
}

function factsOf([{ header }, ...others]: readonly [GgufFile, ...GgufFile[]]): (readonly [string, string])[] {
  const facts: (readonly [string, string])[] = [["alignment", `${header.alignment} bytes`]];
  if (header.byteOrder === "big") facts.push(["byte order", "big-endian"]);
  if (others.length > 0) facts.push(["parts", String(others.length + 1)]);
  return facts;
}

/** The container as a model of this format; refuses other containers. */
export function ggufModel(container: Container): GgufModel {
  if (container instanceof GgufModel) return container;
  const message = `Cannot treat a ${container.format} container as GGUF`;
  throw new UsageError("usage/gguf.container", message, { source: container.parts[0]?.label ?? container.format });
}

/**
 * The bytes of a tensor of a big-endian file in the model's order, which is little-endian. Reading block types is
 * refused: writers disagree on whether they swap the scales inside a block.
 */
export function swappedSource(stored: Source, tensor: Tensor): Source {
  const facts = dtypeFacts(tensor.dtype);
  if (facts.layout !== "plain") return new RefusingSource(stored, blocksRefused(tensor, stored.label));
  const itemBytes = facts.bits / 8;
  return itemBytes === 1 ? stored : new SwappedSource(stored, itemBytes);
}

/** Reverses the bytes of every item; ranges may begin and end inside one. Closing does nothing, as for slices. */
class SwappedSource implements Source {
  readonly label: string;
  readonly byteLength: number;
  readonly #stored: Source;
  readonly #itemBytes: number;
  readonly #guard: ReadGuard;

  constructor(stored: Source, itemBytes: number) {
    this.label = stored.label;
    this.byteLength = stored.byteLength;
    this.#stored = stored;
    this.#itemBytes = itemBytes;
    this.#guard = new ReadGuard(stored.label, stored.byteLength);
  }

  async read(offset: number, byteLength: number, options: ReadOptions = {}): Promise<Bytes> {
    this.#guard.checkRead(offset, byteLength, options);
    const { into, signal } = options;
    const start = offset - (offset % this.#itemBytes);
    const rest = (offset + byteLength) % this.#itemBytes;
    const end = offset + byteLength + (rest === 0 ? 0 : this.#itemBytes - rest);
    const wholeItems = end - start === byteLength;
    // The stored bytes may be shared, so they are always read into our own buffer before they change.
    const items = wholeItems && into !== undefined ? into : new Uint8Array(end - start);
    await this.#stored.read(start, end - start, { into: items, signal });
    reverseItems(items, this.#itemBytes);
    if (wholeItems) return items;
    const wanted = items.subarray(offset - start, offset - start + byteLength);
    into?.set(wanted);
    return into ?? wanted;
  }

  async *stream(offset: number, options: StreamOptions = {}): AsyncGenerator<Bytes> {
    const end = offset + this.#guard.checkStream(offset, options);
    for (let position = offset; position < end; ) {
      // Pieces after the first begin at an item, so that no item is read twice.
      // A multiple of every item size.
      const next = Math.min(end, position - (position % this.#itemBytes) + PIECE_BYTES);
      yield await this.read(position, next - position, { signal: options.signal });
      position = next;
    }
  }

  close(): Promise<void> {
    return Promise.resolve();
  }
}

function reverseItems(bytes: Bytes, itemBytes: number): void {
  for (let start = 0; start < bytes.byteLength; start += itemBytes) {
    for (let low = start, high = start + itemBytes - 1; low < high; low++, high--) {
      const kept = bytes[low] as number;
      bytes[low] = bytes[high] as number;
      bytes[high] = kept;
    }
  }
}

/** A Source that can be described but not read. */
class RefusingSource implements Source {
  readonly label: string;
  readonly byteLength: number;
  readonly #reason: TareError;

  constructor(stored: Source, reason: TareError) {
    this.label = stored.label;
    this.byteLength = stored.byteLength;
    this.#reason = reason;
  }

  async read(): Promise<Bytes> {
    throw this.#reason;
  }

  // biome-ignore lint/correctness/useYield: a stream that fails before its first piece
  async *stream(): AsyncGenerator<Bytes> {
    throw this.#reason;
  }

  close(): Promise<void> {
    return Promise.resolve();
  }
}

function blocksRefused(tensor: Tensor, label: string): UnsupportedError {
  const message = `Cannot read tensor "${tensor.name}": ${tensor.dtype} blocks of a big-endian file have no agreed byte order`;
  return new UnsupportedError(
    "unsupported/gguf.big-endian-blocks",
    message,
    { source: label, offset: tensor.offset, path: tensor.name },
    { hint: "Quantise the model again on a little-endian machine, or use its little-endian copy" },
  );
}
