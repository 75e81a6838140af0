import type { Archive } from "../../model/archive.ts";
import { type Request, requestOf, type VerbHost } from "../host.ts";
import { type Input, type OpenedInput, openInput } from "../inputs.ts";
import { HeldArchive } from "./held.ts";
import { VAULT_RULES, type VaultOptions } from "./options.ts";
import { requireArchive } from "./reading.ts";
import type { VaultCreateResult } from "./results.ts";
import { type Vault, vaultOver } from "./vault.ts";
import type { VaultPlace, VaultWriter } from "./writer.ts";

/** Opens a vault. Reads its control region alone. */
export async function openVault(host: VerbHost, input: Input, options: VaultOptions = {}): Promise<Vault> {
  const request = await requestOf(host, "openVault", options, VAULT_RULES);
  return vaultFrom(host, await openInput(host, input, request), input, request);
}

/** An input that is open, as a Vault, which closes it; a model is closed and refused. */
export async function vaultFrom(
  host: VerbHost,
  opened: OpenedInput,
  input: Input,
  request: Request<VaultOptions>,
): Promise<Vault> {
  try {
    requireArchive(opened);
    const target = typeof input === "string" || input instanceof URL ? String(input) : undefined;
    const place = target === undefined ? undefined : await host.vaultPlace?.(target, opened, request);
    return vaultOf(host, opened, { place, target });
  } catch (error) {
    await opened.close();
    throw error;
  }
}

/** How a vault was found. */
export interface VaultOrigin {
  readonly place?: VaultPlace | undefined;
  readonly target?: string | undefined;
}

/** An opened archive as a Vault, which closes it. */
export function vaultOf(host: VerbHost, opened: OpenedInput, { place, target }: VaultOrigin = {}): Vault {
  const archive = requireArchive(opened);
  let writer: VaultWriter | undefined;
  const held = new HeldArchive(
    { ...opened, container: archive },
    (before, after) => writer?.isSame(before, after) === true,
  );
  writer = place?.writer?.((next) => held.replace(next));
  const { label } = opened;
  const { format, version } = archive;
  const summary = (last: Archive | undefined): VaultCreateResult => summaryOf(label, last ?? archive);
  return vaultOver({ label, format, version, host, held, place, writer, summary, target });
}

function summaryOf(vault: string, archive: Archive): VaultCreateResult {
  const { format, version, parts, profile, encryption } = archive;
  return {
    vault,
    dryRun: false,
    format,
    version: version ?? null,
    profile: profile ?? null,
    encrypted: encryption !== "none",
    byteLength: parts.reduce((sum, part) => sum + part.byteLength, 0),
  };
}
