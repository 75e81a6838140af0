import type { Bytes } from "../../base/bytes.ts";
import { findInvalidUtf8, printable } from "../../base/text.ts";
import { Turns } from "../../base/turns.ts";
import { planBatches } from "../../bytes/extents.ts";
import type { Finding } from "../../model/finding.ts";
import type { FormatVerifier, VerifyContext } from "../../model/format.ts";
import type { MetadataEntry, MetadataValue } from "../../model/metadata.ts";
import { type GgufFile, type GgufModel, ggufModel } from "./model.ts";
import { paddingSections } from "./read.ts";

/** Uses one read for paddings that are close together, such as those between small tensors. */
const BATCH = { maxGap: 64 << 10, maxBytes: 1 << 20 } as const;

/**
 * Checks what opening did not look at. GGUF has no checksums, and opening checks the structure. What remains are the
 * strings and booleans of the metadata (control) and the padding (full).
 */
export async function* verifyGguf(model: GgufModel, context: VerifyContext): AsyncGenerator<Finding> {
  context.count("files", model.files.length);
  context.count("tensors", model.tensors.length);
  context.count("keys", model.metadata.size);
  if (context.level === "quick") return;
  const [first] = model.files;
  yield* verifyEntries(first, new Turns(context.signal));
  for (const { header } of model.files) context.count("bytes", header.headerEnd);
  if (context.level !== "full") return;
  for (const [part, file] of model.files.entries()) yield* verifyPadding(file, part, context);
}

/** The entries are in the order of the file, and so are the places of their values. */
async function* verifyEntries({ source, header }: GgufFile, turns: Turns): AsyncGenerator<Finding> {
  for (const [i, entry] of header.metadata.entries.entries()) {
    const turn = turns.step();
    if (turn !== undefined) await turn;
    const offset = header.keyValues[i]?.valueOffset;
    const at = { source: source.label, ...(offset === undefined ? {} : { offset }), path: entry.key };
    const faults: Faults = { badText: 0, oddBools: 0 };
    await countFaults(entry.value, faults, turns);
    yield* entryFindings(entry, faults, at);
  }
}

function* entryFindings(
  { key, value }: MetadataEntry,
  { badText, oddBools }: Faults,
  at: Finding["at"],
): Generator<Finding> {
  if (badText > 0) {
    const what = value.type === "array" ? `${badText} of ${value.length} strings are` : "the string is";
    const message = `Metadata "${printable(key)}": ${what} not valid UTF-8; the bytes are kept`;
    yield { severity: "warning", code: "format/gguf.string-utf8", message, at, name: key };
  }
  if (oddBools > 0) {
    const message = `Metadata "${printable(key)}": a boolean must be stored as 0 or 1, found another byte`;
    yield { severity: "note", code: "format/gguf.bool", message, at, name: key };
  }
}

interface Faults {
  badText: number;
  oddBools: number;
}

/** Elements of a long array that are examined at a time, so that a vocabulary is never decoded all at once. */
const ARRAY_STEP = 4096;

async function countFaults(value: MetadataValue, faults: Faults, turns: Turns): Promise<void> {
  countOwnFaults(value, faults);
  if (value.type !== "array" || (value.elementType !== "string" && value.elementType !== "array")) return;
  for (let start = 0; start < value.length; start += ARRAY_STEP) {
    for (const item of value.slice(start, start + ARRAY_STEP)) {
      const turn = turns.step();
      if (turn !== undefined) await turn;
      if (item.type === "array") await countFaults(item, faults, turns);
      else countOwnFaults(item, faults);
    }
  }
}

function countOwnFaults(value: MetadataValue, faults: Faults): void {
  if (value.type === "string" && value.raw !== undefined && findInvalidUtf8(value.raw) >= 0) faults.badText++;
  if (value.encoded !== undefined) faults.oddBools += countOddBools(value, value.encoded.bytes);
}

/**
 * A scalar follows its type id (4 bytes). The elements of an array follow its type id, element type and count (16
 * bytes).
 */
function countOddBools(value: MetadataValue, encoded: Bytes): number {
  if (value.type === "bool") return (encoded[4] as number) > 1 ? 1 : 0;
  if (value.type !== "array" || value.elementType !== "bool") return 0;
  return encoded.subarray(16).reduce((count, byte) => count + (byte > 1 ? 1 : 0), 0);
}

async function* verifyPadding(file: GgufFile, part: number, context: VerifyContext): AsyncGenerator<Finding> {
  const { source } = file;
  const sections = [...paddingSections(file, part)].sort((a, b) => a.offset - b.offset);
  for (const batch of planBatches(sections, BATCH)) {
    const bytes = await source.read(batch.offset, batch.byteLength, { signal: context.signal });
    context.onProgress?.(batch.byteLength);
    for (const { offset, byteLength } of batch.members) {
      context.count("bytes", byteLength);
      const start = offset - batch.offset;
      const found = bytes.subarray(start, start + byteLength).findIndex((byte) => byte !== 0);
      if (found < 0) continue;
      const message = `Padding must be zero, found 0x${(bytes[start + found] as number).toString(16).padStart(2, "0")}`;
      const at = { source: source.label, offset: offset + found, path: "tensor_data" };
      yield { severity: "note", code: "format/gguf.padding", message, at };
    }
  }
}

export const verifier: FormatVerifier = {
  padding: "checked",
  verify: (container, context) => verifyGguf(ggufModel(container), context),
};
