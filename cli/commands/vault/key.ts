import type { VaultKeyAddResult, VaultKeyListResult, VaultKeyRemoveResult } from "../../../src/api/vault/results.ts";
import { UsageError } from "../../../src/base/errors.ts";
import { printable } from "../../../src/base/text.ts";
import { checkNewPassword } from "../../../src/operations/vault/index.ts";
import { addVaultKey, removeVaultKey, type WantedKey } from "../../../src/platform/node/vault/index.ts";
import { defineCommand } from "../../command.ts";
import type { Context } from "../../context.ts";
import { EXIT, type ExitCode } from "../../exit-codes.ts";
import type { FlagTable, FlagValues } from "../../flags/flags.ts";
import { renderTable } from "../../render/table.ts";
import { readPassword, withPasswordFile } from "../../terminal/password.ts";
import { commandTarget, LOCK_FLAGS } from "./change.ts";
import { openArchive } from "./look.ts";

const ACTIONS = ["add", "ls", "rm"] as const;

const ADD_FLAGS = {
  "new-password-file": { kind: "path", value: "FILE", summary: "add: another password" },
  "new-key-file": { kind: "path", value: "FILE", summary: "add: a key file, which is made if it is missing" },
  recovery: { kind: "switch", summary: "add: a recovery key, which is shown once" },
  label: { kind: "text", value: "TEXT", summary: "add: how the key is called" },
} as const satisfies FlagTable;

const FLAGS = { ...ADD_FLAGS, ...LOCK_FLAGS };

export const vaultKeyCommand = defineCommand({
  positionals: { names: ["add|ls|rm", "VAULT", "ID|LABEL"], min: 2, max: 3 },
  flags: FLAGS,
  details: [
    "A vault opens with its first password and with up to 16 keys besides: passwords, key files and recovery keys. add makes one with what opens the vault now; ls names them, with what is not secret; rm takes one out.",
    "--new-key-file FILE takes the bytes of FILE without one newline at the end, 16 at least; if there is no such file, one with 32 random bytes as hex is made, for its owner alone. --key-file FILE opens the vault then. --recovery shows a key of 28 letters, which is stored nowhere: write it down. It is entered like a password; case, spaces and dashes do not matter, O is 0, I and L are 1.",
    "Other programs know the first password alone, and keep the other keys when they write, but for their labels. rm revokes nothing for those who kept a copy of the vault: tare vault passwd --rekey makes new keys, and ends all others.",
  ],
  examples: [
    {
      command: "tare vault key add models.aerovault --new-password-file ann.txt --label ann",
      says: "another password",
    },
    { command: "tare vault key add models.aerovault --recovery --label paper", says: "shows a key to write down" },
    { command: "tare vault key ls models.aerovault --key-file build.key", says: "opened by a key file" },
    { command: "tare vault key rm models.aerovault ann", says: "ann's password opens it no more" },
  ],
  output: "report",
  async run(context, { flags, positionals }) {
    const [typed = "", vault = "", named] = positionals;
    const action = ACTIONS.find((one) => one === typed);
    if (action === undefined)
      throw unusable(`Cannot run "vault key ${printable(typed)}": must be one of ${ACTIONS.join(", ")}`);
    checkArguments(action, named, flags);
    if (action === "add") return add(context, vault, flags);
    return action === "ls" ? list(context, vault) : remove(context, vault, { named: named ?? "", flags });
  },
});

type Flags = FlagValues<typeof FLAGS>;

function checkArguments(action: (typeof ACTIONS)[number], named: string | undefined, flags: Flags): void {
  const stray =
    action === "add" ? undefined : Object.keys(ADD_FLAGS).find((name) => flags[name as keyof Flags] !== undefined);
  if (stray !== undefined) throw unusable(`Cannot use --${stray} with vault key ${action}: it is for add`);
  if (action === "rm" && named === undefined) throw unusable("Cannot remove a key without its ID or LABEL");
  if (action !== "rm" && named !== undefined) {
    throw unusable(`Cannot use "${printable(named)}" with vault key ${action}: no such argument is expected`);
  }
}

