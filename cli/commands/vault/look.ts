import { infoOf } from "../../../src/api/vault/reading.ts";
import { UsageError } from "../../../src/base/errors.ts";
import type { Archive } from "../../../src/model/archive.ts";
import { localFileOf, type OpenedTarget } from "../../../src/platform/node/targets.ts";
import { defineCommand } from "../../command.ts";
import type { Context } from "../../context.ts";
import { EXIT } from "../../exit-codes.ts";
import { renderVaultInfo } from "../../render/vault-info.ts";
import { checkAbsent, checkStandardOutput } from "../../targets/outputs.ts";
import { showArchiveDiff } from "../look/diff.ts";
import { showEntries } from "../look/ls.ts";
import { catEntry } from "../move/cat.ts";

/** A vault that a command reads; it is closed when the command ends. */
export interface OpenedArchive extends OpenedTarget {
  readonly container: Archive;
}

/** Opens a VAULT: a path, URL or file inside another vault; refuses a model. */
export async function openArchive(context: Context, target: string): Promise<OpenedArchive> {
  const opened = await context.open(target);
  const { container, format, label } = opened;
  if (container.kind === "archive") return { ...opened, container };
  const message = `Cannot look into "${label}": must be a vault, found a ${format.name} model`;
  const hint = "Look at models with: tare ls, tare inspect, tare cat";
  throw new UsageError("usage/not-an-archive", message, { source: label }, { hint });
}

export const vaultLsCommand = defineCommand({
  positionals: { names: ["VAULT", "GLOB"], min: 1, max: 2 },
  flags: {
    long: { kind: "switch", short: "l", summary: "exact sizes, times and permissions too" },
  },
  details: [
    "One line an entry: size, time, path; directories end in a slash. Reads the manifest only, whatever the vault holds. In a GLOB, * crosses slashes.",
  ],
  examples: [
    { command: "tare vault ls models.aerovault", says: "everything" },
    { command: 'tare vault ls models.aerovault "*.gguf" --json', says: "some of it, for scripts" },
  ],
  output: "report",
  async run(context, { flags, positionals }) {
    const [target = "", ...globs] = positionals;
    const { container, label } = await openArchive(context, target);
    return showEntries(container, { globs, label, detail: flags.long === true ? "long" : "short" }, context);
  },
});

export const vaultCatCommand = defineCommand({
  positionals: { names: ["VAULT", "ENTRY"], min: 2, max: 2 },
  flags: {},
  details: [
    "The file's bytes to standard output or -o. Only the blocks that hold it are read, also over HTTP, and every one is proven before its bytes are handed out.",
  ],
  examples: [
    { command: "tare vault cat models.aerovault notes/readme.md > readme.md", says: "one file" },
    { command: "tare vault cat https://example.org/models.aerovault a.gguf -o a.gguf", says: "from a server" },
  ],
  output: "data",
  vaultOutput: "single file",
  async run(context, { positionals }) {
    const [target = "", path = ""] = positionals;
    const output = context.flags.output === "-" ? undefined : context.flags.output;
    if (output === undefined) checkStandardOutput(context);
    else await checkAbsent(context, output);
    const { container } = await openArchive(context, target);
    return catEntry(container, path, output, context);
  },
});

export const vaultDiffCommand = defineCommand({
  positionals: { names: ["A", "B"], min: 2, max: 2 },
  flags: {
    "exit-code": { kind: "switch", summary: "exit 3 where the two differ" },
  },
  details: [
    "Entries are compared by path, type and content; times and permissions do not count. Between states of one vault contents are compared by their chunk ids, without reading them; between other vaults byte by byte. One password serves both.",
  ],
  examples: [{ command: "tare vault diff old.aerovault new.aerovault --exit-code", says: "what changed since?" }],
  output: "report",
  async run(context, { flags, positionals }) {
    const [first = "", second = ""] = positionals;
    const a = await openArchive(context, first);
    const b = await openArchive(context, second);
    return showArchiveDiff([a.container, b.container], flags["exit-code"], context);
  },
});

export const vaultInfoCommand = defineCommand({
  positionals: { names: ["VAULT"], min: 1, max: 1 },
  flags: {},
  details: [
    "Format, encryption, compression, chunking and parity, how many files and chunks there are, what they take and what is stored. Names a sidecar beside the vault, and says whether it was made of this header and manifest. Reads the manifest and the sidecar's parity of it only.",
  ],
  examples: [{ command: "tare vault info models.aerovault --json", says: "for scripts" }],
  output: "report",
  async run(context, { positionals }) {
    const [target = ""] = positionals;
    const { container, label } = await openArchive(context, target);
    const facts = await allFacts(context, target, container);
    const info = infoOf(container, facts);
    await context.show({
      json: () => info,
      text: () => renderVaultInfo(container, { ...info, label, facts }, context),
    });
    return EXIT.success;
  },
});

type Facts = Archive["facts"];

/** The facts of the vault itself and, after its parity, of the sidecar beside it. */
async function allFacts(context: Context, target: string, container: Archive): Promise<Facts> {
  const path = await localFileOf(target);
  // A vault in another one has no files beside it.
  if (path === undefined || container.parts[0]?.label !== path) return container.facts;
  const { vaultFileFacts } = await import("../../../src/platform/node/vault/index.ts");
  return vaultFileFacts(container, path, await context.engine());
}
