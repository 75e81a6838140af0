import { printable } from "../../src/base/text.ts";
import type { Sink } from "../../src/bytes/sink.ts";
import type { Source } from "../../src/bytes/source.ts";
import type { Entry } from "../../src/model/archive.ts";
import type { Verification } from "../../src/model/model.ts";
import { type Piece, writePieces } from "../../src/model/pieces.ts";
import { formatShape } from "../../src/model/shape.ts";
import { defineCommand } from "../command.ts";
import type { Context } from "../context.ts";
import { warnOfDoubts } from "../doubts.ts";
import { EXIT, type ExitCode } from "../exit-codes.ts";
import { checkAbsent, openOutputFile } from "../output-target.ts";
import { formatSize } from "../render/sizes.ts";
import { checkStandardOutput, stdoutSink } from "../stdout-sink.ts";
import { FLOAT_CHOICES, tensorPieces, viewTensor } from "../tensor-selection.ts";

export const catCommand = defineCommand({
  positionals: { names: ["TARGET", "NAME"], min: 2, max: 2 },
  flags: {
    rows: {
      kind: "rows",
      value: "A:B",
      summary: "only these rows of the outermost dimension; negative counts from the end",
    },
    as: { kind: "choice", choices: ["raw", "npy"], summary: "the stored bytes, or a NumPy file" },
    dtype: { kind: "choice", choices: FLOAT_CHOICES, summary: "round the values to this type" },
  },
  details: [
    "Little-endian, row-major bytes, whatever the file's byte order; of a vault, the bytes of one of its files. Only the bytes that are asked for are read, also over HTTP. fetch-tensor URL NAME OUT is the same with -o OUT.",
  ],
  examples: [
    { command: "tare cat model.gguf token_embd.weight > embedding.bin", says: "the stored bytes" },
    {
      command: "tare cat model.safetensors wte.weight --rows 0:10 --as npy --dtype f32 -o rows.npy",
      says: "ten rows for NumPy",
    },
  ],
  output: "data",
  vaultOutput: "single file",
  async run(context, { flags, positionals }) {
    const [target = "", name = ""] = positionals;
    const output = context.flags.output === "-" ? undefined : context.flags.output;
    if (output === undefined) checkStandardOutput(context);
    if (output !== undefined) await checkAbsent(context, output);
    const { container } = await context.open(target);
    if (container.kind === "archive") return catEntry(container.entry(name), output, context);
    const stored = container.tensor(name);
    warnOfDoubts(context, container);
    const tensor = viewTensor(stored, { rows: flags.rows, dtype: flags.dtype });
    const pieces = tensorPieces(tensor, flags.as ?? "raw");
    const write = (sink: Sink): Promise<void> => writeTensor(pieces, sink, context);
    await copy(context, output, { byteLength: tensor.byteLength, write });
    const { dtype, shape, byteLength } = tensor;
    const verification = container.verificationOf?.(stored);
    if (verification === "unverified" && output === undefined) {
      context.note(`unverified: the file has no digest of the pages or of the tensor "${printable(name)}"`);
    }
    await report(context, output, { name, dtype, shape, byteLength, verification: verification ?? "unverified" });
    return EXIT.success;
  },
});

/** The bytes of a file in an archive, to a file or to standard output. */
export async function catEntry(entry: Entry, output: string | undefined, context: Context): Promise<ExitCode> {
  // What cannot be read is refused before anything is made for it.
  const source = entry.source();
  await copy(context, output, { byteLength: entry.size, write: (sink) => copySource(source, sink, context) });
  await report(context, output, { name: entry.path, byteLength: entry.size });
  return EXIT.success;
}

interface Copy {
  readonly byteLength: number;
  readonly write: (sink: Sink) => Promise<void>;
}

async function copy(context: Context, output: string | undefined, { byteLength, write }: Copy): Promise<void> {
  if (context.flags["dry-run"] === true) {
    context.note(`would write ${formatSize(byteLength)} to ${output ?? "standard output"}`);
    return;
  }
  const sink = output === undefined ? stdoutSink(context.terminal) : await openOutputFile(context, output);
  try {
    await write(sink);
    await sink.commit();
  } catch (error) {
    await sink.abort();
    throw error;
  }
}

async function writeTensor(pieces: readonly Piece[], sink: Sink, context: Context): Promise<void> {
  const total = pieces.reduce((sum, piece) => sum + (piece.kind === "tensor" ? piece.tensor.byteLength : 0), 0);
  const progress = context.progress({ label: "reading", total });
  const onProgress = (byteLength: number): void => progress.add(byteLength);
  await writePieces(pieces, sink, { engine: await context.engine(), signal: context.signal, onProgress });
  progress.end();
}

async function copySource(source: Source, sink: Sink, context: Context): Promise<void> {
  const progress = context.progress({ label: "reading", total: source.byteLength });
  for await (const piece of source.stream(0, { signal: context.signal })) {
    await sink.append(piece);
    progress.add(piece.byteLength);
  }
  progress.end();
}

interface Written {
  readonly name: string;
  readonly dtype?: string;
  readonly shape?: readonly number[];
  readonly byteLength: number;
  readonly verification?: Verification;
}

const VERIFIED: Readonly<Record<Verification, string>> = {
  pages: "verified by page digests",
  tensor: "verified by the tensor's digest",
  unverified: "unverified",
};

/** Where the bytes went to standard output there is nothing left to say. */
async function report(context: Context, output: string | undefined, written: Written): Promise<void> {
  if (output === undefined) return;
  if (context.flags.json === true) {
    return context.show({ json: () => ({ ...written, output }), text: () => "" });
  }
  const what = written.shape === undefined ? "" : `${written.dtype} ${formatShape(written.shape)}, `;
  const proof = written.verification === undefined ? "" : `, ${VERIFIED[written.verification]}`;
  context.note(`${output}: ${what}${formatSize(written.byteLength)}${proof}`);
}
