import { openVault } from "../../../src/api/vault/open.ts";
import { requireArchive } from "../../../src/api/vault/reading.ts";
import type { Vault } from "../../../src/api/vault/vault.ts";
import type { Archive } from "../../../src/model/archive.ts";
import type { OpenedTarget } from "../../../src/platform/node/targets.ts";
import { defineCommand } from "../../command.ts";
import type { Context } from "../../context.ts";
import { EXIT } from "../../exit-codes.ts";
import { commandHost, readOptions, writeOptions } from "../../host.ts";
import { renderVaultInfo } from "../../render/inspection.ts";
import { renderDiff } from "../../render/look/differences.ts";
import { checkAbsent, checkStandardOutput } from "../../targets/outputs.ts";
import { exitCodeOfDiff } from "../look/diff.ts";
import { showEntries } from "../look/ls.ts";
import { reportCat } from "../move/cat.ts";

/** A vault that a command reads; it is closed when the command ends. */
export interface OpenedArchive extends OpenedTarget {
  readonly container: Archive;
}

/** Opens a VAULT: a path, URL or file inside another vault; refuses a model. */
export async function openArchive(context: Context, target: string): Promise<OpenedArchive> {
  const opened = await context.open(target);
  return { ...opened, container: requireArchive(opened) };
}

/** Opens a VAULT as the library does. */
async function openNamedVault(context: Context, target: string): Promise<Vault> {
  return openVault(commandHost(context), target, await readOptions(context));
}

export const vaultLsCommand = defineCommand({
  positionals: { names: ["VAULT", "GLOB"], min: 1, max: Number.MAX_SAFE_INTEGER },
  flags: {
    long: { kind: "switch", short: "l", summary: "exact sizes, times and permissions too" },
    sort: { kind: "choice", choices: ["size", "name"], summary: "the longest first, or by name" },
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
    const detail = flags.long === true ? "long" : "short";
    return showEntries(container, { globs, label, sort: flags.sort, detail }, context);
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
    const vault = await openNamedVault(context, target);
    return reportCat(context, output ?? "-", await vault.cat(path, output ?? "-", await writeOptions(context)));
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
    const vault = await openNamedVault(context, first);
    const result = await vault.diff(second, await readOptions(context));
    await context.show({ json: () => result, text: () => renderDiff(result, "shown", context) });
    return exitCodeOfDiff(result, flags["exit-code"]);
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
    const vault = await openNamedVault(context, target);
    const info = await vault.info();
    await context.show({ json: () => info, text: () => renderVaultInfo(vault.label, info, context) });
    return EXIT.success;
  },
});
