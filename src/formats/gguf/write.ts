import { concatBytes, EMPTY_BYTES } from "../../base/bytes.ts";
import { UnsupportedError, UsageError } from "../../base/errors.ts";
import { alignUp } from "../../base/integers.ts";
import { checkLimit } from "../../base/limits.ts";
import type { Container } from "../../model/archive.ts";
import type { FormatRestamp, RestampContext, RestampPiece } from "../../model/capabilities.ts";
import type { FormatWriter, WritePlan } from "../../model/format.ts";
import type { Metadata } from "../../model/metadata.ts";
import { headerPieces } from "./header.ts";
import { gguf } from "./index.ts";
import { ALIGNMENT_KEY, ARCHITECTURE_KEY, fileHeader, SPLIT_KEYS } from "./layout.ts";
import { GGUF_LIMITS } from "./limits.ts";
import { type GgufFile, GgufModel } from "./model.ts";
import { type GgufPlan, planGguf, writeGguf } from "./plan.ts";
import { decodeGgufValue } from "./values.ts";

/** Edits the key-value pairs of a file, or of the first file of a split set; those of the others do not count. */
const ggufRestamp: FormatRestamp = {
  values: "typed",
  // The start of the data and the files of a set follow from these keys.
  fixedKeys: [ALIGNMENT_KEY, ...SPLIT_KEYS],
  target(container) {
    const { source, header } = ownFile(container);
    return { source, metadata: header.metadata };
  },
  plan: (container, metadata, context) => planPieces(ownFile(container), metadata, context),
};

function ownFile(container: Container): GgufFile {
  const at = { source: container.parts[0]?.label ?? container.format };
  if (!(container instanceof GgufModel)) {
    throw new UsageError("usage/gguf.container", `Cannot treat a ${container.format} container as GGUF`, at);
  }
  const [file] = container.files;
  if (file.header.byteOrder === "little") return file;
  throw new UnsupportedError(
    "unsupported/stamp.layout",
    "Cannot edit the metadata of a big-endian GGUF file: must be little-endian",
    at,
    { hint: "Write it again with: tare convert IN OUT.gguf" },
  );
}

/** Tensor infos are copied unchanged: their offsets are relative to the start of the data, which may move. */
async function planPieces(
  { source, header }: GgufFile,
  metadata: Metadata,
  { signal }: RestampContext,
): Promise<readonly RestampPiece[]> {
  const { version, infos, infosOffset, headerEnd, dataStart, alignment, layout } = header;
  const { entries } = metadata;
  const { pieces } = headerPieces({ version: version === 2 ? 2 : 3, entries, tensors: [] });
  const counts = fileHeader.encode({ version, tensorCount: infos.length, metadataKvCount: entries.length });
  const pairs = concatBytes(pieces.map((piece) => (piece.kind === "bytes" ? piece.bytes : EMPTY_BYTES)));
  const infoBytes = await source.read(infosOffset, headerEnd - infosOffset, { signal });
  const end = pairs.byteLength + infoBytes.byteLength;
  const limit = GGUF_LIMITS.headerBytes.default;
  checkLimit(end, limit, "a GGUF header of this many bytes", "limit/gguf.header-bytes", { source: source.label });
  // Without tensors nothing is aligned, but files are padded all the same. That padding is made again.
  const isPadded = infos.length > 0 || source.byteLength === layout.paddedEnd;
  const dataEnd = infos.length > 0 || !isPadded ? source.byteLength : dataStart;
  const padding = new Uint8Array(isPadded ? alignUp(end, alignment) - end : 0);
  const bytes = concatBytes([counts, pairs.subarray(counts.byteLength), infoBytes, padding]);
  return [
    { kind: "bytes", bytes },
    { kind: "copy", offset: dataStart, byteLength: dataEnd - dataStart },
  ];
}

/** Writes version 3, little-endian, or the version and byte order that the file had. */
export const writer: FormatWriter = {
  format: gguf,
  options: ["align", "maxShardBytes"],
  naming: { model: "general.name", architecture: ARCHITECTURE_KEY },
  decodeValue: decodeGgufValue,
  restamp: ggufRestamp,
  plan: planGguf,
  write: (plan, output, context) => writeGguf(ownPlan(plan), output, context),
};

function ownPlan(plan: WritePlan): GgufPlan {
  if (plan.files.every((file) => "pieces" in file)) return plan as GgufPlan;
  throw new UsageError("usage/gguf.container", "Cannot write GGUF from another format's plan", { source: "plan" });
}
