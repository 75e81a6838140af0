import type { Bytes } from "../../../src/base/bytes.ts";
import { UnsupportedError, UsageError } from "../../../src/base/errors.ts";
import { printable } from "../../../src/base/text.ts";
import type { Vault } from "../../../src/formats/aerovault/vault.ts";
import type { VaultState } from "../../../src/formats/aerovault/write/vault-state.ts";
import { defineCommand } from "../../command.ts";
import type { Context } from "../../context.ts";
import { EXIT, type ExitCode } from "../../exit-codes.ts";
import { writeContext } from "./change.ts";
import { noteSidecar } from "./sidecar-note.ts";

const KEPT_KEY =
  "note: the vault's own key is the same as before: an older copy of the vault opens with the old password still; --rekey encrypts everything anew";

export const vaultPasswdCommand = defineCommand({
  positionals: { names: ["VAULT"], min: 1, max: 1 },
  flags: {
    "new-password-file": { kind: "path", value: "FILE", summary: "the new password; else you are asked" },
    rekey: { kind: "switch", summary: "new keys too: every block is encrypted anew" },
  },
  details: [
    "Gives the vault another password. Contents are encrypted with a key of the vault's own, which the password only wraps: without --rekey that key stays, and whoever has an old copy of the vault and the old password can still open that copy, and read blocks of the new one with what is in it.",
    "--rekey makes new keys and encrypts every block anew, which takes as much room as the vault and reads all of it. Chunks stay cut as they are, under new ids.",
    "A sidecar of the vault holds the old key slots: it is made anew, or removed where that fails, which is said. Copies of it elsewhere cannot bring the old password back either, as a header is healed only where the whole vault is the one that the sidecar was made of.",
    "A vault has one password: there are no key files and no second one.",
  ],
  examples: [
    { command: "tare vault passwd models.aerovault", says: "asks for the old one and the new one" },
    { command: "tare vault passwd models.aerovault --rekey --new-password-file new.txt", says: "after a leak" },
  ],
  output: "report",
  async run(context, { flags, positionals }) {
    const [vault = ""] = positionals;
    const fresh = await readNewPassword(context, vault, flags["new-password-file"]);
    try {
      return await (flags.rekey === true ? rekey(context, vault, fresh) : exchange(context, vault, fresh));
    } finally {
      fresh.fill(0);
    }
  },
});

/** Other key slots for the same keys: costs a manifest. */
async function exchange(context: Context, vault: string, fresh: Bytes): Promise<ExitCode> {
  const [{ changeVault }, { reslot }, { secureRandom }] = await Promise.all([
    import("../../../src/platform/node/vault-writer.ts"),
    import("../../../src/operations/vault/rekey.ts"),
    import("../../../src/primitives/crypto/secrets.ts"),
  ]);
  const writing = await writeContext(context);
  await changeVault(vault, writing, {
    layout: "update",
    run: context.flags["dry-run"] === true ? "dry" : undefined,
    sidecar: "renewed",
    apply: async (_, opened) => {
      checkEncrypted(opened);
      return { result: undefined, slots: await reslot(writing.engine, opened.keys, fresh, secureRandom) };
    },
  });
  await renew(context, vault, fresh);
  context.note(KEPT_KEY);
  return report(context, vault, "changed the password");
}

/** New keys, and every block under them. */
async function rekey(context: Context, vault: string, fresh: Bytes): Promise<ExitCode> {
  const [{ changeVault }, { rekeyBlocks, restateUnderNewKeys }, { wipeKeys }] = await Promise.all([
    import("../../../src/platform/node/vault-writer.ts"),
    import("../../../src/operations/vault/rekey.ts"),
    import("../../../src/formats/aerovault/keys.ts"),
  ]);
  const writing = await writeContext(context);
  const progress = context.progress({ label: "encrypting" });
  let state: VaultState | undefined;
  try {
    await changeVault(vault, writing, {
      layout: "rewrite",
      run: context.flags["dry-run"] === true ? "dry" : undefined,
      sidecar: "renewed",
      restate: async (opened) => {
        checkEncrypted(opened);
        state = await restateUnderNewKeys(opened, writing.engine, fresh);
        return state;
      },
      apply: async (edit, opened) => {
        checkEncrypted(opened);
        if (state === undefined) return { result: undefined };
        const onProgress = (byteLength: number): void => progress.add(byteLength);
        await rekeyBlocks(opened, edit, {
          engine: writing.engine,
          keys: state.keys,
          signal: context.signal,
          onProgress,
        });
        return { result: undefined };
      },
    });
  } finally {
    if (state !== undefined) wipeKeys(state.keys);
    progress.end();
  }
  await renew(context, vault, fresh);
  return report(context, vault, "changed the password and all keys");
}

/** A sidecar holds the key slots of the old password: it must not outlive them. */
async function renew(context: Context, vault: string, fresh: Bytes): Promise<void> {
  if (context.flags["dry-run"] !== true) await noteSidecar(context, vault, async () => fresh.slice());
}

async function report(context: Context, vault: string, text: string): Promise<ExitCode> {
  const dryRun = context.flags["dry-run"] === true;
  await context.show({
    json: () => ({ vault, dryRun, changed: !dryRun }),
    text: () => `${printable(vault)}: ${dryRun ? "would have " : ""}${text}`,
  });
  return EXIT.success;
}

/** From its own file or a prompt, never from where the present password comes from. */
async function readNewPassword(context: Context, vault: string, file: string | undefined): Promise<Bytes> {
  const [{ readPassword, withPasswordFile }, { checkNewPassword }] = await Promise.all([
    import("../../password.ts"),
    import("../../../src/operations/vault/create.ts"),
  ]);
  const fresh = await readPassword(withPasswordFile(context, file), `${vault} (new)`, "new");
  if (fresh === undefined) {
    const hint = "Pass --new-password-file FILE";
    throw new UsageError(
      "usage/password.missing",
      "Cannot change the password without a new one",
      { source: vault },
      { hint },
    );
  }
  checkNewPassword(fresh, vault);
  return fresh;
}

function checkEncrypted({ keys, source }: Vault): void {
  if (keys.lane === "encrypted") return;
  const message = `Cannot change the password of "${source.label}": it is not encrypted`;
  const hint = "Create an encrypted vault, and add what is in this one";
  throw new UnsupportedError("unsupported/vault.plain", message, { source: source.label }, { hint });
}
