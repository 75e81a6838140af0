import { FormatError, type Location } from "../../base/errors.ts";
import { alignUp, checkedAdd } from "../../base/integers.ts";
import { printable } from "../../base/text.ts";
import { rejectOverlaps } from "../../bytes/extents.ts";
import type { Finding } from "../../model/finding.ts";
import type { TensorInfo } from "./tensor-infos.ts";

/** How the tensors lie behind the header. */
export interface DataLayout {
  /** True where each tensor begins at the aligned end of the one before, as llama.cpp demands. */
  readonly packed: boolean;
  /** Where the last tensor ends; the end of the header where there is none. */
  readonly dataEnd: number;
  /** Where a standard file ends: `dataEnd`, padded. */
  readonly paddedEnd: number;
  readonly warnings: readonly Finding[];
}

export interface DataPlace {
  readonly label: string;
  readonly headerEnd: number;
  readonly dataStart: number;
  readonly alignment: number;
  readonly fileBytes: number;
}

/** Refuses tensors that share bytes or reach beyond the end; tells what else is unusual. */
export function checkDataLayout(infos: readonly TensorInfo[], place: DataPlace): DataLayout {
  const { label, headerEnd, dataStart, alignment, fileBytes } = place;
  const at: Location = { source: label, path: "tensor_infos" };
  let expected = 0;
  let end = 0;
  let strays = 0;
  let stray: TensorInfo | undefined;
  for (const info of infos) {
    if (info.offset !== expected) {
      strays++;
      stray ??= info;
    }
    const infoAt: Location = { ...at, offset: info.infoOffset };
    const tensorEnd = checkedAdd(info.offset, info.byteLength, infoAt);
    expected = alignUp(tensorEnd, alignment, infoAt);
    end = Math.max(end, tensorEnd);
  }
  const dataEnd = infos.length === 0 ? headerEnd : checkedAdd(dataStart, end, { ...at, offset: headerEnd });
  if (dataEnd > fileBytes) throw truncated(infos, place, dataEnd);
  if (strays > 0) {
    const extents = infos.map(({ name, offset, byteLength }) => ({ name, offset: dataStart + offset, byteLength }));
    rejectOverlaps(extents, ({ name }) => `"${printable(name)}"`, "format/gguf.overlap", at);
  }
  const paddedEnd = alignUp(dataEnd, alignment, { ...at, offset: headerEnd });
  const warnings = [...strayWarnings(stray, strays, label), ...tailWarnings(infos, place, dataEnd, paddedEnd)];
  return { packed: strays === 0, dataEnd, paddedEnd, warnings };
}

function truncated(infos: readonly TensorInfo[], place: DataPlace, expected: number): FormatError {
  const { label, dataStart, fileBytes } = place;
  const cut = infos.find((info) => dataStart + info.offset + info.byteLength > fileBytes);
  const name = cut === undefined ? "" : `, "${printable(cut.name)}" is the first tensor that is cut`;
  const message = `Cannot open GGUF file: tensor data must reach byte ${expected}, the file ends at ${fileBytes}${name}`;
  return new FormatError(
    "format/gguf.truncated",
    message,
    { source: label, offset: fileBytes, path: "tensor_data" },
    { hint: "The download or copy did not finish; download the file again", neededBytes: expected },
  );
}

function strayWarnings(first: TensorInfo | undefined, count: number, label: string): Finding[] {
  if (first === undefined) return [];
  const message = `${count === 1 ? "1 tensor does" : `${count} tensors do`} not begin where the one before ends, "${printable(first.name)}" first; llama.cpp refuses such files`;
  const at = { source: label, offset: first.infoOffset, path: "tensor_infos" };
  return [{ severity: "warning", code: "format/gguf.data-order", message, at, name: first.name }];
}

function tailWarnings(
  infos: readonly TensorInfo[],
  { label, fileBytes }: DataPlace,
  dataEnd: number,
  paddedEnd: number,
): Finding[] {
  const at = { source: label, offset: Math.min(dataEnd, fileBytes), path: "tensor_data" };
  if (fileBytes > paddedEnd) {
    const message = `${fileBytes - paddedEnd} bytes follow the last tensor`;
    return [{ severity: "warning", code: "format/gguf.trailing-bytes", message, at: { ...at, offset: paddedEnd } }];
  }
  if (infos.length === 0 || fileBytes === paddedEnd) return [];
  const message = `The padding behind the last tensor must have ${paddedEnd - dataEnd} bytes, found ${fileBytes - dataEnd}; llama.cpp fails to load such files`;
  return [{ severity: "warning", code: "format/gguf.tail-padding", message, at }];
}

/** One warning for all names that llama.cpp would refuse. */
export function nameWarnings(infos: readonly TensorInfo[], label: string): Finding[] {
  // ggml's GGML_MAX_NAME is 64 with the terminating NUL.
  const long = infos.filter(({ nameBytes }) => nameBytes > 63);
  const [first] = long;
  if (first === undefined) return [];
  const message = `${long.length === 1 ? "1 tensor name is" : `${long.length} tensor names are`} longer than 63 bytes, which llama.cpp refuses; the first is "${printable(first.name)}"`;
  const at = { source: label, offset: first.infoOffset, path: "tensor_infos" };
  return [{ severity: "warning", code: "format/gguf.long-name", message, at, name: first.name }];
}
