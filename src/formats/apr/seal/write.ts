import type { Bytes } from "../../../base/bytes.ts";
import { alignUp } from "../../../base/integers.ts";
import { untilAborted } from "../../../bytes/abort.ts";
import type { Output, Sink } from "../../../bytes/sink.ts";
import type { ModelContent, WriteContext, WriteEncryption, WriteOptions } from "../../../model/format.ts";
import { CrcSink } from "../../../model/pieces.ts";
import { AES_KEY_BYTES, type Aes, type GcmKey } from "../../../primitives/cipher/aes.ts";
import { type RandomBytes, secureRandom } from "../../../primitives/crypto/secrets.ts";
import { crc32Combine } from "../../../primitives/digest/crc32.ts";
import { encodeFooter, encodeFront, type IndexRow, layOutFront } from "../spec/header.ts";
import { dtypeId, FILE_FLAGS, FIRST_QUANTIZED_ID, fileFooter, fileHeader, TENSOR_FLAGS } from "../spec/layout.ts";
import { type Emit, type Packed, packTensor } from "../spec/pack.ts";
import { type FileImage, PlannedLength, planSpec, type SpecImage, type SpecPlan } from "../spec/plan.ts";
import { ENCRYPTION_KEY } from "../spec/read.ts";
import type { StoredTensor } from "../spec/tensors.ts";
import { type WrittenFile, writeSpec } from "../spec/write.ts";
import {
  blankRecord,
  checkCost,
  DEFAULT_COST,
  type EncryptionRecord,
  frontKey,
  frontMac,
  type KdfCost,
  passwordKey,
  withRecord,
} from "./keys.ts";
import { NONCE_PREFIX_BYTES, sealedByteLength, TensorSealer } from "./segments.ts";

/** A plan whose files will be encrypted. */
interface SealedPlan extends SpecPlan {
  readonly image: SealedImage;
}

/** What is written, and the password for it. */
interface SealedImage extends SpecImage {
  readonly encryption: WriteEncryption & { readonly cost: KdfCost };
  /** The metadata of each file without the record that says how it is encrypted. */
  readonly bare: readonly FileImage[];
}

/** Like planSpec, with room for what encryption adds. Pure: keys are made when writing begins. */
export function planSealed(content: ModelContent, options: WriteOptions, encrypt: WriteEncryption): SealedPlan {
  const cost = encrypt.cost ?? DEFAULT_COST;
  checkCost(cost, { source: "plan" });
  const { [ENCRYPTION_KEY]: taken, ...plan } = takeKey(content, options);
  const { image, losses } = plan;
  const files = image.files.map((file) => sealFile(file, image, cost));
  const planned = [...files.map((file) => file.planned), ...(image.manifest === undefined ? [] : [image.manifest])];
  return {
    ...plan,
    files: planned,
    losses: taken === "taken" ? [...losses, KEY_LOSS] : losses,
    notes: [...plan.notes, "tensor data is encrypted; names, shapes and metadata stay readable without the password"],
    image: { ...image, files, bare: image.files, encryption: { ...encrypt, cost } },
  };
}

/** True for plans of `planSealed`. */
export function isSealedPlan(plan: object): plan is SealedPlan {
  return "image" in plan && typeof plan.image === "object" && plan.image !== null && "encryption" in plan.image;
}

const KEY_LOSS = {
  name: ENCRYPTION_KEY,
  reason: "an encrypted APR file needs this metadata key for itself",
};

function takeKey(content: ModelContent, options: WriteOptions): SpecPlan & { readonly encryption?: "taken" } {
  if (content.metadata.get(ENCRYPTION_KEY) === undefined) return planSpec(content, options);
  const metadata = content.metadata.without(ENCRYPTION_KEY);
  return { ...planSpec({ ...content, metadata }, options), encryption: "taken" };
}

function sealFile(file: FileImage, { align }: SpecImage, cost: KdfCost): FileImage {
  const metadata = withRecord(file.metadata, blankRecord(cost));
  const { name } = file.planned;
  let end = layOutFront(metadata.byteLength, file.rows, name).dataOffset;
  for (const { byteLength } of file.rows) {
    if (byteLength > 0) end = alignUp(end, align) + sealedByteLength(byteLength);
  }
  const flags = (file.flags | Number(FILE_FLAGS.encode(["ENCRYPTED"]))) >>> 0;
  return { ...file, metadata, flags, planned: new PlannedLength(name, end + fileFooter.byteLength) };
}

