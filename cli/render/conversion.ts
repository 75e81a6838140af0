import { dirname } from "node:path";
import type { ConvertResult } from "../../src/api/move/results.ts";
import { formatSize, plural } from "../../src/base/figures.ts";
import { formatById } from "../../src/formats/registry.ts";
import type { Context } from "../context.ts";

/** Shows what was written, or would be. What went to standard output is not reported: the bytes are there. */
export async function showConversion(
  context: Context,
  result: ConvertResult,
  output: string,
  details?: string,
): Promise<void> {
  if (output === "-") return;
  const { dryRun, files, format, tensorCount, byteLength } = result;
  // A report that the user asks for is shown; that a file was written, only if -q does not forbid it.
  const isReport = details !== undefined;
  const report = {
    json: () => result,
    text: () => {
      if (isReport && context.flags.quiet === true) return details;
      const last = files.at(-1)?.path ?? "";
      const where = files.length === 1 ? last : `${plural(files.length, "file")} in ${dirname(last)}`;
      const what = `${formatById(format)?.name ?? format}, ${plural(tensorCount, "tensor")}, ${formatSize(byteLength)}`;
      return `${details === undefined ? "" : `${details}\n`}${dryRun ? "would write" : "wrote"} ${where}: ${what}`;
    },
  };
  await (isReport ? context.show(report) : context.tell(report));
}
