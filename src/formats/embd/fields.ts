import type { PartRange } from "../../model/format.ts";
import { type FieldPlace, placesOf } from "../../struct/field-places.ts";
import type { EmbdModel } from "./embd-model.ts";
import { fileFooter, fileHeader, METADATA_HEADER_BYTES, tensorDescriptor } from "./layout.ts";
import type { SpecDetails } from "./open-spec.ts";

/** Header, index and footer of the specification's layout, as docs/formats/embd.md has them; the others are named by sections. */
export function embdFields({ details }: EmbdModel, range: PartRange): readonly FieldPlace[] {
  if (details.layout !== "spec") return [];
  const { header, footerOffset } = details;
  const { metadataOffset, metadataSize } = header;
  const metadata: FieldPlace[] =
    metadataSize < METADATA_HEADER_BYTES
      ? []
      : [
          { offset: metadataOffset, byteLength: 4, name: "metadata.entry_count", type: "u32" },
          { offset: metadataOffset + 4, byteLength: 4, name: "metadata.total_size", type: "u32" },
        ];
  const footer = footerOffset === undefined ? [] : placesOf(fileFooter, footerOffset, "footer");
  return [...placesOf(fileHeader, 0, "header"), ...metadata, ...indexFields(details, range), ...footer];
}

/** Descriptors that the range touches; the names of all tensors stand behind them. */
function indexFields({ header, index, namesEnd }: SpecDetails, { offset, byteLength }: PartRange): FieldPlace[] {
  const { tensorIndexOffset: start } = header;
  const size = tensorDescriptor.byteLength;
  const namesAt = start + index.length * size;
  const first = Math.max(0, Math.floor((offset - start) / size));
  const last = Math.min(index.length, Math.ceil((offset + byteLength - start) / size));
  const touched = Array.from({ length: Math.max(0, last - first) }, (_, i) => first + i);
  return [
    ...touched.flatMap((i) => placesOf(tensorDescriptor, start + i * size, `tensor_index[${i}]`)),
    { offset: namesAt, byteLength: Math.max(0, namesEnd - namesAt), name: "tensor_index.names", type: "text" },
  ];
}
