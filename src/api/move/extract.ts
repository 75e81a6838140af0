import { UnsupportedError, UsageError } from "../../base/errors.ts";
import { formatById } from "../../formats/registry.ts";
import type { DType, Shape } from "../../model/dtype.ts";
import type { Warned } from "../../model/finding.ts";
import type { WriteContext } from "../../model/format.ts";
import { Metadata } from "../../model/metadata.ts";
import { writePieces } from "../../model/pieces.ts";
import type { Tensor } from "../../model/tensor.ts";
import { requireModel } from "../../open.ts";
import { checkSource } from "../../operations/convert/source-check.ts";
import { fileNamesFor } from "../../operations/reading/file-names.ts";
import { selectTensors } from "../../operations/reading/glob.ts";
import { proveTensors, unverifiedNotes } from "../../operations/reading/trust.ts";
import { FLOAT_CHOICES, type FloatChoice, tensorPieces, viewTensor } from "../../operations/reading/view.ts";
import { type Request, requestOf, type VerbHost, warnOf } from "../host.ts";
import { withInput } from "../input-use.ts";
import type { Input, OpenedInput } from "../inputs.ts";
import { choiceRule, listOf, type OneOrMany, textsRule, typeRule, WRITE_RULES, type WriteOptions } from "../options.ts";
import {
  checkHolds,
  commitTo,
  type Destination,
  destinationOf,
  type Folder,
  type Output,
  writeFiles,
} from "../outputs.ts";
import { startProgress } from "../progress.ts";
import { extractArchive } from "../vault/extract.ts";
import type { VaultExtractResult } from "../vault/results.ts";

const EXTENSIONS = { raw: ".bin", npy: ".npy", safetensors: ".safetensors" } as const;
export type ExtractForm = keyof typeof EXTENSIONS;
export const EXTRACT_FORMS = Object.keys(EXTENSIONS) as readonly ExtractForm[];

export interface ExtractOptions extends WriteOptions {
  /** Only what matches one of these; a `*` crosses dots and slashes. Each must match something. */
  readonly glob?: OneOrMany<string> | undefined;
  /** The stored bytes (.bin), NumPy or SafeTensors files. Of a vault, its files as they are. */
  readonly as?: ExtractForm | undefined;
  /** Rounds the values to this type. */
  readonly dtype?: FloatChoice | undefined;
}

/** What `tare extract --json` prints of a model. */
export interface ExtractResult extends Warned {
  readonly directory: string;
  readonly dryRun: boolean;
  readonly files: readonly ExtractedFile[];
}

export interface ExtractedFile {
  /** Of the tensor. */
  readonly name: string;
  readonly file: string;
  readonly dtype: DType;
  readonly shape: Shape;
  readonly byteLength: number;
}

const RULES = {
  ...WRITE_RULES,
  glob: textsRule,
  as: choiceRule(...EXTRACT_FORMS),
  dtype: typeRule(...FLOAT_CHOICES),
};

/** Writes tensors as files of their own, or the files of a vault. */
export async function extract(
  host: VerbHost,
  input: Input,
  output: Output,
  options: ExtractOptions = {},
): Promise<ExtractResult | VaultExtractResult> {
  const request = await requestOf(host, "extract", options, RULES);
  const globs = listOf(options.glob) ?? [];
  const place = await destinationOf(host, output, request, { names: "folder", inputs: "kept" });
  return withInput(host, input, request, async (opened) => {
    const { container } = opened;
    if (container.kind === "model") return extractTensors({ host, opened, place, request }, globs);
    if (options.as !== undefined || options.dtype !== undefined) {
      const message = `Cannot use the option ${options.as === undefined ? "dtype" : "as"} with a vault: its files are written as they are`;
      const hint = "Name a model inside it: VAULT::path/to/model";
      throw new UsageError("usage/arguments", message, { source: "options" }, { hint });
    }
    const target = typeof input === "string" || input instanceof URL ? String(input) : undefined;
    const from = { archive: container, label: opened.label, target };
    const { result, lost } = await extractArchive(host, from, output, request);
    if (lost.length > 0) await opened.distrust();
    return result;
  });
}

