import { formatSize } from "../../../src/base/figures.ts";
import { printable } from "../../../src/base/text.ts";
import { checkNewPassword, PROFILES } from "../../../src/operations/vault/index.ts";
import { makeVault } from "../../../src/platform/node/vault/index.ts";
import { defineCommand } from "../../command.ts";
import { EXIT } from "../../exit-codes.ts";
import { PARITY_FLAG, parseParity } from "../../flags/quantities.ts";
import { checkNotInput, overwriteOf } from "../../targets/outputs.ts";
import { readPassword } from "../../terminal/password.ts";
import { commandTarget, LOCK_FLAGS } from "./change.ts";

export const vaultCreateCommand = defineCommand({
  positionals: { names: ["VAULT"], min: 1, max: 1 },
  flags: {
    profile: { kind: "choice", choices: PROFILES, summary: "how hard to compress (balanced)" },
    "no-encryption": { kind: "switch", summary: "no password: everybody can read and change it" },
    parity: { ...PARITY_FLAG, summary: "carry parity: 5% to 50%, low, medium, quartile or high" },
    ...LOCK_FLAGS,
  },
  details: [
    "Makes an empty AeroVault v3: one encrypted file that stores equal contents once. The password comes from --password-file, TARE_PASSWORD_FILE, TARE_PASSWORD_COMMAND, TARE_PASSWORD or a prompt; it must have eight bytes. There is no way back without it.",
    "Profiles: fast (zstd 3), balanced (zstd 9 where that pays), archive (zstd 19 where that pays, chunks four times as long).",
    "--no-encryption keeps deduplication and compression only. Contents are checked by their ids, but nothing proves who wrote them, and names and times are not protected.",
  ],
  examples: [
    { command: "tare vault create models.aerovault", says: "asks for a password" },
    { command: "tare vault create cold.aerovault --profile archive --password-file pw.txt", says: "for cold storage" },
  ],
  output: "report",
  writes: [0],
  async run(context, { flags, positionals }) {
    const [vault = ""] = positionals;
    await checkNotInput(context, vault);
    const isPlain = flags["no-encryption"] === true;
    const result = await makeVault(await commandTarget(context, vault, flags), {
      profile: flags.profile ?? "balanced",
      encryption: isPlain ? "plain" : "encrypted",
      parityPercent: flags.parity === undefined ? undefined : parseParity(flags.parity),
      overwrite: overwriteOf(context),
      password: () =>
        readPassword(context, vault, { use: "new", check: (password) => checkNewPassword(password, vault) }),
    });
    await context.tell({
      json: () => result,
      text: () => {
        const kind = isPlain ? "a vault without encryption" : "an encrypted vault";
        return `${result.dryRun ? "would create" : "created"} ${printable(vault)}: ${kind}, profile ${result.profile}, ${formatSize(result.byteLength)}`;
      },
    });
    return EXIT.success;
  },
});
