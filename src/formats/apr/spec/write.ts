import { type Bytes, concatBytes } from "../../../base/bytes.ts";
import { UsageError } from "../../../base/errors.ts";
import { alignUp } from "../../../base/integers.ts";
import { encodeUtf8, hex32 } from "../../../base/text.ts";
import type { Output, Sink } from "../../../bytes/sink.ts";
import type { WriteContext, WritePlan } from "../../../model/format.ts";
import { CrcSink, checkWritten, type Piece, writePieces } from "../../../model/pieces.ts";
import { crc32Combine } from "../../../primitives/digest/crc32.ts";
import { encodeFooter, encodeFront, type IndexRow, layOutFront } from "./header.ts";
import { APR_VERSION, dtypeId, FILE_FLAGS, FIRST_QUANTIZED_ID, fileFooter, TENSOR_FLAGS } from "./layout.ts";
import { type Packed, packTensor } from "./pack.ts";
import type { FileImage, SpecImage, SpecPlan } from "./plan.ts";
import type { StoredTensor } from "./tensors.ts";

/** Fills a sink with one file of a plan; encrypted files need another one. */
type FillFile = typeof writeFile;

/** Writes what `planSpec` decided: every file, then the manifest. Nothing is visible before all of it is checked. */
export async function writeSpec(
  plan: WritePlan,
  output: Output,
  context: WriteContext,
  fill: FillFile = writeFile,
): Promise<void> {
  const { image } = ownPlan(plan);
  const sinks = new Map<string, Sink>();
  try {
    const written: WrittenFile[] = [];
    for (const file of image.files) {
      const sink = await output.create(file.planned.name);
      sinks.set(file.planned.name, sink);
      written.push(await fill(file, image, sink, context));
    }
    if (image.manifest !== undefined) {
      const sink = await output.create(image.manifest.name);
      sinks.set(image.manifest.name, sink);
      const bytes = encodeUtf8(renderManifest(image, written));
      image.manifest.byteLength = bytes.byteLength;
      await sink.append(bytes);
    }
    await checkWritten(sinks, { name: plan.primary, label: output.label }, context);
    for (const sink of sinks.values()) await sink.commit();
  } catch (error) {
    await Promise.allSettled([...sinks.values()].map((sink) => sink.abort()));
    throw error;
  }
}

/** The specification's manifest: keys in its order, one tensor a line. */
function renderManifest({ files }: SpecImage, written: readonly WrittenFile[]): string {
  const shards = files.map(({ planned }, i) => {
    const { byteLength = 0, crc32 = 0 } = written[i] ?? {};
    return `    {"file": ${JSON.stringify(planned.name)}, "size": ${byteLength}, "crc32": "${hex32(crc32)}"}`;
  });
  const map = files.flatMap(({ rows }, i) => rows.map(({ name }) => `    ${JSON.stringify(name)}: ${i}`));
  return [
    "{",
    `  "apr_version": "${APR_VERSION}",`,
    '  "sharded": true,',
    `  "shard_count": ${files.length},`,
    `  "shards": [\n${shards.join(",\n")}\n  ],`,
    `  "tensor_shard_map": {\n${map.join(",\n")}\n  }`,
    "}\n",
  ].join("\n");
}

function ownPlan(plan: WritePlan): SpecPlan {
  if ("image" in plan && plan.files.length > 0) return plan as SpecPlan;
  throw new UsageError("usage/apr.container", "Cannot write APR from another format's plan", { source: "plan" });
}

/** What a manifest says about a written file. */
export interface WrittenFile {
  readonly byteLength: number;
  /** CRC-32 of everything before the footer. With the footer, which holds it, files of one length have the same CRC. */
  readonly crc32: number;
}

/** Fills a sink with one file; neither checks nor commits. */
async function writeFile(file: FileImage, image: SpecImage, sink: Sink, context: WriteContext): Promise<WrittenFile> {
  const crc =
    image.compress === "none"
      ? await writePlain(file, image, sink, context)
      : await writePacked(file, image, sink, context);
  const byteLength = sink.position + fileFooter.byteLength;
  const footer = encodeFooter(crc, byteLength);
  await sink.append(footer);
  file.planned.byteLength = byteLength;
  return { byteLength, crc32: crc };
}

/** Every place is known, so the file is written from beginning to end. Returns the CRC-32 of all of it. */
async function writePlain(file: FileImage, { align }: SpecImage, sink: Sink, context: WriteContext): Promise<number> {
  const packed = file.rows.map(({ byteLength }): Packed => ({ storage: "raw", size: byteLength }));
  const rows = indexRows(file, packed, align);
  const pieces: Piece[] = [{ kind: "bytes", bytes: frontOf(file, rows) }];
  let position = 0;
  for (const [i, { offset, size }] of rows.entries()) {
    const { tensor } = file.rows[i] as StoredTensor;
    if (size === 0) continue;
    if (offset > position) pieces.push({ kind: "zeros", byteLength: offset - position });
    pieces.push({ kind: "tensor", tensor });
    position = offset + size;
  }
  const through = new CrcSink(sink, context.engine);
  await writePieces(pieces, through, context);
  return through.crc();
}

