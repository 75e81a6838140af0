import { alignUp } from "../../../base/integers.ts";
import type { Source } from "../../../bytes/source.ts";
import type { Section } from "../../../model/format.ts";
import type { Tensor } from "../../../model/tensor.ts";
import type { RawEntry } from "./binary-index.ts";
import type { Checksum, Tolerated } from "./details.ts";
import { ALIGNMENT_64, CRC_BYTES, type Header64 } from "./layout.ts";

/** What follows the data. */
export interface Footer {
  readonly state: "present" | "absent" | "cut";
  readonly checksum?: Checksum | undefined;
}

export interface FooterContext {
  readonly image: Source;
  readonly header: Header64;
  readonly magic: string;
  readonly tolerated: Tolerated;
  /** realizar's files with an index of JSON neither align nor check anything. */
  readonly indexKind: "binary" | "json";
}

/**
 * aprender ends a file with the padding of the last tensor and a CRC-32; realizar leaves out the CRC, and in some files
 * the padding. Entries that lead out of the file are refused elsewhere.
 */
export function findFooter(entries: readonly RawEntry[], context: FooterContext): Footer {
  const { image, header, magic, tolerated, indexKind } = context;
  const length = image.byteLength;
  const at = { source: image.label, offset: length, path: "footer" };
  const end = entries.reduce((last, { offset, byteLength }) => {
    return Math.max(last, header.dataOffset + offset + byteLength);
  }, header.dataOffset);
  if (indexKind === "json" || end > length) return { state: "absent" };
  const padded = alignUp(end, ALIGNMENT_64, at);
  const rest = length - padded;
  if (rest <= 0) {
    const message = "The file ends with its data: it has no checksum, as files of realizar";
    if (magic === "APR\0") tolerated.warn("format/apr.no-footer", message, at);
    else tolerated.fault("format/apr.no-footer", message, at);
    return { state: "absent", checksum: { offset: length - CRC_BYTES, path: "footer", certainty: "possible" } };
  }
  if (rest < CRC_BYTES) {
    const message = `The checksum at the end must have 4 bytes, found ${rest}: the file is cut off`;
    tolerated.fault("format/apr.footer", message, at);
    return { state: "cut" };
  }
  const offset = length - CRC_BYTES;
  const extra = offset - padded;
  if (extra > 0) {
    const message = `${extra} bytes behind the last tensor belong to nothing`;
    tolerated.warn("format/apr.trailing-bytes", message, { ...at, offset: padded });
  }
  const orAt = extra > 0 ? padded : undefined;
  return { state: "present", checksum: { offset, path: "footer", certainty: "present", orAt } };
}

/** Padding behind each tensor, and the footer. */
export function footerSections(footer: Footer, tensors: readonly Tensor[], dataEnd: number): Section[] {
  const sections: Section[] = [];
  const checksum = footer.state === "present" ? footer.checksum : undefined;
  const limit = checksum?.offset ?? dataEnd;
  for (const { offset, byteLength } of tensors) {
    const end = offset + byteLength;
    const padding = Math.min(alignUp(end, ALIGNMENT_64), limit) - end;
    if (byteLength > 0 && padding > 0) {
      sections.push({ name: "padding", kind: "padding", part: 0, offset: end, byteLength: padding });
    }
  }
  if (checksum !== undefined) {
    const { offset } = checksum;
    sections.push({ name: "crc32", kind: "integrity", part: 0, offset, byteLength: CRC_BYTES });
  }
  return sections;
}
