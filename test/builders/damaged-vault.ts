import type { Bytes } from "../../src/base/bytes.ts";
import { isTareError } from "../../src/base/errors.ts";
import { encodeUtf8 } from "../../src/base/text.ts";
import { memorySink, memorySource } from "../../src/bytes/memory.ts";
import { readSidecar } from "../../src/formats/aerocorrect/read.ts";
import { VaultArchive } from "../../src/formats/aerovault/archive.ts";
import { gridOf } from "../../src/formats/aerovault/extensions/rows.ts";
import { openVault } from "../../src/formats/aerovault/open.ts";
import { closeVault, type Vault } from "../../src/formats/aerovault/vault.ts";
import { verifyAerovault } from "../../src/formats/aerovault/verify.ts";
import type { Finding } from "../../src/model/finding.ts";
import type { OpenContext } from "../../src/model/format.ts";
import { prepareExport } from "../../src/operations/vault/parity.ts";
import { recoverVault } from "../../src/operations/vault/recover.ts";
import { planVaultRepair, type VaultRepair } from "../../src/operations/vault/repair.ts";
import type { Engine } from "../../src/primitives/engine.ts";

/** How the vaults of a test are opened. */
export interface VaultTools {
  readonly engine: Engine;
  readonly password?: string | undefined;
}

function contextOf({ engine, password }: VaultTools): OpenContext {
  return { engine, limits: {}, password: password === undefined ? undefined : async () => encodeUtf8(password) };
}

/** What an attempt gave: its result, or the code of its error. */
export type Outcome<T> = T | { readonly code: string };

async function outcome<T>(attempt: () => Promise<T>): Promise<Outcome<T>> {
  try {
    return await attempt();
  } catch (error) {
    if (isTareError(error)) return { code: error.code };
    throw error;
  }
}

/** What scrubbing finds; opening may refuse the vault altogether. */
export function scrubBytes(bytes: Bytes, tools: VaultTools): Promise<Outcome<readonly Finding[]>> {
  return outcome(async () => {
    const vault = await openVault(memorySource(bytes, "vault"), contextOf(tools));
    const findings: Finding[] = [];
    const context = { level: "full", engine: tools.engine, limits: {}, count: () => undefined } as const;
    for await (const finding of verifyAerovault(new VaultArchive(vault), context)) findings.push(finding);
    await closeVault(vault);
    return findings;
  });
}

/** Every file by its path; a file that cannot be read has the code of its error. */
export function readAll(bytes: Bytes, tools: VaultTools): Promise<Outcome<ReadonlyMap<string, Bytes | string>>> {
  return outcome(async () => {
    const archive = new VaultArchive(await openVault(memorySource(bytes, "vault"), contextOf(tools)));
    const files = new Map<string, Bytes | string>();
    for (const entry of archive.entries) {
      if (entry.type !== "file") continue;
      const read = await outcome(async () => (await entry.source().read(0, entry.size)).slice());
      files.set(entry.path, "code" in read ? read.code : read);
    }
    await archive.close();
    return files;
  });
}

/** The sidecar of a vault that is whole. */
export async function exportBytes(bytes: Bytes, tools: VaultTools): Promise<Bytes> {
  const vault = await openVault(memorySource(bytes, "vault"), contextOf(tools));
  try {
    return await sidecarOf(vault, tools);
  } finally {
    await closeVault(vault);
  }
}

async function sidecarOf(vault: Vault, { engine }: VaultTools): Promise<Bytes> {
  const sink = memorySink("sidecar");
  const parity = await prepareExport(vault, gridOf(vault.manifest), { engine });
  await parity.write(sink);
  await sink.commit();
  return sink.published as Bytes;
}

/** A repair, and what it made of the bytes: they are as they were unless all was healed. */
export interface RepairOutcome {
  readonly facts: Omit<VaultRepair, "image" | "apply">;
  readonly bytes: Bytes;
}

/** Repairs a vault in memory as the command does on disk. */
export function repairBytes(
  bytes: Bytes,
  tools: VaultTools,
  sidecarBytes?: Bytes | undefined,
): Promise<Outcome<RepairOutcome>> {
  return outcome(async () => {
    const { engine } = tools;
    const sidecar = sidecarBytes === undefined ? undefined : await readSidecar(memorySource(sidecarBytes), engine);
    const recovered = await recoverVault(memorySource(bytes.slice(), "vault"), contextOf(tools), sidecar);
    try {
      const { image: _, apply, ...facts } = await planVaultRepair(recovered, sidecar, { engine });
      if (facts.state !== "damaged") return { facts, bytes };
      const healed = new Uint8Array(facts.byteLength);
      healed.set(bytes.subarray(0, facts.byteLength));
      await apply(async (patch) => healed.set(patch.bytes, patch.offset));
      return { facts, bytes: healed };
    } finally {
      await closeVault(recovered.vault);
    }
  });
}

/** The bytes with some of them changed: [offset, how many, by which exclusive or]. */
export function damage(bytes: Bytes, ...places: readonly (readonly [number, number?, number?])[]): Bytes {
  const copy = bytes.slice();
  for (const [offset, count = 1, mask = 0x55] of places) {
    for (let i = offset; i < offset + count; i++) copy[i] = (copy[i] as number) ^ mask;
  }
  return copy;
}
