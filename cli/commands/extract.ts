import { join } from "node:path";
import { UnsupportedError, UsageError } from "../../src/base/errors.ts";
import type { Output } from "../../src/bytes/sink.ts";
import { formatById } from "../../src/formats/registry.ts";
import type { Archive } from "../../src/model/archive.ts";
import type { WriteContext } from "../../src/model/format.ts";
import { Metadata } from "../../src/model/metadata.ts";
import { writePieces } from "../../src/model/pieces.ts";
import type { Tensor } from "../../src/model/tensor.ts";
import { requireModel } from "../../src/open.ts";
import { defineCommand } from "../command.ts";
import type { Context } from "../context.ts";
import { EXIT, type ExitCode } from "../exit-codes.ts";
import { fileNamesFor } from "../file-names.ts";
import { checkAbsent, openOutputFolder, requireOutput } from "../output-target.ts";
import { formatSize, plural } from "../render/sizes.ts";
import { selectTensors } from "../select-tensors.ts";
import { FLOAT_CHOICES, tensorPieces, viewTensor } from "../tensor-selection.ts";
import { unverifiedNotes } from "../unverified.ts";

const EXTENSIONS = { raw: ".bin", npy: ".npy", safetensors: ".safetensors" } as const;
type As = keyof typeof EXTENSIONS;

export const extractCommand = defineCommand({
  positionals: { names: ["TARGET", "GLOB"], min: 1, max: Number.MAX_SAFE_INTEGER },
  flags: {
    as: {
      kind: "choice",
      choices: ["raw", "npy", "safetensors"],
      summary: "stored bytes (.bin), NumPy or SafeTensors files",
    },
    dtype: { kind: "choice", choices: FLOAT_CHOICES, summary: "round the values to this type" },
  },
  details: [
    "Of a vault, its files; see: tare vault extract.",
    "One file a tensor, named after it; characters that are not safe in file names become underscores, and --json tells which file holds which tensor.",
  ],
  examples: [
    { command: 'tare extract model.gguf "*norm*" -o norms', says: "some tensors, as stored" },
    { command: "tare extract model.safetensors -o arrays --as npy --dtype f32", says: "everything, for NumPy" },
  ],
  output: "data",
  async run(context, { flags, positionals }) {
    const directory = requireOutput(context, "a directory");
    const [target = "", ...globs] = positionals;
    const { container, label } = await context.open(target);
    if (container.kind === "archive")
      return extractFiles(container, { target, directory, globs, label, flags }, context);
    const as = flags.as ?? "raw";
    const chosen = selectTensors(requireModel(container).tensors, globs, label);
    const tensors = chosen.map((tensor) => viewTensor(tensor, { dtype: flags.dtype }));
    const names = fileNamesFor(
      tensors.map((tensor) => tensor.name),
      EXTENSIONS[as],
    );
    const jobs = tensors.map((tensor) => ({ tensor, file: names.get(tensor.name) as string }));
    // Everything that can be refused is refused before the first file: types without a NumPy name, names taken.
    if (as === "npy") for (const tensor of tensors) tensorPieces(tensor, "npy");
    for (const { file } of jobs) await checkAbsent(context, join(directory, file));
    if (context.flags["dry-run"] !== true) {
      await writeAll(context, { directory, jobs, as });
      for (const note of unverifiedNotes(container, chosen)) context.note(`note: ${note}`);
    }
    await report(context, directory, jobs);
    return EXIT.success;
  },
});

interface FileExtraction {
  readonly target: string;
  readonly directory: string;
  readonly globs: readonly string[];
  readonly label: string;
  readonly flags: { readonly as?: As; readonly dtype?: string };
}

/** The files of a vault, as `vault extract` writes them. */
async function extractFiles(archive: Archive, work: FileExtraction, context: Context): Promise<ExitCode> {
  const { target, directory, globs, label, flags } = work;
  if (flags.as !== undefined || flags.dtype !== undefined) {
    const message = `Cannot use --${flags.as === undefined ? "dtype" : "as"} with a vault: its files are written as they are`;
    const hint = "Name a model inside it: VAULT::path/to/model";
    throw new UsageError("usage/arguments", message, { source: "command line" }, { hint });
  }
  const { extractArchive } = await import("./vault/extract.ts");
  return extractArchive(context, archive, { target, root: directory, globs, label });
}

interface Job {
  readonly tensor: Tensor;
  readonly file: string;
}

async function writeAll(context: Context, work: { directory: string; jobs: readonly Job[]; as: As }): Promise<void> {
  const total = work.jobs.reduce((sum, { tensor }) => sum + tensor.byteLength, 0);
  const progress = context.progress({ label: "extracting", total });
  const onProgress = (byteLength: number): void => progress.add(byteLength);
  const writing: WriteContext = { engine: await context.engine(), signal: context.signal, onProgress };
  for (const { tensor, file } of work.jobs) {
    const output = await openOutputFolder(context, work.directory, file);
    await (work.as === "safetensors"
      ? writeSafetensors(tensor, output, writing)
      : writeTensor(tensor, work.as, { output, writing }));
  }
  progress.end();
}

async function writeTensor(
  tensor: Tensor,
  as: "raw" | "npy",
  to: { output: Output; writing: WriteContext },
): Promise<void> {
  const sink = await to.output.create(to.output.name);
  try {
    await writePieces(tensorPieces(tensor, as), sink, to.writing);
    await sink.commit();
  } catch (error) {
    await sink.abort();
    throw error;
  }
}

async function writeSafetensors(tensor: Tensor, output: Output, writing: WriteContext): Promise<void> {
  const writer = await formatById("safetensors")?.write?.();
  if (writer === undefined) {
    throw new UnsupportedError("unsupported/write", "Cannot write SafeTensors files", { source: output.label });
  }
  const plan = writer.plan({ metadata: new Metadata(), tensors: [tensor], chain: [] }, { name: output.name });
  const [loss] = plan.losses;
  if (loss !== undefined) {
    throw new UsageError("usage/arguments", `Cannot extract "${loss.name}" as SafeTensors: ${loss.reason}`, {
      source: output.label,
    });
  }
  await writer.write(plan, output, writing);
}

async function report(context: Context, directory: string, jobs: readonly Job[]): Promise<void> {
  const dryRun = context.flags["dry-run"] === true;
  const files = jobs.map(({ tensor, file }) => {
    const { name, dtype, shape, byteLength } = tensor;
    return { name, file, dtype, shape, byteLength };
  });
  const total = files.reduce((sum, { byteLength }) => sum + byteLength, 0);
  const verb = dryRun ? "would write" : "wrote";
  await context.show({
    json: () => ({ directory, dryRun, files }),
    text: () => `${verb} ${plural(files.length, "file")}, ${formatSize(total)}, to ${directory}`,
  });
}
