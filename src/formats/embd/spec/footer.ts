import type { Bytes } from "../../../base/bytes.ts";
import { FormatError, IntegrityError, type TareError } from "../../../base/errors.ts";
import { hex32 } from "../../../base/text.ts";
import type { Source } from "../../../bytes/source.ts";
import type { OpenContext } from "../../../model/format.ts";
import { crc32Combine } from "../../../primitives/digest/crc32.ts";
import type { Engine } from "../../../primitives/engine.ts";
import { FILE_FLAGS, type FileFooter, fileFooter, MAGIC_END } from "../layout.ts";
import type { Tolerance } from "../limits.ts";
import type { SpecHeader } from "./header.ts";

/** "absent" if the file has none, "unread" if opening avoided the extra read. */
export type FooterState = FileFooter | "absent" | "unread";

interface FooterContext extends Pick<OpenContext, "engine" | "signal"> {
  readonly tolerance: Tolerance;
}

/**
 * Reports faults of the footer at once if it is cheap: small files are completely here, and the end of a local file
 * costs nothing.
 */
export async function readFooter(
  source: Source,
  opening: Bytes,
  spec: SpecHeader,
  { engine, signal, tolerance }: FooterContext,
): Promise<FooterState> {
  const { footerOffset } = spec;
  if (footerOffset === undefined) return "absent";
  const isWhole = opening.byteLength === source.byteLength;
  if (!isWhole && source.descriptor === undefined) return "unread";
  const bytes = isWhole
    ? opening.subarray(footerOffset, footerOffset + fileFooter.byteLength)
    : await source.read(footerOffset, fileFooter.byteLength, { signal });
  const footer = decodeFooter(bytes, spec, source.label);
  for (const problem of footerProblems(footer, spec, source.label)) tolerance.warn(problem);
  if (!isWhole) return footer;
  const sums = await sumBytes(opening, spec, engine);
  for (const problem of sumProblems(footer, sums, spec, source.label)) tolerance.warn(problem);
  return footer;
}

/** The 16 bytes at `footerOffset`. */
export function decodeFooter(bytes: Bytes, { footerOffset = 0 }: SpecHeader, source: string): FileFooter {
  return fileFooter.decode(bytes, { source, offset: footerOffset, path: "footer" }, { code: "format/embd.footer" });
}

/** Faults that the footer itself shows. */
export function* footerProblems(
  { magicEnd, reserved }: FileFooter,
  { footerOffset = 0 }: SpecHeader,
  source: string,
): Generator<TareError> {
  if (magicEnd !== MAGIC_END) {
    const at = { source, offset: footerOffset + 8, path: "footer.magic_end" };
    const message = `The footer is damaged: magic_end must be "${MAGIC_END}", found ${JSON.stringify(magicEnd)}`;
    yield new FormatError("format/embd.footer", message, at);
  }
  if (reserved !== 0) {
    const at = { source, offset: footerOffset + 12, path: "footer.reserved" };
    yield new FormatError("format/embd.reserved", `The reserved word of the footer must be 0, found ${reserved}`, at);
  }
}

/** Both checksums of a file, computed from its bytes. */
export interface Sums {
  readonly data: number;
  readonly file: number;
}

async function sumBytes(bytes: Bytes, spec: SpecHeader, engine: Engine): Promise<Sums> {
  const { header, dataEnd, footerOffset = 0 } = spec;
  const before = await engine.crc32(bytes.subarray(0, header.tensorDataOffset));
  const data = await engine.crc32(bytes.subarray(header.tensorDataOffset, dataEnd));
  const after = await engine.crc32(bytes.subarray(dataEnd, footerOffset));
  return { data, file: joinSums({ before, data, after }, spec) };
}

/** The checksums of the three runs: before, in and after the tensor data. */
export interface RunSums {
  readonly before: number;
  readonly data: number;
  readonly after: number;
}

/** The CRC of everything before the footer, joined so that one pass gives both checksums. */
export function joinSums(runs: RunSums, { header, dataEnd, footerOffset = 0 }: SpecHeader): number {
  const upToData = crc32Combine(runs.before, runs.data, header.tensorDataSize);
  return crc32Combine(upToData, runs.after, footerOffset - dataEnd);
}

/**
 * What the checksums show. If the data is damaged, both fail; if something else is, only that of the file fails; if
 * only that of the data fails, the footer itself is damaged. Without CHECKSUM_ENABLED, zero checksums mean nothing.
 */
export function* sumProblems(
  footer: FileFooter,
  sums: Sums,
  { header, dataEnd, footerOffset = 0 }: SpecHeader,
  source: string,
): Generator<IntegrityError> {
  const { dataChecksum, fileChecksum } = footer;
  const enabled = FILE_FLAGS.has(header.flags, "CHECKSUM_ENABLED");
  const counts = (stored: number): boolean => enabled || stored !== 0;
  const dataDiffers = counts(dataChecksum) && dataChecksum !== sums.data;
  const fileDiffers = counts(fileChecksum) && fileChecksum !== sums.file;
  const fileHolds = counts(fileChecksum) && !fileDiffers;
  const range = `CRC-32 of bytes ${header.tensorDataOffset} to ${dataEnd} must be ${hex32(dataChecksum)}, found ${hex32(sums.data)}`;
  if (dataDiffers && fileHolds) {
    const message = `The footer is damaged: ${range}, but the checksum of the whole file is right`;
    const at = { source, offset: footerOffset, path: "footer.data_checksum" };
    yield new IntegrityError("integrity/embd.footer", message, at);
    return;
  }
  if (dataDiffers) {
    const at = { source, offset: header.tensorDataOffset, path: "footer.data_checksum" };
    yield new IntegrityError("integrity/embd.data-checksum", `The tensor data is damaged: ${range}`, at);
  }
  if (!fileDiffers) return;
  const found = `CRC-32 of bytes 0 to ${footerOffset} must be ${hex32(fileChecksum)}, found ${hex32(sums.file)}`;
  const message = dataDiffers
    ? `The file is damaged: ${found}`
    : `The metadata, vocabulary, index or the checksum itself is damaged, the tensor data is not: ${found}`;
  yield new IntegrityError("integrity/embd.file-checksum", message, {
    source,
    offset: 0,
    path: "footer.file_checksum",
  });
}
