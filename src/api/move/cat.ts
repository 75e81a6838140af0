import { UsageError } from "../../base/errors.ts";
import { type RowRange, rowsOf } from "../../base/quantities.ts";
import { printable } from "../../base/text.ts";
import type { DType, Shape } from "../../model/dtype.ts";
import type { Warned } from "../../model/finding.ts";
import type { Model, Verification } from "../../model/model.ts";
import { writePieces } from "../../model/pieces.ts";
import { fileNamesFor } from "../../operations/reading/file-names.ts";
import { doubtsOf, verificationOf } from "../../operations/reading/trust.ts";
import { FLOAT_CHOICES, type FloatChoice, tensorPieces, viewTensor } from "../../operations/reading/view.ts";
import { type Request, requestOf, type VerbHost, warnOf } from "../host.ts";
import { withInput } from "../input-use.ts";
import type { Input, OpenedInput } from "../inputs.ts";
import { choiceRule, type OptionRule, typeRule, WRITE_RULES, type WriteOptions } from "../options.ts";
import { type Destination, destinationOf, type Output, writeOne } from "../outputs.ts";
import { withProgress } from "../progress.ts";
import { catEntry } from "../vault/reading.ts";

export interface CatOptions extends WriteOptions {
  /** Only these rows of the outermost dimension: `[1, 3]` or "1:3"; negative ends count from the last row. */
  readonly rows?: readonly [start: number, end?: number | undefined] | string | undefined;
  /** The stored bytes, or a NumPy file. */
  readonly as?: "raw" | "npy" | undefined;
  /** Rounds the values to this type. */
  readonly dtype?: FloatChoice | undefined;
}

/** What `tare cat --json` prints. */
export interface CatResult extends Warned {
  readonly name: string;
  /** Of a tensor. */
  readonly dtype?: DType;
  readonly shape?: Shape;
  readonly byteLength: number;
  readonly output: string;
  /** What the bytes were checked against. */
  readonly verification?: Verification;
}

const rowsRule: OptionRule = { must: '[start, end], or text such as "0:10", ":5", "-3:" or "7"', test: isRows };
const RULES = {
  ...WRITE_RULES,
  rows: rowsRule,
  as: choiceRule("raw", "npy"),
  dtype: typeRule(...FLOAT_CHOICES),
};

function isRows(value: unknown): boolean {
  if (typeof value === "string") return rowsOf(value) !== undefined;
  if (!Array.isArray(value) || value.length < 1 || value.length > 2) return false;
  const [start, end] = value as readonly unknown[];
  return Number.isSafeInteger(start) && (end === undefined || Number.isSafeInteger(end));
}

function rowRange(rows: CatOptions["rows"]): RowRange | undefined {
  if (rows === undefined) return undefined;
  return typeof rows === "string" ? rowsOf(rows) : { start: rows[0], end: rows[1] };
}

/** Writes the bytes of one tensor, or of one file of a vault. Only the bytes that are asked for are read. */
export async function cat(
  host: VerbHost,
  input: Input,
  name: string,
  output: Output,
  options: CatOptions = {},
): Promise<CatResult> {
  const request = await requestOf(host, "cat", options, RULES);
  if (typeof name !== "string") {
    const at = { source: "cat", path: "name" };
    throw new UsageError("usage/option-value", "Cannot cat: the name must be text", at);
  }
  const place = await destinationOf(host, output, request, { names: "file", inputs: "kept" });
  // What has the name already is refused before anything is opened.
  await place.checkAbsent(place.fileName === undefined ? [] : [place.fileName]);
  return withInput(host, input, { ...request, cutShort: "shown" }, (opened) => {
    const { container } = opened;
    if (container.kind === "archive") return catEntry(container, name, { place, request });
    return catTensor({ host, opened, place, request }, container, name);
  });
}

interface Call {
  readonly host: VerbHost;
  readonly opened: OpenedInput;
  readonly place: Destination;
  readonly request: Request<CatOptions>;
}

async function catTensor({ host, opened, place, request }: Call, model: Model, name: string): Promise<CatResult> {
  const { signal, engine, onNote, onProgress, dtype: type, as = "raw" } = request;
  const stored = model.tensor(name);
  // A file of another set is known by its footer; its bytes would not be those of this tensor.
  if (stored.file !== undefined) await model.checkPart?.(stored.file, { signal });
  if (model.cutShort !== undefined) warnOf(host, request)(model.cutShort.message);
  for (const doubt of doubtsOf(model)) warnOf(host, request)(doubt);
  const tensor = viewTensor(stored, { rows: rowRange(request.rows), dtype: type });
  const pieces = tensorPieces(tensor, as);
  const { dtype, shape, byteLength } = tensor;
  const file = place.fileName ?? (fileNamesFor([name], as === "npy" ? ".npy" : ".bin").get(name) as string);
  await place.checkAbsent([file]);
  if (request.dryRun !== true) {
    await withProgress({ label: "reading", total: byteLength }, onProgress, (progress) =>
      writeOne(place, file, (sink) => writePieces(pieces, sink, { engine, signal, onProgress: progress.add })),
    );
  }
  const verification = verificationOf(opened, stored);
  if (verification === "unverified" && model.verificationOf !== undefined)
    onNote?.(`unverified: the file has no digest of the pages or of the tensor "${printable(name)}"`);
  const { cutShort } = model;
  const warnings = cutShort === undefined ? {} : { warnings: [cutShort] };
  return { name, dtype, shape, byteLength, output: place.pathOf(file), verification, ...warnings };
}