/**
 * The index comes before the data and needs its sizes. If the sink can go back, the data is written first and the front
 * filled in later. If it cannot, everything is compressed twice, which gives the same bytes.
 */
async function writePacked(file: FileImage, image: SpecImage, sink: Sink, context: WriteContext): Promise<number> {
  const { engine } = context;
  if (sink.reserve !== undefined && sink.fill !== undefined) {
    const start = sink.reserve(layOutFront(file.metadata.byteLength, file.rows, file.planned.name).dataOffset);
    const through = new CrcSink(sink, engine);
    const packed = await writeData(file, image, (bytes) => through.append(bytes), context);
    const front = frontOf(file, indexRows(file, packed, image.align));
    await sink.fill(start, front);
    return crc32Combine(await engine.crc32(front), await through.crc(), through.byteLength);
  }
  const trial = await writeData(file, image, () => Promise.resolve(), { ...context, onProgress: undefined });
  const through = new CrcSink(sink, engine);
  await through.append(frontOf(file, indexRows(file, trial, image.align)));
  await writeData(file, image, (bytes) => through.append(bytes), context);
  return through.crc();
}

const ZEROS: Bytes = new Uint8Array(64);

/** Tensors one after the other, with zeros between them. */
async function writeData(
  file: FileImage,
  { align }: SpecImage,
  append: (bytes: Bytes) => Promise<void>,
  { engine, signal, onProgress }: WriteContext,
): Promise<Packed[]> {
  const codec = await engine.lz4();
  const packed: Packed[] = [];
  const gathering = new GatheredAppends(append);
  for (const { tensor } of file.rows) {
    signal?.throwIfAborted();
    const aligned = alignUp(gathering.position, align);
    if (tensor.byteLength > 0) await gathering.append(ZEROS.subarray(0, aligned - gathering.position));
    packed.push(await packTensor(tensor, (bytes) => gathering.append(bytes), { codec, signal, onProgress }));
  }
  await gathering.flush();
  return packed;
}

/** Joins short runs into one append: 100 000 small tensors take a few writes. */
class GatheredAppends {
  readonly #append: (bytes: Bytes) => Promise<void>;
  #held: Bytes[] = [];
  #heldBytes = 0;
  #position = 0;

  constructor(append: (bytes: Bytes) => Promise<void>) {
    this.#append = append;
  }

  get position(): number {
    return this.#position;
  }

  async append(bytes: Bytes): Promise<void> {
    this.#position += bytes.byteLength;
    if (bytes.byteLength < SMALL_BYTES) {
      this.#held.push(bytes.slice());
      this.#heldBytes += bytes.byteLength;
      if (this.#heldBytes >= GATHERED_BYTES) await this.flush();
      return;
    }
    await this.flush();
    await this.#append(bytes);
  }

  async flush(): Promise<void> {
    if (this.#heldBytes === 0) return;
    const bytes = concatBytes(this.#held);
    this.#held = [];
    this.#heldBytes = 0;
    await this.#append(bytes);
  }
}

const SMALL_BYTES = 64 << 10;
const GATHERED_BYTES = 256 << 10;

/** Places every tensor: aligned, in the order of the index. */
function indexRows(file: FileImage, packed: readonly Packed[], align: number): IndexRow[] {
  let end = 0;
  return file.rows.map(({ name, nameBytes, dtype, shape, byteLength }, i): IndexRow => {
    const { storage, size } = packed[i] as Packed;
    // An empty tensor at the end must not point past the data, so it goes to the last aligned offset before the end.
    const offset = size === 0 ? end - (end % align) : alignUp(end, align);
    if (size > 0) end = offset + size;
    const id = dtypeId(dtype) ?? 0;
    const known = TENSOR_FLAGS.encode([
      ...(storage === "lz4" ? (["COMPRESSED"] as const) : []),
      ...(id >= FIRST_QUANTIZED_ID ? (["QUANTIZED"] as const) : []),
    ]);
    const flags = (Number(known) | (file.tensorFlags.get(name) ?? 0)) >>> 0;
    return { nameBytes, dtype: id, shape, offset, size, rawSize: storage === "lz4" ? byteLength : 0, flags };
  });
}

/** COMPRESSED says that at least one tensor is. */
function frontOf(file: FileImage, rows: readonly IndexRow[]): Bytes {
  const isPacked = rows.some(({ rawSize }) => rawSize > 0);
  const flags = (file.flags | (isPacked ? Number(FILE_FLAGS.encode(["COMPRESSED"])) : 0)) >>> 0;
  return encodeFront({ ...file, flags }, file.metadata, rows, file.planned.name);
}
