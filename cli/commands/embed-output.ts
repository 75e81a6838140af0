import { type Bytes, concatBytes } from "../../src/base/bytes.ts";
import { encodeUtf8, printable } from "../../src/base/text.ts";
import { rankVectors, type VectorTable } from "../../src/embedding/search/rank.ts";
import { cosineSimilarity } from "../../src/embedding/vectors.ts";
import { encodeNpyHeader } from "../../src/model/values/npy.ts";
import type { Context, Result } from "../context.ts";
import { openOutputFile } from "../output-target.ts";
import { encodeJson } from "../render/json.ts";
import { formatSize, formatValue, plural } from "../render/sizes.ts";
import { type Cell, type Column, renderTable } from "../render/table.ts";
import { stdoutSink } from "../stdout-sink.ts";
import type { NumberedText } from "./embed-texts.ts";

/** Values of a vector that a table shows. */
const SHOWN_VALUES = 4;
/** Looking for the closest of each takes the square of their number. */
const MAX_COMPARED = 2000;

/** A float32 needs nine digits at most; more would only show how it is stored. */
export function shortest(value: number): number {
  return Number(value.toPrecision(9));
}

/** One vector for `--json`. */
export function vectorJson(vector: Float32Array): number[] {
  return Array.from(vector, shortest);
}

/** A NumPy file: float32, (n, dimension). */
export function encodeNpy(vectors: VectorTable): Bytes {
  const header = encodeNpyHeader("F32", [vectors.count, vectors.dimension], "vectors");
  return concatBytes([header, littleEndian(vectors.values)]);
}

/** cpp_embedder's file: u32 count, u32 dimension, then the values as float32, little-endian. */
export function encodeBinary(vectors: VectorTable): Bytes {
  const header = new Uint8Array(8);
  const view = new DataView(header.buffer);
  view.setUint32(0, vectors.count, true);
  view.setUint32(4, vectors.dimension, true);
  return concatBytes([header, littleEndian(vectors.values)]);
}

/** Every machine that Node runs WebAssembly on is little-endian. */
function littleEndian(values: Float32Array<ArrayBuffer>): Bytes {
  return new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
}

/** Bytes go to -o, or to standard output where it is no terminal. */
export async function writeData(
  context: Context,
  bytes: Bytes,
  facts: Readonly<Record<string, unknown>>,
): Promise<void> {
  const output = context.flags.output === "-" ? undefined : context.flags.output;
  const to = output ?? "standard output";
  if (context.flags["dry-run"] === true) context.note(`would write ${formatSize(bytes.byteLength)} to ${to}`);
  else await writeBytes(context, output, bytes);
  if (output === undefined) return;
  if (context.flags.json === true) {
    await context.show({ json: () => ({ ...facts, output, byteLength: bytes.byteLength }), text: () => "" });
  } else if (context.flags["dry-run"] !== true) context.note(`${output}: ${formatSize(bytes.byteLength)}`);
}

async function writeBytes(context: Context, output: string | undefined, bytes: Bytes): Promise<void> {
  const sink = output === undefined ? stdoutSink(context.terminal) : await openOutputFile(context, output);
  try {
    await sink.append(bytes);
    await sink.commit();
  } catch (error) {
    await sink.abort();
    throw error;
  }
}

/** The command's result as text or JSON, to -o where that is given. */
export async function showResult(context: Context, { json, text }: Result): Promise<void> {
  const { output } = context.flags;
  if (output === undefined || output === "-") return context.show({ json, text });
  const content = encodeUtf8(`${context.flags.json === true ? encodeJson(json(), "compact") : text()}\n`);
  if (context.flags["dry-run"] === true) context.note(`would write ${formatSize(content.byteLength)} to ${output}`);
  else await writeBytes(context, output, content);
}

/** For a person: a line for each text, the beginning of its vector, and which other text is closest. */
export function renderVectors(texts: readonly NumberedText[], vectors: VectorTable, context: Context): string {
  const { colors, width } = context;
  const compared = vectors.count > 1 && vectors.count <= MAX_COMPARED;
  const columns: Column[] = [
    { title: "#", align: "right" },
    ...(compared ? [{ title: "closest" }] : []),
    { title: "vector" },
    { title: "text", cut: "end" },
  ];
  const rows = texts.map(({ text }, i): Cell[] => [
    String(i + 1),
    ...(compared ? [closest(vectors, i)] : []),
    beginning(vectors.row(i)),
    printable(text),
  ]);
  const table = renderTable(columns, rows, { width, styleTitle: colors.dim });
  const remark = `${plural(vectors.count, "text")}, ${vectors.dimension} dimensions; all values with --json, --npy or --binary`;
  return texts.length === 0 ? colors.dim(remark) : `${table}\n\n${colors.dim(remark)}`;
}

function beginning(vector: Float32Array): string {
  const shown = Array.from(vector.subarray(0, SHOWN_VALUES), (value) => formatValue(value).padStart(9));
  return `${shown.join(" ")}${vector.length > SHOWN_VALUES ? " …" : ""}`;
}

function closest(vectors: VectorTable, i: number): string {
  // The text itself is one of the two nearest, unless others are equal to it.
  const other = rankVectors(vectors.row(i), vectors, 2).find(({ index }) => index !== i);
  return other === undefined ? "–" : `${other.score.toFixed(3)} (${other.index + 1})`;
}

/** All pairs of texts. */
export function similarities(vectors: VectorTable): number[][] {
  const rows = Array.from({ length: vectors.count }, (_, i) => vectors.row(i));
  return rows.map((a) => rows.map((b) => cosineSimilarity(a, b)));
}

/** The one number for two texts, a square of them for more. */
export function renderSimilarities(
  matrix: readonly (readonly number[])[],
  texts: readonly NumberedText[],
  context: Context,
): string {
  if (matrix.length === 2) return (matrix[0]?.[1] ?? 0).toFixed(6);
  const { colors, width } = context;
  const right = { align: "right" } as const;
  const columns: Column[] = [
    { title: "#", ...right },
    ...matrix.map((_, i) => ({ title: String(i + 1), ...right })),
    { title: "text", cut: "end" },
  ];
  const rows = matrix.map((row, i): Cell[] => [
    String(i + 1),
    ...row.map((value) => value.toFixed(3)),
    printable(texts[i]?.text ?? ""),
  ]);
  return renderTable(columns, rows, { width, styleTitle: colors.dim });
}
