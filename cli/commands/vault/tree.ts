import { formatSize, plural } from "../../../src/base/figures.ts";
import {
  copyVaultEntry,
  makeVaultDirectories,
  moveVaultEntry,
  removeVaultEntries,
} from "../../../src/platform/node/vault/index.ts";
import { type Command, defineCommand } from "../../command.ts";
import type { Context } from "../../context.ts";
import type { ExitCode } from "../../exit-codes.ts";
import type { LockFlags } from "../../targets/vault-context.ts";
import { commandTarget, LOCK_FLAGS, showChange } from "./change.ts";

export const vaultMkdirCommand = defineCommand({
  positionals: { names: ["VAULT", "ENTRY"], min: 2, max: Number.MAX_SAFE_INTEGER },
  flags: { ...LOCK_FLAGS },
  details: [
    "Makes directories in a vault, with those above them. One that is there already is no error. The data of the vault is not touched, whatever its size.",
  ],
  examples: [{ command: "tare vault mkdir models.aerovault llama/7b", says: "a directory and its parent" }],
  output: "report",
  async run(context, { flags, positionals }) {
    const [vault = "", ...entries] = positionals;
    const result = await makeVaultDirectories(await commandTarget(context, vault, flags), entries);
    return showChange(context, result, `made ${plural(result.created, "directory", "directories")}`);
  },
});

export const vaultRmCommand = defineCommand({
  positionals: { names: ["VAULT", "ENTRY"], min: 2, max: Number.MAX_SAFE_INTEGER },
  flags: {
    recursive: { kind: "switch", short: "r", summary: "directories with everything in them" },
    ...LOCK_FLAGS,
  },
  details: [
    "Removes entries. What only they used is free for the next change and given back by `tare vault compact`; until then it is in the file still, encrypted, and readable for anyone who has an older copy of the manifest and the password.",
    "Where one of several entries cannot be removed, none is.",
  ],
  examples: [
    { command: "tare vault rm models.aerovault old.gguf", says: "one file" },
    { command: "tare vault rm -r models.aerovault llama && tare vault compact models.aerovault", says: "and the room" },
  ],
  output: "report",
  async run(context, { flags, positionals }) {
    const [vault = "", ...entries] = positionals;
    const { recursive } = flags;
    const result = await removeVaultEntries(await commandTarget(context, vault, flags), entries, { recursive });
    const { removed, freedBytes } = result;
    const text = `removed ${plural(removed, "entry", "entries")}, ${formatSize(freedBytes)} unused now`;
    return showChange(context, result, text);
  },
});

export const vaultMvCommand = moveCommand({
  details: [
    "Gives an entry, and everything below it, another path. TO is the new path itself; where TO is a directory of the vault or ends with a slash, the entry goes into it under its own name. Nothing is replaced.",
  ],
  example: { command: "tare vault mv models.aerovault a.gguf old/a.gguf", says: "directories are made" },
  async run(context, [vault, from, to], flags) {
    const result = await moveVaultEntry(await commandTarget(context, vault, flags), from, to);
    return showChange(context, result, `moved "${result.from}" to "${result.to}"`);
  },
});

export const vaultCpCommand = moveCommand({
  details: [
    "A second entry with the same contents, which are not stored again: copies cost their line in the manifest. TO is the new path itself; where TO is a directory of the vault or ends with a slash, the copy goes into it under its own name. Nothing is replaced.",
  ],
  example: { command: "tare vault cp models.aerovault a.gguf b.gguf", says: "no data is written" },
  async run(context, [vault, from, to], flags) {
    const result = await copyVaultEntry(await commandTarget(context, vault, flags), from, to);
    const text = `copied "${result.from}" to "${result.to}": ${plural(result.copied, "entry", "entries")}`;
    return showChange(context, result, text);
  },
});

interface Move {
  readonly details: readonly string[];
  readonly example: { readonly command: string; readonly says: string };
  run(context: Context, of: readonly [vault: string, from: string, to: string], flags: LockFlags): Promise<ExitCode>;
}

function moveCommand({ details, example, run }: Move): Command {
  return defineCommand({
    positionals: { names: ["VAULT", "FROM", "TO"], min: 3, max: 3 },
    flags: { ...LOCK_FLAGS },
    details,
    examples: [example],
    output: "report",
    run(context, { flags, positionals }) {
      const [vault = "", from = "", to = ""] = positionals;
      return run(context, [vault, from, to], flags);
    },
  });
}
