import type { Bytes } from "../../../base/bytes.ts";
import { hex32, printable } from "../../../base/text.ts";
import { planBatches } from "../../../bytes/extents.ts";
import type { Source } from "../../../bytes/source.ts";
import type { Finding } from "../../../model/finding.ts";
import type { VerifyContext } from "../../../model/format.ts";
import type { AprModel } from "../model.ts";
import { CRC_BYTES, FLAGS_64, HEADER_CRC_OFFSET, headerCrcOf } from "./layout.ts";
import type { Checksum, WildDetails } from "./layout-facts.ts";

/** One read for paddings that are close together, such as those between small tensors. */
const BATCH = { maxGap: 64 << 10, maxBytes: 1 << 20 } as const;
/** The flags of the 64-byte header. */
const FLAGS_OFFSET = 6;

/**
 * Checks what opening did not read: at level "full" the checksum over the whole file and the padding. A fault that
 * opening tolerated is an error here.
 */
export async function* verifyWild(model: AprModel, context: VerifyContext): AsyncGenerator<Finding> {
  const details = wildDetails(model);
  context.count("files", model.parts.length);
  context.count("tensors", model.tensors.length);
  context.count("keys", model.metadata.size);
  for (const fault of details.faults) yield { ...fault, severity: "error" };
  if (context.level !== "full") return;
  yield* verifyChecksum(model, details, context);
  yield* verifyPadding(details, context);
}

function wildDetails({ details }: AprModel): WildDetails {
  // Only models of these layouts get here: the caller chooses by the layout.
  return details as WildDetails;
}

async function* verifyChecksum(
  model: AprModel,
  { image, checksum }: WildDetails,
  context: VerifyContext,
): AsyncGenerator<Finding> {
  if (checksum === undefined || checksum.offset < 0) return;
  const stored = u32(await image.read(checksum.offset, CRC_BYTES, { signal: context.signal }));
  const crc = await crcOf(image, checksum, { context, patch: "as stored" });
  context.count("bytes", checksum.offset);
  if (checksum.certainty === "possible") {
    if (crc === stored) yield coveredFooter(model, image, checksum);
    return;
  }
  if (crc === stored) return;
  if (await matchesBefore(image, checksum, context)) {
    const at = { source: image.label, offset: (checksum.orAt ?? 0) + CRC_BYTES, path: checksum.path };
    const message = `${image.byteLength - at.offset} bytes follow the checksum`;
    yield { severity: "error", code: "format/apr.trailing-bytes", message, at };
    return;
  }
  const late = checksum.lateFlags ?? 0;
  if (late !== 0 && (await crcOf(image, checksum, { context, patch: "without late flags" })) === stored) {
    const names = FLAGS_64.decode(late).join(", ");
    const message = `The checksum was made before the flag ${names} was set; without it, it is right`;
    yield {
      severity: "note",
      code: "format/apr.late-flag",
      message,
      at: { source: image.label, offset: FLAGS_OFFSET, path: "flags" },
    };
    return;
  }
  const message = `The file is damaged: CRC-32 of its first ${checksum.offset} bytes must be ${hex32(stored)}, found ${hex32(crc)}`;
  const at = { source: image.label, offset: checksum.offset, path: checksum.path };
  yield { severity: "error", code: "integrity/apr.crc", message, at, hint: "Download the file again" };
}

/** True if the checksum comes right after the data, and something was appended to the file. */
async function matchesBefore(image: Source, checksum: Checksum, context: VerifyContext): Promise<boolean> {
  const offset = checksum.orAt;
  if (offset === undefined) return false;
  const stored = u32(await image.read(offset, CRC_BYTES, { signal: context.signal }));
  return stored === (await crcOf(image, { ...checksum, offset }, { context, patch: "as stored" }));
}

/** A right checksum shows that the file has one; then the last tensor claims too many bytes. */
function coveredFooter({ tensors }: AprModel, image: Source, { offset, path }: Checksum): Finding {
  const at = { source: image.label, offset, path };
  const tensor = tensors.find((candidate) => candidate.offset + candidate.byteLength > offset);
  if (tensor === undefined) {
    const message = "The checksum at the end is right, but is in the place of padding";
    return { severity: "warning", code: "format/apr.footer", message, at };
  }
  const message = `Tensor "${printable(tensor.name)}" reaches into the checksum at ${offset}`;
  return { severity: "error", code: "format/apr.tensor-bounds", message, at, name: tensor.name };
}

interface CrcRun {
  readonly context: VerifyContext;
  readonly patch: "as stored" | "without late flags";
}

async function crcOf(image: Source, checksum: Checksum, { context, patch }: CrcRun): Promise<number> {
  const { engine, signal, onProgress } = context;
  let crc = 0;
  let position = 0;
  for await (const piece of image.stream(0, { byteLength: checksum.offset, signal })) {
    const isFirst = position === 0 && patch !== "as stored";
    crc = await engine.crc32(isFirst ? withoutFlags(piece, checksum.lateFlags ?? 0) : piece, crc);
    position += piece.byteLength;
    onProgress?.(piece.byteLength);
  }
  return crc;
}

/** The image of a compressed file is in memory, so the first piece holds the whole header. */
function withoutFlags(piece: Bytes, flags: number): Bytes {
  const patched = piece.slice();
  const view = new DataView(patched.buffer);
  view.setUint16(FLAGS_OFFSET, view.getUint16(FLAGS_OFFSET, true) & ~flags, true);
  // The program that set the flag also updated the header's own CRC.
  view.setUint32(HEADER_CRC_OFFSET, headerCrcOf(patched), true);
  return patched;
}

async function* verifyPadding({ image, sections }: WildDetails, context: VerifyContext): AsyncGenerator<Finding> {
  const paddings = sections.filter(({ kind }) => kind === "padding").sort((a, b) => a.offset - b.offset);
  for (const batch of planBatches(paddings, BATCH)) {
    const bytes = await image.read(batch.offset, batch.byteLength, { signal: context.signal });
    for (const { offset, byteLength } of batch.members) {
      const start = offset - batch.offset;
      const found = bytes.subarray(start, start + byteLength).findIndex((byte) => byte !== 0);
      if (found < 0) continue;
      const message = `Padding must be zero, found 0x${(bytes[start + found] as number).toString(16).padStart(2, "0")}`;
      yield {
        severity: "note",
        code: "format/apr.padding",
        message,
        at: { source: image.label, offset: offset + found, path: "padding" },
      };
    }
  }
}

function u32(bytes: Bytes): number {
  return new DataView(bytes.buffer, bytes.byteOffset).getUint32(0, true);
}
