import type { Bytes } from "../../../src/base/bytes.ts";
import { UsageError } from "../../../src/base/errors.ts";
import { checkNewPassword } from "../../../src/operations/vault/index.ts";
import { changeVaultPassword } from "../../../src/platform/node/vault/index.ts";
import { defineCommand } from "../../command.ts";
import type { Context } from "../../context.ts";
import { canAsk, readPassword, withPasswordFile } from "../../terminal/password.ts";
import { quietTerminal } from "../../terminal/prompt.ts";
import { commandTarget, LOCK_FLAGS, showChange } from "./change.ts";

export const vaultPasswdCommand = defineCommand({
  positionals: { names: ["VAULT"], min: 1, max: 1 },
  flags: {
    "new-password-file": { kind: "path", value: "FILE", summary: "the new password; else you are asked" },
    rekey: { kind: "switch", summary: "new keys too: every block is encrypted again" },
    ...LOCK_FLAGS,
  },
  details: [
    "Gives the vault another password. Contents are encrypted with a key of the vault's own, which the password only wraps: without --rekey that key stays, and anyone who has an old copy of the vault and the old password can still open that copy, and read blocks of the new one with what is in it.",
    "--rekey makes new keys and encrypts every block again, which takes as much room as the vault and reads all of it. Chunks stay cut as they are, under new ids.",
    "A sidecar of the vault holds the old key slots: it is made again, or removed if that fails, and the command says so. Copies of it elsewhere cannot bring the old password back either, as a header is healed only where the whole vault is the one that the sidecar was made of.",
    "A vault has one password: there are no key files and no second one.",
  ],
  examples: [
    { command: "tare vault passwd models.aerovault", says: "asks for the old one and the new one" },
    { command: "tare vault passwd models.aerovault --rekey --new-password-file new.txt", says: "after a leak" },
  ],
  output: "report",
  async run(context, { flags, positionals }) {
    const [vault = ""] = positionals;
    const { rekey } = flags;
    const target = await commandTarget(context, vault, flags);
    const asked = await newPassword(context, vault, flags["new-password-file"]);
    try {
      const result = await changeVaultPassword(target, asked.password, { rekey });
      return await showChange(context, result, `changed the password${rekey === true ? " and all keys" : ""}`);
    } finally {
      asked.end();
    }
  },
});

interface NewPassword {
  password(): Promise<Bytes>;
  end(): void;
}

/**
 * From a separate file or a prompt, never from the source of the current password. A user is asked only once the old
 * one has opened the vault; what is typed until then does not show.
 */
async function newPassword(context: Context, vault: string, file: string | undefined): Promise<NewPassword> {
  const other = withPasswordFile(context, file);
  const check = (password: Bytes): void => checkNewPassword(password, vault);
  const read = () => readPassword(other, `${vault} (new)`, { use: "new", check });
  if (file === undefined && canAsk(context)) {
    const quiet = quietTerminal(context);
    const password = (): Promise<Bytes> =>
      read()
        .then((fresh) => fresh ?? missing(vault))
        .finally(quiet.end);
    return { password, end: quiet.end };
  }
  const fresh = (await read()) ?? missing(vault);
  return { password: async () => fresh, end: () => fresh.fill(0) };
}

function missing(vault: string): never {
  const message = "Cannot change the password without a new one";
  const hint = "Pass --new-password-file FILE";
  throw new UsageError("usage/password.missing", message, { source: vault }, { hint });
}
