import { type CatResult, cat } from "../../../src/api/move/cat.ts";
import { formatSize } from "../../../src/base/figures.ts";
import { formatShape } from "../../../src/model/dtype.ts";
import type { Verification } from "../../../src/model/model.ts";
import { FLOAT_CHOICES } from "../../../src/operations/reading/view.ts";
import { defineCommand } from "../../command.ts";
import type { Context } from "../../context.ts";
import { EXIT, type ExitCode } from "../../exit-codes.ts";
import { commandHost, writeOptions } from "../../host.ts";

export const catCommand = defineCommand({
  positionals: { names: ["TARGET", "NAME"], min: 2, max: 2 },
  flags: {
    rows: {
      kind: "rows",
      value: "A:B",
      summary: "only these rows of the outermost dimension; negative counts from the end",
    },
    as: { kind: "choice", choices: ["raw", "npy"], summary: "the stored bytes, or a NumPy file" },
    dtype: { kind: "choice", choices: FLOAT_CHOICES, letters: "any case", summary: "round the values to this type" },
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
    const { output = "-" } = context.flags;
    const { rows, as, dtype } = flags;
    const result = await cat(commandHost(context), target, name, output, {
      ...(await writeOptions(context)),
      // What goes to standard output has no line that says what was checked.
      onNote: (text) => (output === "-" ? context.note(text) : undefined),
      rows: rows === undefined ? undefined : [rows.start ?? 0, rows.end],
      as,
      dtype,
    });
    return reportCat(context, output, result);
  },
});

const VERIFIED: Readonly<Record<Verification, string>> = {
  pages: "verified by page digests",
  tensor: "verified by the tensor's digest",
  authenticated: "authenticated by the vault",
  unverified: "unverified",
};

/** If the bytes went to standard output, there is nothing to report. */
export async function reportCat(context: Context, output: string, result: CatResult): Promise<ExitCode> {
  if (context.flags["dry-run"] === true) {
    context.note(`would write ${formatSize(result.byteLength)} to ${output === "-" ? "standard output" : output}`);
  }
  if (output === "-") return EXIT.success;
  if (context.flags.json === true) await context.show({ json: () => result, text: () => "" });
  else {
    const what = result.shape === undefined ? "" : `${result.dtype} ${formatShape(result.shape)}, `;
    const proof = result.verification === undefined ? "" : `, ${VERIFIED[result.verification]}`;
    context.note(`${output}: ${what}${formatSize(result.byteLength)}${proof}`);
  }
  return EXIT.success;
}
