import type { Bytes } from "../../../src/base/bytes.ts";
import { UsageError } from "../../../src/base/errors.ts";
import { printable } from "../../../src/base/text.ts";
import { PROFILES, type Profile, profileSettings } from "../../../src/formats/aerovault/write/profiles.ts";
import { defineCommand } from "../../command.ts";
import type { Context } from "../../context.ts";
import { EXIT } from "../../exit-codes.ts";
import { checkAbsent, overwriteOf } from "../../output-target.ts";
import { PARITY_FLAG, parseParity } from "../../parity-level.ts";
import { formatSize } from "../../render/sizes.ts";
import { writeContext } from "./change.ts";

export const vaultCreateCommand = defineCommand({
  positionals: { names: ["VAULT"], min: 1, max: 1 },
  flags: {
    profile: { kind: "choice", choices: PROFILES, summary: "how hard to compress (balanced)" },
    "no-encryption": { kind: "switch", summary: "no password: everybody can read and change it" },
    parity: { ...PARITY_FLAG, summary: "carry parity: 5% to 50%, low, medium, quartile or high" },
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
    await checkAbsent(context, vault);
    const profile = flags.profile ?? "balanced";
    const parityPercent = flags.parity === undefined ? undefined : parseParity(flags.parity);
    const isPlain = flags["no-encryption"] === true;
    const password = isPlain ? undefined : await requirePassword(context, vault);
    const dryRun = context.flags["dry-run"] === true;
    try {
      const byteLength = dryRun ? 0 : await create(context, vault, { profile, parityPercent, password });
      await context.show({
        json: () => ({ vault, dryRun, format: "aerovault", version: "3", profile, encrypted: !isPlain, byteLength }),
        text: () => {
          const kind = isPlain ? "a vault without encryption" : "an encrypted vault";
          return `${dryRun ? "would create" : "created"} ${printable(vault)}: ${kind}, profile ${profile}, ${formatSize(byteLength)}`;
        },
      });
    } finally {
      password?.fill(0);
    }
    return EXIT.success;
  },
});

interface NewVault {
  readonly profile: Profile;
  readonly parityPercent: number | undefined;
  readonly password: Bytes | undefined;
}

async function create(context: Context, vault: string, options: NewVault): Promise<number> {
  const { createVaultFile } = await import("../../../src/platform/node/vault-create.ts");
  const { profile, password, parityPercent } = options;
  const file = { overwrite: overwriteOf(context), settings: profileSettings(profile), password, parityPercent };
  const sealed = await createVaultFile(vault, file, await writeContext(context));
  return sealed.byteLength;
}

async function requirePassword(context: Context, vault: string): Promise<Bytes> {
  const { readPassword } = await import("../../password.ts");
  const password = await readPassword(context, vault, "new");
  if (password !== undefined) return password;
  throw new UsageError(
    "usage/password.missing",
    "Cannot create an encrypted vault without a password",
    { source: vault },
    { hint: "Pass --password-file FILE, set TARE_PASSWORD_FILE, or pass --no-encryption" },
  );
}
