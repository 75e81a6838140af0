import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { memorySource } from "../../src/bytes/memory.ts";
import type { Opened } from "../../src/model/format.ts";
import type { MetadataValue } from "../../src/model/metadata.ts";
import type { Model } from "../../src/model/model.ts";
import { openSource, requireModel } from "../../src/open.ts";
import { verify } from "../../src/operations/verify.ts";
import { portableEngine } from "../../src/primitives/portable.ts";
import { Outcome } from "../outcome.ts";

interface ExpectedTensor {
  readonly name: string;
  readonly dtype?: string;
  readonly source_ggml_type?: string;
  readonly shape: readonly number[];
  readonly size: number;
  readonly sha256?: string;
}

interface Expected {
  readonly layout: string;
  readonly tensors?: readonly ExpectedTensor[];
  readonly metadata?: object;
  readonly inner?: Expected;
  readonly footer_crc32_valid?: boolean;
  readonly footer_bytes?: number;
}

interface Values {
  readonly count: number;
  readonly sha256_f32le: string;
  readonly f32_bits_hex?: string;
}

interface FileRow {
  readonly file: string;
  readonly expected: Expected;
  readonly apr_format_0_72_3_reader?: { readonly reference_f32?: Readonly<Record<string, Values | null>> };
}

/** Labels that contradict the size of the data: such bytes are never handed out as numbers. */
const MISLABELLED = new Set([
  "cur_wrong_size_0.apr long",
  "cur_wrong_size_0.apr short",
  "cur_shapes_names_0.apr d9",
  "realizar_q080_0.apr blk.0.ffn_down.weight",
]);
/** realizar 0.6 labels Q4_0 as F32 and gives it the size of F32, so nothing in the file shows it. */
const UNTELLABLE = new Set(["realizar_q069_0.apr blk.0.ffn_down.weight"]);
/** The reference decodes rows that are padded to whole blocks as if they were not. */
const WRONG_VALUES = new Set(["convert_q4k_none.apr model.layers.0.self_attn.q_proj.weight"]);
/** Two tensors of one name, which the reference's own reader refuses too. */
const REFUSED = new Map([["cur_duplicate_0.apr", "format/apr.duplicate-name"]]);

/** Checks every file of expected.json. */
export async function checkFiles(folder: string): Promise<Outcome> {
  const outcome = new Outcome("APR files of other programs");
  const { files } = JSON.parse(readFileSync(join(folder, "expected.json"), "utf8")) as { files: readonly FileRow[] };
  for (const row of files) outcome.check(row.file, await checkFile(folder, row));
  return outcome;
}

async function checkFile(folder: string, row: FileRow): Promise<string[]> {
  let opened: Opened;
  try {
    const bytes = new Uint8Array(readFileSync(join(folder, row.file)));
    opened = await openSource(memorySource(bytes, row.file), { name: row.file });
  } catch (error) {
    const code = (error as { code?: string }).code ?? String(error);
    return REFUSED.get(row.file) === code ? [] : [`does not open: ${code} ${(error as Error).message}`];
  }
  const model = requireModel(opened.container);
  const expected = row.expected.inner ?? row.expected;
  return [
    ...(await checkTensors(row, model, expected.tensors ?? [])),
    ...(await checkValues(row, model)),
    ...checkMetadata(model, expected),
    ...(await checkCrc(opened, expected)),
  ];
}

async function checkTensors(row: FileRow, model: Model, wanted: readonly ExpectedTensor[]): Promise<string[]> {
  const problems: string[] = [];
  if (model.tensors.length !== wanted.length) problems.push(`${model.tensors.length} of ${wanted.length} tensors`);
  for (const [i, { name, shape, size, sha256, ...types }] of wanted.entries()) {
    const tensor = model.tensors[i];
    const found = tensor === undefined ? [] : [tensor.name, tensor.dtype, [...tensor.shape], tensor.byteLength];
    const dtype = dtypeOf(`${row.file} ${name}`, types, row.expected.layout, { shape, size });
    if (JSON.stringify(found) !== JSON.stringify([name, dtype, shape, size])) {
      problems.push(
        `tensor ${i} must be ${JSON.stringify([name, dtype, shape, size])}, found ${JSON.stringify(found)}`,
      );
    }
    const digest = tensor === undefined ? "" : sha256Of(await tensor.bytes());
    if (sha256 !== undefined && digest !== sha256) problems.push(`"${name}" has other bytes`);
  }
  return problems;
}

