import { type Bytes, startsWith } from "../../../base/bytes.ts";
import { FormatError } from "../../../base/errors.ts";
import { checkLimit } from "../../../base/limits.ts";
import { memorySource } from "../../../bytes/memory.ts";
import type { Source } from "../../../bytes/source.ts";
import type { OpenContext, Section } from "../../../model/format.ts";
import { AprModel } from "../apr-model.ts";
import { readApr1 } from "./apr1.ts";
import { Tolerated, WildDetails } from "./details.ts";
import { WRAPPER_KINDS, wrapperHeader } from "./layout.ts";
import { wildLimits } from "./limits.ts";
import { readRegion } from "./read-region.ts";
import { unpack } from "./unpack.ts";

const APR1 = [0x41, 0x50, 0x52, 0x31];

/** Opens the 9-byte wrapper: a whole APR1 file, compressed. It is unpacked into memory. */
export async function openWrapper(source: Source, _opening: Bytes, context: OpenContext): Promise<AprModel> {
  const start = wrapperHeader.byteLength;
  const limits = wildLimits(context.limits);
  const at = { source: source.label, offset: start, path: "payload" };
  const head = await readRegion(source, { offset: 0, byteLength: start, path: "header" }, context.signal);
  const { kind, unpackedSize } = wrapperHeader.decode(head, { ...at, offset: 0, path: "header" });
  const compression = kind === WRAPPER_KINDS.lz4 ? "lz4" : "zstd";
  checkLimit(source.byteLength, limits.unpackedBytes, "compressed APR bytes", "limit/apr.unpacked-bytes", at);
  const payload = await source.read(start, source.byteLength - start, { signal: context.signal });
  const content = await unpack(payload, { compression, at, unpackedSize }, { engine: context.engine, limits });
  if (!startsWith(content, APR1)) {
    const message = 'Cannot read APR wrapper: the unpacked bytes must begin with "APR1"';
    throw new FormatError("format/apr.packed", message, at);
  }
  const tolerated = new Tolerated();
  const image = memorySource(content, source.label);
  const inner = await readApr1(image, tolerated, context);
  return new AprModel({
    layout: "wrapper",
    version: "1",
    parts: [{ label: source.label, byteLength: source.byteLength, source, layout: "unplaced" }],
    metadata: inner.metadata,
    tensors: inner.tensors,
    warnings: tolerated.warnings,
    facts: [
      ["compression", compression],
      ["unpacked", `${unpackedSize} bytes`],
    ],
    details: new WildDetails({ ...inner, sections: sectionsOf(source.byteLength), faults: tolerated.faults }),
  });
}

function sectionsOf(byteLength: number): Section[] {
  const start = wrapperHeader.byteLength;
  return [
    { name: "wrapper", kind: "header", part: 0, offset: 0, byteLength: start },
    { name: "compressed", kind: "data", part: 0, offset: start, byteLength: byteLength - start },
    // The checksum inside has no place of its own in the file.
    { name: "crc32 inside", kind: "integrity", part: 0, offset: byteLength, byteLength: 0 },
  ];
}
