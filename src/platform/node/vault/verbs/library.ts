import { requestOf, withDoubts } from "../../../../api/host.ts";
import { vaultOf } from "../../../../api/vault/open.ts";
import {
  CREATE_RULES,
  type CreateVaultOptions,
  REPAIR_RULES,
  type RepairVaultOptions,
} from "../../../../api/vault/options.ts";
import type { RepairVaultResult } from "../../../../api/vault/results.ts";
import { type Vault, vaultOver } from "../../../../api/vault/vault.ts";
import { aerovault } from "../../../../formats/aerovault/index.ts";
import { copyKeys, type VaultKeys, wipeKeys } from "../../../../formats/aerovault/keys.ts";
import { parityPercent } from "../../../../model/parity/avec.ts";
import { passwordSource } from "../../../../model/password.ts";
import { nodeHost, vaultContext } from "../../host.ts";
import { checkPath, withPaths } from "../../paths.ts";
import { afterwards } from "../draft.ts";
import { realVault } from "../sidecar.ts";
import { makeVault } from "./create.ts";
import { targetOf } from "./target.ts";
import { repairVaultFile } from "./upkeep.ts";
import { openState, vaultFilePlace } from "./writer.ts";

/** `createVault` of the library. */
export async function createVault(named: string | URL, options: CreateVaultOptions = {}): Promise<Vault> {
  const path = checkPath("createVault", "path", named);
  const first = nodeHost([{ path, kind: "vault" }]);
  const request = await requestOf(first, "createVault", options, CREATE_RULES);
  const { force, encryption, profile = "balanced", parity, password, engine } = request;
  const context = vaultContext(first.listening(request));
  let keys: VaultKeys | undefined;
  try {
    const result = await makeVault(targetOf(path, context, request), {
      profile,
      encryption: encryption === false ? "plain" : "encrypted",
      parityPercent: parity === undefined ? undefined : parityPercent(parity),
      overwrite: force === true ? "replace" : "refuse",
      password: async () => passwordSource(password, request.signal)?.(path),
      onCreated: async (made) => {
        keys = copyKeys(made);
      },
    });
    const { format, version } = { format: result.format, version: result.version ?? undefined };
    if (keys === undefined) return vaultOver({ label: path, format, version, host: first, summary: () => result });
    const known = keys;
    const contextFor = (): typeof context => ({ ...context, signal: undefined });
    const archive = await afterwards(path, async () =>
      openState({ path, contextFor }, await realVault(path), () => copyKeys(known)),
    );
    const opened = {
      container: archive,
      format: aerovault,
      reader: await aerovault.read(),
      notes: [],
      label: path,
      cost: { reads: 0, bytes: 0, requests: 0 },
      distrust: () => archive.close(),
      close: () => archive.close(),
    };
    const place = await vaultFilePlace(path, opened, { engine }, (change) =>
      vaultContext(first.listening({ ...request, ...change })),
    );
    return vaultOf(first, opened, { place, target: path });
  } finally {
    if (keys !== undefined) wipeKeys(keys);
  }
}

/** `repairVault` of the library. */
export async function repairVault(named: string | URL, options: RepairVaultOptions = {}): Promise<RepairVaultResult> {
  const path = checkPath("repairVault", "path", named);
  const host = nodeHost();
  const request = await requestOf(host, "repairVault", options, REPAIR_RULES);
  const { sidecar, output, force } = withPaths(request, "sidecar", "output");
  const overwrite = force === true ? "replace" : "refuse";
  const target = targetOf(path, vaultContext(host.listening(request)), request);
  return withDoubts(host, await repairVaultFile(target, { sidecar, output, overwrite }));
}