interface Call {
  readonly host: VerbHost;
  readonly opened: OpenedInput;
  readonly place: Destination;
  readonly request: Request<ExtractOptions>;
}

interface Job {
  readonly tensor: Tensor;
  readonly file: string;
}

async function extractTensors(call: Call, globs: readonly string[]): Promise<ExtractResult> {
  const { opened, place, request } = call;
  const { container, label } = opened;
  const { as = "raw", dtype, signal, dryRun } = request;
  const chosen = selectTensors(requireModel(container).tensors, globs, label);
  const tensors = chosen.map((tensor) => viewTensor(tensor, { dtype }));
  const names = fileNamesFor(
    tensors.map(({ name }) => name),
    EXTENSIONS[as],
  );
  const jobs = tensors.map((tensor) => ({ tensor, file: names.get(tensor.name) as string }));
  // Everything that can be refused is refused before the first file: types without a NumPy name, existing names.
  if (as === "npy") for (const tensor of tensors) tensorPieces(tensor, "npy");
  checkHolds(place, jobs.length);
  await place.checkAbsent(jobs.map(({ file }) => file));
  if (dryRun !== true) {
    if (globs.length === 0) await checkWhole(call);
    await proveTensors(container, { tensors: chosen, time: "before", signal });
    await writeAll(call, jobs, async () => proveTensors(container, { tensors: chosen, time: "after", signal }));
    for (const note of unverifiedNotes(opened, chosen)) request.onNote?.(note);
  }
  const files = jobs.map(({ tensor: { name, dtype, shape, byteLength }, file }) => {
    return { name, file, dtype, shape, byteLength };
  });
  return { directory: place.label, dryRun: dryRun === true, files };
}

async function checkWhole({ host, opened, request }: Call): Promise<void> {
  const { engine, limits = {}, signal } = request;
  const warn = warnOf(host, request);
  await checkSource(opened, {
    engine,
    limits,
    signal,
    damage: "refuse",
    hint: "Get the file again",
    onWarning: ({ message, code }) => warn(`${message} [${code}]`),
  });
}

/** Each file appears when it is complete. If a later one fails, those that were written are taken away again. */
async function writeAll({ place, request }: Call, jobs: readonly Job[], prove: () => Promise<void>): Promise<void> {
  const total = jobs.reduce((sum, { tensor }) => sum + tensor.byteLength, 0);
  const progress = startProgress({ label: "extracting", total }, request.onProgress);
  const { engine, signal, force, as = "raw" } = request;
  const writing: WriteContext = { engine, signal, onProgress: (byteLength) => progress.add(byteLength) };
  await writeFiles(place, { name: "", force }, async (folder) => {
    for (const { tensor, file } of jobs) {
      signal?.throwIfAborted();
      await writeTensor({ tensor, as, label: place.pathOf(file) }, { folder, file, writing });
    }
    await prove();
  });
  progress.end();
}

interface TensorFile {
  readonly tensor: Tensor;
  readonly as: ExtractForm;
  /** For errors. */
  readonly label: string;
}

interface FilePlace {
  readonly folder: Folder;
  readonly file: string;
  readonly writing: WriteContext;
}

async function writeTensor({ tensor, as, label }: TensorFile, { folder, file, writing }: FilePlace): Promise<void> {
  if (as !== "safetensors") {
    return commitTo(await folder.create(file), (sink) => writePieces(tensorPieces(tensor, as), sink, writing));
  }
  const writer = await formatById("safetensors")?.write?.();
  if (writer === undefined) {
    throw new UnsupportedError("unsupported/write", "Cannot write SafeTensors files", { source: label });
  }
  const plan = writer.plan({ metadata: new Metadata(), tensors: [tensor], chain: [] }, { name: file });
  const [loss] = plan.losses;
  if (loss !== undefined) {
    const message = `Cannot extract "${loss.name}" as SafeTensors: ${loss.reason}`;
    throw new UsageError("usage/arguments", message, { source: label });
  }
  await writer.write(plan, { label, name: file, create: (name) => folder.create(name) }, writing);
}
