import {
  type EntryChoice,
  type Listed,
  type ListOptions,
  listArchive,
  listInput,
  listResult,
} from "../../../src/api/look/list.ts";
import { UsageError } from "../../../src/base/errors.ts";
import { printable } from "../../../src/base/text.ts";
import type { Archive } from "../../../src/model/archive.ts";
import { defineCommand } from "../../command.ts";
import type { Context } from "../../context.ts";
import { EXIT, type ExitCode, exitCodeOf, gravest } from "../../exit-codes.ts";
import { commandHost, readOptions } from "../../host.ts";
import { type Detail, renderCsv, renderListing } from "../../render/look/listing.ts";
import { type Looked, lookAtEach, showTargets, splitTargets } from "../../targets/several.ts";

export const lsCommand = defineCommand({
  positionals: { names: ["TARGET", "GLOB"], min: 1, max: Number.POSITIVE_INFINITY },
  flags: {
    long: { kind: "switch", short: "l", summary: "exact sizes, offsets and files too; permissions of entries" },
    sort: {
      kind: "choice",
      choices: ["size", "name", "offset", "dtype"],
      summary: "the longest first, or by name, place or type",
    },
    csv: { kind: "switch", summary: "a table for other programs: RFC 4180, with a head" },
  },
  details: [
    "One line a tensor: type, size, shape, name. In a GLOB, * crosses dots; {q,k} and [0-9] work.",
    "Several TARGETs are listed one after the other, each under its name: an argument that exists as a file, or that is an address, is a TARGET, every other one a GLOB. The first is always a TARGET.",
  ],
  examples: [
    { command: "tare ls model.gguf", says: "everything" },
    { command: 'tare ls model.safetensors "*.layers.0.*"', says: "one layer" },
    { command: "tare ls model.gguf --sort size", says: "the largest tensors first" },
    { command: "tare ls model.gguf --csv > tensors.csv", says: "for a spreadsheet" },
    { command: "tare ls model.gguf --json | jq .tensors[].name", says: "for scripts" },
  ],
  output: "report",
  async run(context, { flags, positionals }) {
    const { targets, globs } = await splitTargets(positionals);
    const options = { ...(await readOptions(context)), glob: globs, sort: flags.sort };
    if (flags.csv === true) return showCsv(context, targets, options);
    const detail = flags.long === true ? "long" : "short";
    const look = async (target: string): Promise<Looked> => {
      const listed = await listInput(commandHost(context), target, options).catch((error: unknown) => {
        throw explainGlobs(error, globs);
      });
      return {
        code: EXIT.success,
        json: () => listResult(listed),
        text: () => renderListing(listed, detail, context),
      };
    };
    return showTargets(context, { targets, look });
  },
});

/** A GLOB that no name matches may have been meant as a file: each argument that exists as one is a TARGET. */
function explainGlobs(error: unknown, globs: readonly string[]): unknown {
  if (!(error instanceof UsageError) || !error.code.endsWith("-not-found")) return error;
  const meant = globs.filter((glob) => /^[^*?{[]*(?:[\\/]|\.[a-z][a-z0-9]*)$/i.test(glob) && !glob.endsWith(".weight"));
  if (meant.length === 0) return error;
  const names = meant.map((glob) => `"${printable(glob)}"`).join(", ");
  const hint = `No file is called ${names} either, so it was taken for a GLOB`;
  return new UsageError(error.code, error.message, error.at, { hint, cause: error });
}

/** One table for all targets; of several, each row begins with its target. */
async function showCsv(context: Context, targets: readonly string[], options: ListOptions): Promise<ExitCode> {
  if (context.flags.json === true) {
    throw new UsageError("usage/arguments", "Cannot use --csv and --json together: choose one", {
      source: "command line",
    });
  }
  const list = (target: string): Promise<Listed> => listInput(commandHost(context), target, options);
  const outcomes = await lookAtEach(context, targets, list);
  const found = outcomes.flatMap(({ target, value }) => (value === undefined ? [] : [{ target, value }]));
  if (found.length > 0) {
    const several = targets.length > 1 ? "each row names its target" : "one target";
    await context.show({ json: () => undefined, text: () => renderCsv(found, several) });
  }
  return gravest(outcomes.map(({ error }) => (error === undefined ? EXIT.success : exitCodeOf(error))));
}

export interface EntrySelection extends EntryChoice {
  readonly detail: Detail;
}

/** Shows all entries of an archive, or those that match. */
export async function showEntries(
  archive: Archive,
  { detail, ...selection }: EntrySelection,
  context: Context,
): Promise<ExitCode> {
  const listed = listArchive(archive, selection);
  await context.show({ json: () => listResult(listed), text: () => renderListing(listed, detail, context) });
  return EXIT.success;
}
