import type { Bytes } from "../../base/bytes.ts";
import { FormatError, type Location } from "../../base/errors.ts";
import { checkedAdd } from "../../base/integers.ts";
import { checkLimit } from "../../base/limits.ts";
import { decodeUtf8, printable } from "../../base/text.ts";
import { sliceSource } from "../../bytes/slice.ts";
import type { Source } from "../../bytes/source.ts";
import type { Shape } from "../../model/dtype.ts";
import { byteLengthOf } from "../../model/dtype.ts";
import type { OpenContext } from "../../model/format.ts";
import { Metadata } from "../../model/metadata.ts";
import { Tensor } from "../../model/tensor.ts";
import { Cursor } from "../../struct/cursor.ts";
import { ADR_ENTRY_BYTES, ADR_HEADER_BYTES, ADR_NAME_BYTES, MAX_DIMENSIONS } from "./layout.ts";
import { embdLimits, type Tolerance } from "./limits.ts";
import { type AdrDetails, type AdrEntry, EmbdModel } from "./model.ts";
import { checkApart, uniqueTensors } from "./spec/tensors.ts";

/** Opens a file of ADR-002: a table of fixed entries, then float32 values; there is no vocabulary. */
export async function openAdr(
  source: Source,
  opening: Bytes,
  context: OpenContext,
  tolerance: Tolerance,
): Promise<EmbdModel> {
  const { label } = source;
  const limits = embdLimits(context.limits);
  const header = new DataView(opening.buffer, opening.byteOffset, opening.byteLength);
  if (opening.byteLength < ADR_HEADER_BYTES) {
    const message = `Cannot read EMBD header: must have ${ADR_HEADER_BYTES} bytes, found ${opening.byteLength}`;
    throw new FormatError("format/embd.too-short", message, { source: label, offset: opening.byteLength });
  }
  const [count, headerBytes] = [header.getUint32(8, true), header.getUint32(12, true)];
  const at: Location = { source: label, offset: 8, path: "tensor_count" };
  const wanted = ADR_HEADER_BYTES + ADR_ENTRY_BYTES * count;
  if (headerBytes !== wanted || wanted > source.byteLength) {
    const message = `Cannot read EMBD table: ${count} entries need a header_size of ${wanted} within ${source.byteLength} bytes, found ${headerBytes}`;
    throw new FormatError("format/embd.adr", message, at);
  }
  checkLimit(count, limits.tensors, "EMBD tensors", "limit/embd.tensors", at);
  const bytes = headerBytes <= opening.byteLength ? opening : await source.read(0, headerBytes, context);
  const { entries, base } = decodeTable(bytes.subarray(ADR_HEADER_BYTES, headerBytes), source, headerBytes);
  const entryAt = (index: number): Location => placeOf(source, index);
  checkApart(entries, entryAt);
  const unique = uniqueTensors(entries, entryAt, tolerance);
  const details: AdrDetails = { layout: "adr", source, headerBytes, entries, base };
  return new EmbdModel({
    source,
    version: "1",
    metadata: new Metadata(),
    tensors: unique.map((entry) => adrTensor(entry, source)),
    warnings: tolerance.warnings,
    facts: [
      ["vocabulary", "none"],
      ["offsets", base === "file" ? "from the file's beginning" : "from the end of the table"],
    ],
    details,
  });
}

function placeOf(source: Source, index: number): Location {
  return { source: source.label, offset: ADR_HEADER_BYTES + ADR_ENTRY_BYTES * index, path: `tensor[${index}]` };
}

interface RawEntry {
  readonly name: string;
  readonly shape: Shape;
  readonly offset: number;
  readonly byteLength: number;
}

/** The text does not say what offsets count from. The first offset shows it: it is 0, or after the table. */
function decodeTable(bytes: Bytes, source: Source, headerBytes: number): Pick<AdrDetails, "entries" | "base"> {
  const options = {
    source: source.label,
    base: ADR_HEADER_BYTES,
    code: "format/embd.adr",
    what: "EMBD table",
  } as const;
  const cursor = new Cursor(bytes, options);
  const raw: RawEntry[] = [];
  while (cursor.remaining > 0) raw.push(decodeEntry(cursor, source, raw.length));
  const first = Math.min(...raw.slice(0, 1).map(({ offset }) => offset));
  const base = first >= headerBytes ? "file" : "data";
  const shift = base === "file" ? 0 : headerBytes;
  const entries = raw.map(({ name, shape, offset, byteLength }, i): AdrEntry => {
    const at = placeOf(source, i);
    const dataOffset = checkedAdd(offset, shift, at);
    const end = checkedAdd(dataOffset, byteLength, at);
    if (dataOffset < headerBytes || end > source.byteLength || (i === 0 && base === "data" && offset !== 0)) {
      const message = `Cannot read tensor "${printable(name)}": its data must lie between ${headerBytes} and ${source.byteLength}, found ${dataOffset} to ${end}`;
      throw new FormatError("format/embd.data-range", message, at);
    }
    return { name, dtype: "F32", shape, dataOffset, byteLength };
  });
  return { entries, base };
}

function decodeEntry(cursor: Cursor, source: Source, index: number): RawEntry {
  const at = placeOf(source, index);
  const field = cursor.bytes(ADR_NAME_BYTES, "name");
  const end = field.indexOf(0);
  const name = decodeUtf8(end < 0 ? field : field.subarray(0, end));
  if (name === undefined) throw new FormatError("format/embd.utf8", "Cannot read EMBD tensor name: must be UTF-8", at);
  const ndim = cursor.u32("ndim");
  if (ndim < 1 || ndim > MAX_DIMENSIONS) {
    const message = `Cannot read tensor "${printable(name)}": ndim must be 1 to ${MAX_DIMENSIONS}, found ${ndim}`;
    throw new FormatError("format/embd.dimensions", message, at);
  }
  const slots = Array.from({ length: MAX_DIMENSIONS }, () => cursor.u32("dims"));
  const shape = slots.slice(0, ndim);
  const offset = cursor.u64("data_offset");
  const byteLength = cursor.u64("data_size");
  const wanted = byteLengthOf("F32", shape, at) as number;
  if (byteLength !== wanted) {
    const message = `Cannot read tensor "${printable(name)}": its shape needs ${wanted} bytes, found ${byteLength}`;
    throw new FormatError("format/embd.data-range", message, at);
  }
  return { name, shape, offset, byteLength };
}

function adrTensor({ name, dtype, shape, dataOffset, byteLength }: AdrEntry, source: Source): Tensor {
  const facts = { name, dtype, shape, byteLength, offset: dataOffset };
  return new Tensor(facts, { source: () => sliceSource(source, dataOffset, byteLength) });
}