/** Writes what `planSealed` decided, as writeSpec does for plain files. */
export function writeSealed(plan: SealedPlan, output: Output, context: WriteContext): Promise<void> {
  const writer = new SealedWriter(plan.image, context);
  return writeSpec(plan, output, context, (file, image, sink) => writer.writeFile(image.files.indexOf(file), sink));
}

/** Has one salt for all files of a plan, and a key for each. */
class SealedWriter {
  readonly #image: SealedImage;
  readonly #context: WriteContext;
  readonly #random: RandomBytes;
  readonly #salt: Bytes;

  constructor(image: SealedImage, context: WriteContext) {
    this.#image = image;
    this.#context = context;
    this.#random = image.encryption.random ?? secureRandom;
    this.#salt = this.#random(blankRecord(image.encryption.cost).salt.byteLength);
  }

  /** Fills a sink with the plan's file of this number; neither checks nor commits. */
  async writeFile(number: number, sink: Sink): Promise<WrittenFile> {
    const { cost, password } = this.#image.encryption;
    const { engine, signal } = this.#context;
    const file = this.#image.files[number] as FileImage;
    const bare = this.#image.bare[number] as FileImage;
    const label = file.planned.name;
    const wrapping = await untilAborted(passwordKey({ engine, password, cost, salt: this.#salt, label }), signal);
    const aes: Aes = await engine.aes();
    const fileKey = this.#random(AES_KEY_BYTES);
    try {
      const blank = blankRecord(cost);
      const fileId = this.#random(blank.fileId.byteLength);
      const record = { ...blank, salt: this.#salt, fileId, wrappedKey: await aes.wrapKey(wrapping, fileKey) };
      const seal: Seal = { key: await aes.gcm(fileKey), fileId, prefixes: this.#prefixes(file.rows.length) };
      const macKey = await frontKey(engine, fileKey, fileId);
      const front = (rows: readonly IndexRow[]): Promise<Bytes> => this.#front(file, bare, { rows, record, macKey });
      return await this.#write(file, sink, { seal, front });
    } finally {
      fileKey.fill(0);
    }
  }

  /** Nonces never repeat under one key, not even by chance. */
  #prefixes(count: number): Bytes[] {
    const seen = new Map<string, Bytes>();
    while (seen.size < count) {
      const prefix = this.#random(NONCE_PREFIX_BYTES);
      seen.set(prefix.join(), prefix);
    }
    return [...seen.values()];
  }

  async #write(file: FileImage, sink: Sink, { seal, front }: FileJob): Promise<WrittenFile> {
    const { engine } = this.#context;
    let crc: number;
    const through = new CrcSink(sink, engine);
    if (sink.reserve !== undefined && sink.fill !== undefined) {
      const start = sink.reserve(layOutFront(file.metadata.byteLength, file.rows, file.planned.name).dataOffset);
      const packed = await this.#writeData(file, seal, (bytes) => through.append(bytes));
      const bytes = await front(this.#rows(file, packed));
      await sink.fill(start, bytes);
      crc = crc32Combine(await engine.crc32(bytes), await through.crc(), through.byteLength);
    } else {
      // Sizes first: packing again gives the same bytes, and only then are they sealed.
      const packed: Packed[] = [];
      for (const { tensor } of file.rows) packed.push(await this.#measure(tensor));
      await through.append(await front(this.#rows(file, packed)));
      await this.#writeData(file, seal, (bytes) => through.append(bytes));
      crc = await through.crc();
    }
    const byteLength = sink.position + fileFooter.byteLength;
    const footer = encodeFooter(crc, byteLength);
    await sink.append(footer);
    file.planned.byteLength = byteLength;
    return { byteLength, crc32: crc };
  }

  async #writeData(file: FileImage, { key, fileId, prefixes }: Seal, append: Emit): Promise<Packed[]> {
    const packed: Packed[] = [];
    const { align } = this.#image;
    let position = 0;
    const emit = async (bytes: Bytes): Promise<void> => {
      position += bytes.byteLength;
      await append(bytes);
    };
    for (const [i, row] of file.rows.entries()) {
      const { tensor, name, dtype, shape, byteLength: rawSize } = row;
      const gap = alignUp(position, align) - position;
      if (rawSize > 0 && gap > 0) await emit(new Uint8Array(gap));
      const described = { fileId, name, dtype: dtypeId(dtype) ?? 0, shape, rawSize };
      const sealer = new TensorSealer({ key, tensor: described, prefix: prefixes[i] as Bytes, emit });
      const { onProgress } = this.#context;
      packed.push(await this.#pack(tensor, (bytes) => sealer.append(bytes), onProgress));
      await sealer.finish();
    }
    return packed;
  }

  /** Reads a tensor only if its size is unknown before it is packed. */
  async #measure(tensor: StoredTensor["tensor"]): Promise<Packed> {
    if (this.#image.compress === "none") return { storage: "raw", size: tensor.byteLength };
    return this.#pack(tensor, () => Promise.resolve(), undefined);
  }

  async #pack(
    tensor: StoredTensor["tensor"],
    emit: Emit,
    onProgress: ((byteLength: number) => void) | undefined,
  ): Promise<Packed> {
    const { engine, signal } = this.#context;
    signal?.throwIfAborted();
    if (this.#image.compress === "lz4")
      return packTensor(tensor, emit, { codec: await engine.lz4(), signal, onProgress });
    for await (const piece of tensor.stream({ signal })) {
      await emit(piece);
      onProgress?.(piece.byteLength);
    }
    return { storage: "raw", size: tensor.byteLength };
  }

  #rows(file: FileImage, packed: readonly Packed[]): IndexRow[] {
    let end = 0;
    return file.rows.map(({ name, nameBytes, dtype, shape, byteLength }, i): IndexRow => {
      const { storage, size: inner } = packed[i] as Packed;
      const size = sealedByteLength(inner);
      // An empty tensor is placed where the last one ended: the next aligned offset may be past the data.
      const offset = size > 0 ? alignUp(end, this.#image.align) : end;
      if (size > 0) end = offset + size;
      const id = dtypeId(dtype) ?? 0;
      const known = TENSOR_FLAGS.encode([
        "ENCRYPTED",
        ...(storage === "lz4" ? (["COMPRESSED"] as const) : []),
        ...(id >= FIRST_QUANTIZED_ID ? (["QUANTIZED"] as const) : []),
      ]);
      const flags = (Number(known) | (file.tensorFlags.get(name) ?? 0)) >>> 0;
      return { nameBytes, dtype: id, shape, offset, size, rawSize: byteLength, flags };
    });
  }

  /** Renders the front with a blank mac, then computes the mac over it. */
  async #front(file: FileImage, bare: FileImage, { rows, record, macKey }: FrontJob): Promise<Bytes> {
    const { engine } = this.#context;
    const compressed = Number(FILE_FLAGS.encode(["COMPRESSED"]));
    const isPacked = rows.some(({ flags }) => TENSOR_FLAGS.has(flags, "COMPRESSED"));
    const flags = (file.flags | (isPacked ? compressed : 0)) >>> 0;
    const render = (mac: Bytes): { readonly front: Bytes; readonly metadata: Bytes } => {
      const metadata = withRecord(bare.metadata, { ...record, mac });
      return { metadata, front: encodeFront({ ...file, flags }, metadata, rows, file.planned.name) };
    };
    const blank = render(record.mac);
    const { indexOffset, indexSize } = layOutFront(blank.metadata.byteLength, rows, file.planned.name);
    const parts = {
      header: blank.front.slice(0, fileHeader.byteLength),
      metadata: blank.metadata,
      index: blank.front.slice(indexOffset, indexOffset + indexSize),
    };
    const mac = await frontMac(engine, macKey, parts, record.mac);
    if (mac === undefined) throw new Error("the place of the mac is not in the metadata that was just rendered");
    return render(mac).front;
  }
}

interface Seal {
  readonly key: GcmKey;
  readonly fileId: Bytes;
  /** One for each tensor. */
  readonly prefixes: readonly Bytes[];
}

interface FileJob {
  readonly seal: Seal;
  readonly front: (rows: readonly IndexRow[]) => Promise<Bytes>;
}

interface FrontJob {
  readonly rows: readonly IndexRow[];
  readonly record: EncryptionRecord;
  readonly macKey: Bytes;
}
