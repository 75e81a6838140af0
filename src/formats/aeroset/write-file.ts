import type { Bytes } from "../../base/bytes.ts";
import { SourceError, UnsupportedError } from "../../base/errors.ts";
import { encodeHex } from "../../base/hex.ts";
import type { Output, Sink } from "../../bytes/sink.ts";
import type { Source } from "../../bytes/source.ts";
import type { WriteContext } from "../../model/format.ts";
import { openAero } from "../aero/read.ts";
import { writeControl } from "../aero/write/control.ts";
import { checkSeekable, writeImage } from "../aero/write.ts";
import type { FileImage } from "./plan.ts";

/** A file that is complete and has not got its name. */
export interface SealedFile {
  readonly file: FileImage;
  readonly sink: Sink;
  readonly sizeBytes: number;
  /** 64 lower-case hex digits over the whole file. */
  readonly sha256: string;
}

/** A part with its weights in the sink. */
export interface WrittenPart {
  readonly file: FileImage;
  readonly sink: Sink;
  /** BLAKE3-256 of its tensors, in the order of its rows. */
  readonly tensors: readonly Bytes[];
}

export async function writePart(file: FileImage, output: Output, context: WriteContext): Promise<WrittenPart> {
  const sink = await output.create(file.name);
  try {
    const { tensors = [] } = await writeImage(file.image, checkSeekable(sink), context);
    return { file, sink, tensors: tensors as readonly Bytes[] };
  } catch (error) {
    await sink.abort();
    throw error;
  }
}

/** The index: everything in it is known, so it is filled at once. */
export async function writeIndex(
  file: FileImage,
  hashes: readonly (Bytes | undefined)[],
  { output, context }: { readonly output: Output; readonly context: WriteContext },
): Promise<SealedFile> {
  const sink = await output.create(file.name);
  try {
    const seekable = checkSeekable(sink);
    seekable.reserve(file.image.layout.fileBytes);
    await writeControl(file.image, { shards: new Map(), tensors: hashes }, seekable, context);
    return await sealFile(file, sink, context);
  } catch (error) {
    await sink.abort();
    throw error;
  }
}

/**
 * Opens what was written and takes its SHA-256. An AERO file's beginning is known last and SHA-256 goes from the first
 * byte to the last, so this is a second reading; it runs in a worker, on pages that are still in memory, while the next
 * part is being written.
 */
export async function sealFile(file: FileImage, sink: Sink, context: WriteContext): Promise<SealedFile> {
  const source = await sink.reopen?.();
  if (source === undefined) {
    const message = "Cannot write a set to an output that cannot be read back: its JSON holds digests of whole files";
    throw new UnsupportedError("unsupported/aeroset.unreadable-output", message, { source: sink.label });
  }
  try {
    await checkStructure(file, source, context);
    const { engine, signal } = context;
    const sizeBytes = source.byteLength;
    const digest = await engine.digestRange("sha256", source, { offset: 0, byteLength: sizeBytes, signal });
    return { file, sink, sizeBytes, sha256: encodeHex(digest) };
  } finally {
    await source.close();
  }
}

/** Every tensor must be where it was planned; faults here are ours or the disk's. */
async function checkStructure({ name, image }: FileImage, source: Source, context: WriteContext): Promise<void> {
  const { engine, signal } = context;
  const { content } = await openAero(source, { engine, limits: {}, signal });
  const { tensors } = content.index;
  const isWhole =
    source.byteLength === image.layout.fileBytes &&
    tensors.length === image.rows.length &&
    image.rows.every((row, i) => tensors[i]?.name === row.name);
  if (!isWhole) throw new Error(`${name} was planned with ${image.rows.length} tensors, read back ${tensors.length}`);
}

/** Opens files of a set that is being written, whether they have their names or not; what it opens is put on the list. */
export function readerOf(
  sinks: ReadonlyMap<string, Sink>,
  output: Output,
  opened: Source[],
): (name: string) => Promise<Source> {
  return async (name) => {
    const sink = sinks.get(name);
    const source = await (sink === undefined ? output.peek?.(name) : sink.reopen?.());
    if (source === undefined) {
      throw new SourceError("source/not-found", `Cannot read back "${name}"`, { source: output.label });
    }
    opened.push(source);
    return source;
  };
}
