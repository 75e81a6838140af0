import { EXTRACT_FORMS, extract } from "../../../src/api/move/extract.ts";
import type { VaultExtractResult } from "../../../src/api/vault/results.ts";
import { formatSize, plural } from "../../../src/base/figures.ts";
import { printable } from "../../../src/base/text.ts";
import { FLOAT_CHOICES } from "../../../src/operations/reading/view.ts";
import { defineCommand } from "../../command.ts";
import type { Context } from "../../context.ts";
import { renderLocation } from "../../errors.ts";
import { EXIT, type ExitCode, exitCodeOfFindings } from "../../exit-codes.ts";
import { commandHost, writeOptions } from "../../host.ts";
import { requireOutput } from "../../targets/outputs.ts";

export const extractCommand = defineCommand({
  positionals: { names: ["TARGET", "GLOB"], min: 1, max: Number.MAX_SAFE_INTEGER },
  flags: {
    as: {
      kind: "choice",
      choices: EXTRACT_FORMS,
      summary: "stored bytes (.bin), NumPy or SafeTensors files",
    },
    dtype: { kind: "choice", choices: FLOAT_CHOICES, letters: "any case", summary: "round the values to this type" },
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
    const [target = "", ...glob] = positionals;
    const options = { ...(await writeOptions(context)), glob, as: flags.as, dtype: flags.dtype };
    const result = await extract(commandHost(context), target, directory, options);
    if ("failed" in result) return showExtraction(context, result, target);
    const { files, dryRun } = result;
    const total = files.reduce((sum, { byteLength }) => sum + byteLength, 0);
    const verb = dryRun ? "would write" : "wrote";
    await context.tell({
      json: () => result,
      text: () => `${verb} ${plural(files.length, "file")}, ${formatSize(total)}, to ${directory}`,
    });
    return EXIT.success;
  },
});

/** Names what could not be proven, and what was written. */
export async function showExtraction(context: Context, result: VaultExtractResult, target: string): Promise<ExitCode> {
  const { failed, files, byteLength, directory, dryRun } = result;
  for (const { path, code, message, at } of failed) {
    context.warn(`tare: did not write "${printable(path)}": ${printable(message)} [${code}]`);
    context.warn(`  at ${renderLocation(at)}`);
  }
  if (failed.length > 0) {
    const hint = `tare vault scrub ${printable(target)} shows all damage; tare vault repair heals it if there is parity, else extract these files from an intact copy`;
    context.warn(`  hint: ${hint}`);
  }
  const report = {
    json: () => result,
    text: () => {
      const verb = dryRun ? "would write" : "wrote";
      const rest = failed.length === 0 ? "" : `; ${plural(failed.length, "damaged file")} not written`;
      return `${verb} ${plural(files, "file")}, ${formatSize(byteLength)}, to ${printable(directory)}${rest}`;
    },
  };
  await (failed.length === 0 ? context.tell(report) : context.show(report));
  return exitCodeOfFindings(failed.map(({ code }) => ({ severity: "error", code })));
}