function unusable(message: string): UsageError {
  const hint = "Usage: tare vault key add|ls|rm VAULT [ID|LABEL]";
  return new UsageError("usage/arguments", message, { source: "command line" }, { hint });
}

async function add(context: Context, vault: string, flags: Flags): Promise<ExitCode> {
  const wanted = wantedKey(context, vault, flags);
  const result = await addVaultKey(await commandTarget(context, vault, flags), wanted, flags.label);
  const shown = { json: () => result, text: () => addedText(result) };
  // A recovery key is shown once, whatever else is silent.
  await (result.recovery === undefined ? context.tell(shown) : context.show(shown));
  return EXIT.success;
}

function wantedKey(context: Context, vault: string, flags: Flags): WantedKey {
  const { "new-password-file": passwordFile, "new-key-file": file, recovery } = flags;
  const given = [passwordFile, file, recovery].filter((one) => one !== undefined);
  if (given.length !== 1) {
    const message = `Cannot add ${given.length === 0 ? "no key" : "several keys at once"}: must be the option newPassword, newKeyFile or recovery`;
    throw new UsageError("usage/vault.key", message, { source: "command line" });
  }
  if (recovery !== undefined) return { kind: "recovery" };
  if (file !== undefined) return { kind: "key-file", file };
  return {
    kind: "password",
    password: async () => {
      const check = (password: Parameters<typeof checkNewPassword>[0]): void => checkNewPassword(password, vault);
      const fresh = await readPassword(withPasswordFile(context, passwordFile), `${vault} (new)`, {
        use: "new",
        check,
      });
      if (fresh !== undefined) return fresh;
      throw new UsageError("usage/password.missing", "Cannot add a password without one", { source: vault });
    },
  };
}

function addedText({ vault, dryRun, id, label, kind, recovery, madeFile }: VaultKeyAddResult): string {
  const what = `${KINDS[kind]}${label === null ? "" : ` "${printable(label)}"`}`;
  if (dryRun) return `${printable(vault)}: would add ${what}`;
  const made = madeFile === undefined ? [] : [`made ${printable(madeFile)}: whoever has it opens the vault`];
  const shown =
    recovery === undefined ? [] : ["", `  ${recovery}`, "", "write it down: it is stored nowhere, and not shown again"];
  return [`${printable(vault)}: added ${what}, with the id ${id}`, ...made, ...shown].join("\n");
}

const KINDS: Readonly<Record<VaultKeyAddResult["kind"], string>> = {
  password: "a password",
  "key-file": "a key file",
  recovery: "a recovery key",
  key: "a key",
};

async function list(context: Context, vault: string): Promise<ExitCode> {
  const { container } = await openArchive(context, vault);
  const result: VaultKeyListResult = { keys: container.keys ?? [] };
  await context.show({ json: () => result, text: () => keyTable(result, context) });
  return EXIT.success;
}

function keyTable({ keys }: VaultKeyListResult, { width, colors }: Context): string {
  if (keys.length === 0) return "no keys: it is not encrypted, or of an older version, which has one password";
  const rows = keys.map(({ id, label, kind, created, state }) => [
    id,
    kind,
    label === null ? { text: "-", style: colors.dim } : printable(label),
    created === null ? { text: "-", style: colors.dim } : printable(created),
    state === undefined ? "" : STATES[state],
  ]);
  return renderTable([{}, {}, {}, {}, {}], rows, { width });
}

const STATES = { gone: "gone: opens it no more", unlisted: "not listed: opens nothing" } as const;

interface Removal {
  readonly named: string;
  readonly flags: Flags;
}

async function remove(context: Context, vault: string, { named, flags }: Removal): Promise<ExitCode> {
  const result = await removeVaultKey(await commandTarget(context, vault, flags), named);
  await context.tell({ json: () => result, text: () => removedText(result) });
  return EXIT.success;
}

function removedText({ vault, dryRun, removed: { id, label, kind } }: VaultKeyRemoveResult): string {
  const what = `${KINDS[kind]}${label === null ? "" : ` "${printable(label)}"`} (${id})`;
  return `${printable(vault)}: ${dryRun ? "would remove" : "removed"} ${what}`;
}
