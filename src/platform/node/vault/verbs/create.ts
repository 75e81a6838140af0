import type { VaultCreateResult } from "../../../../api/vault/results.ts";
import type { Bytes } from "../../../../base/bytes.ts";
import { UsageError } from "../../../../base/errors.ts";
import type { VaultKeys } from "../../../../formats/aerovault/keys.ts";
import { type Profile, profileSettings } from "../../../../formats/aerovault/write/profiles.ts";
import { refuseAddress, refuseVaultPath } from "../../files/output-place.ts";
import { checkNewVault, createVaultFile } from "../create.ts";
import type { ChangeTarget } from "./target.ts";

export interface NewVault {
  readonly profile: Profile;
  readonly encryption: "encrypted" | "plain";
  readonly parityPercent?: number | undefined;
  readonly overwrite: "refuse" | "replace";
  /** The password of an encrypted vault, asked for once everything else is right; wiped afterwards. */
  readonly password: () => Promise<Bytes | undefined>;
  /** Called when the vault has its name, with its keys, which are wiped afterwards. */
  readonly onCreated?: ((keys: VaultKeys) => Promise<void>) | undefined;
}

/** Makes an empty vault. */
export async function makeVault(target: ChangeTarget, fresh: NewVault): Promise<VaultCreateResult> {
  const { vault, dryRun, context } = target;
  const { profile, encryption, parityPercent, overwrite, onCreated } = fresh;
  refuseAddress(vault, "none");
  await refuseVaultPath(vault, "a vault");
  await checkNewVault(vault, overwrite);
  const password = encryption === "plain" ? undefined : await requirePassword(fresh, vault);
  try {
    const file = { overwrite, settings: profileSettings(profile), password, parityPercent, onCreated };
    const byteLength = dryRun ? 0 : (await createVaultFile(vault, file, context)).byteLength;
    const encrypted = encryption === "encrypted";
    return { vault, dryRun, format: "aerovault", version: "3", profile, encrypted, byteLength };
  } finally {
    password?.fill(0);
  }
}

async function requirePassword({ password: ask }: NewVault, vault: string): Promise<Bytes> {
  const password = await ask();
  if (password !== undefined) return password;
  const message = "Cannot create an encrypted vault without a password";
  const hint = "Pass the option password, or the option encryption: false for a vault without one";
  throw new UsageError("usage/password.missing", message, { source: vault }, { hint });
}