function dtypeOf(
  key: string,
  { dtype, source_ggml_type: source }: Pick<ExpectedTensor, "dtype" | "source_ggml_type">,
  layout: string,
  { shape, size }: Pick<ExpectedTensor, "shape" | "size">,
): string {
  if (MISLABELLED.has(key)) return "UNKNOWN_0";
  if (UNTELLABLE.has(key)) return "F32";
  if (layout === "whisper-apr1") return size === shape.reduce((a, b) => a * b, 1) ? "I8" : "F32";
  if (source !== undefined) return source.toUpperCase();
  const name = (dtype ?? "").replace(/\(id\d+\)$/, "");
  return { AprQ4: "APR_Q4", AprQ8: "APR_Q8", json: "U8" }[name] ?? name;
}

/** Compares with the reference's own reading of the values as float32. */
async function checkValues(row: FileRow, model: Model): Promise<string[]> {
  const problems: string[] = [];
  for (const [name, wanted] of Object.entries(row.apr_format_0_72_3_reader?.reference_f32 ?? {})) {
    const key = `${row.file} ${name}`;
    if (wanted === null || WRONG_VALUES.has(key) || MISLABELLED.has(key)) continue;
    const values = await model.tensor(name).toFloat32();
    if (values.length !== wanted.count) problems.push(`"${name}" has ${values.length} of ${wanted.count} values`);
    else if (!sameValues(values, wanted)) problems.push(`"${name}" has other values`);
  }
  return problems;
}

/** Bit for bit, except the payload of a NaN. */
function sameValues(values: Float32Array<ArrayBuffer>, { sha256_f32le: sha256, f32_bits_hex: hex }: Values): boolean {
  if (sha256Of(new Uint8Array(values.buffer)) === sha256) return true;
  if (hex === undefined) return false;
  const bits = new Uint32Array(values.buffer);
  const wanted = Uint32Array.from({ length: values.length }, (_, i) =>
    Number.parseInt(hex.slice(8 * i, 8 * i + 8), 16),
  );
  const floats = new Float32Array(wanted.buffer);
  return wanted.every((word, i) => word === bits[i] || (Number.isNaN(floats[i]) && Number.isNaN(values[i])));
}

function checkMetadata(model: Model, { metadata, layout }: Expected): string[] {
  if (metadata === undefined) return [];
  const found = Object.fromEntries(model.metadata.entries.map(({ key, value }) => [key, plain(value)]));
  const same = JSON.stringify(found) === JSON.stringify(metadata);
  return same ? [] : [`${layout} metadata differs: ${JSON.stringify(found).slice(0, 300)}`];
}

function plain(value: MetadataValue): unknown {
  if (value.type === "null") return null;
  if (value.type === "array") return value.slice().map(plain);
  if (value.type === "map") return Object.fromEntries(value.entries.map((entry) => [entry.key, plain(entry.value)]));
  // JSON.parse also rounds recorded metadata above 2^53.
  return typeof value.value === "bigint" ? Number(value.value) : value.value;
}

/** A checksum that the recorder found right must be right here, and a wrong one must be reported. */
async function checkCrc(
  opened: Opened,
  { footer_crc32_valid: valid, footer_bytes, layout }: Expected,
): Promise<string[]> {
  const engine = portableEngine();
  const { findings } = await verify(opened, { level: "full", engine });
  const damaged = findings.some(({ code }) => code === "integrity/apr.crc");
  if (damaged && (valid === true || footer_bytes === 0)) return ["checksum taken for wrong"];
  // The footer inside was made before the flag was set; without the flag it is right, which a note says.
  if (valid === false && footer_bytes !== 0 && layout === "v2-64-compressed") {
    return findings.some(({ code }) => code === "format/apr.late-flag") ? [] : ["no note on the late flag"];
  }
  return valid === false && footer_bytes !== 0 && !damaged ? ["wrong checksum not told"] : [];
}

function sha256Of(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}
