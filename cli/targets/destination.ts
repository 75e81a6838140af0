import type { Destination, OutputUse } from "../../src/api/outputs.ts";
import { UsageError } from "../../src/base/errors.ts";
import { printable } from "../../src/base/text.ts";
import type { Context } from "../context.ts";
import { checkStandardOutput, overwriteOf, s3ClientFor, stdoutOutput } from "./outputs.ts";
import { writeContext } from "./vault-context.ts";

/** Where a command writes: "-" is standard output, everything else is what it is for the library. */
export async function commandDestination(context: Context, text: string, use?: OutputUse): Promise<Destination> {
  if (text === "-") return standardOutput(context);
  const [{ placeOf }, { abortAllSinks }] = await Promise.all([
    import("../../src/platform/node/destinations.ts"),
    import("../../src/platform/node/files/sink.ts"),
  ]);
  context.onExit(abortAllSinks);
  const writing = {
    overwrite: overwriteOf(context),
    run: context.flags["dry-run"] === true ? ("dry" as const) : undefined,
    inputs: () => context.inputs,
    s3: () => s3ClientFor(context),
    vault: () => writeContext(context),
    openVault: async (path: string) => (await context.open(path)).container,
    env: context.env,
    concurrency: context.flags.concurrency,
    signal: context.signal,
    onNote: (note: string) => context.note(`note: ${printable(note)}`),
  };
  return placeOf(text, writing, use);
}

function standardOutput(context: Context): Destination {
  const label = "standard output";
  return {
    label,
    fileName: undefined,
    holds: "one file",
    isReadable: false,
    open: async (name) => stdoutOutput(context.terminal, name),
    pathOf: () => label,
    async checkAbsent(names) {
      checkStandardOutput(context);
      if (names.length <= 1) return;
      const message = `Cannot write ${names.length} files to standard output: name a path`;
      throw new UsageError("usage/arguments", message, { source: "command line" });
    },
  };
}
