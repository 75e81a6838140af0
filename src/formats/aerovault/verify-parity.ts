import { type Bytes, equalBytes } from "../../base/bytes.ts";
import type { Finding } from "../../model/finding.ts";
import type { VerifyContext } from "../../model/format.ts";
import { avecPayload, findPlans } from "../../model/parity/avec.ts";
import { ParityReader } from "../../model/parity/reader.ts";
import { BlockStream, type ReadFile } from "./block-stream.ts";
import { findDirectoryFault } from "./extension-directory.ts";
import { DATA_PARITY, extensionPayload, MANIFEST_PARITY } from "./extension-payload.ts";
import { inMemory } from "./manifest-parity.ts";
import { gridOf } from "./parity-grid.ts";
import { isParityRow } from "./parity-rows.ts";
import type { Vault } from "./vault.ts";

/**
 * Damage that reading does not meet: what was healed when the vault was opened, the extension directory, and parity itself.
 * Damaged parity is a warning: every file is there, but less can be healed (dossier 12, row 23).
 */
export async function* verifyParity(
  vault: Vault,
  blocks: "sound" | "damaged",
  context: VerifyContext,
): AsyncGenerator<Finding> {
  const { source, warnings, header, extensions } = vault;
  for (const warning of warnings) {
    if (warning.code === "integrity/aerovault.healed") yield { ...warning, severity: "error" };
  }
  const read: ReadFile = (offset, byteLength) => source.read(offset, byteLength);
  yield* verifyDirectory(vault);
  if (!extensions.some(isParityRow)) return;
  const payloadOf = (id: string): ReturnType<typeof extensionPayload> =>
    extensionPayload(id, { rows: extensions, header: header.values, read });
  const fault = (what: string): Finding => ({
    severity: "warning",
    code: "integrity/aerovault.parity",
    message: `The parity of the ${what} is damaged, or is not of this vault`,
    at: { source: source.label, offset: header.values.extensionPayloadOffset },
    hint: "Nothing is lost: tare vault repair renews it",
  });
  if (!(await isDataParitySound(vault, payloadOf(DATA_PARITY), { read, blocks }, context))) yield fault("blocks");
  if (!(await isManifestParitySound(vault, payloadOf(MANIFEST_PARITY), read, context))) yield fault("manifest");
}

async function* verifyDirectory(vault: Vault): AsyncGenerator<Finding> {
  const fault = await findDirectoryFault(vault);
  if (fault === undefined) return;
  const message = `The list of extensions is damaged: it ${fault}`;
  const at = { source: vault.source.label, offset: vault.header.values.extensionDirectoryOffset };
  const hint = "Run tare vault repair, which writes it anew";
  yield { severity: "error", code: "integrity/aerovault.directory", message, at, hint };
}

type Payload = ReturnType<typeof extensionPayload>;

async function isDataParitySound(
  { manifest, chunks }: Vault,
  payload: Payload,
  { read, blocks }: { readonly read: ReadFile; readonly blocks: "sound" | "damaged" },
  { engine, signal }: VerifyContext,
): Promise<boolean> {
  if (payload === undefined) return false;
  for (const record of manifest.chunks.values()) {
    // A block that lies nowhere has its own finding, and no stream can be made of the others.
    try {
      chunks.check(record);
    } catch {
      return true;
    }
  }
  const data = new BlockStream(manifest.chunks.values(), read);
  if (data.byteLength === 0) return payload.byteLength === 0;
  const [found] = await findPlans(payload, data.byteLength, gridOf(manifest));
  if (found === undefined || found.head === "damaged") return false;
  const reader = new ParityReader({ engine, plan: found.plan, data, payload });
  await reader.examine({ signal });
  const { damagedParityShards, damagedDataShards } = reader.health;
  return damagedParityShards === 0 && (blocks === "damaged" || damagedDataShards === 0);
}

async function isManifestParitySound(
  { manifest, header, healed }: Vault,
  payload: Payload,
  read: ReadFile,
  { engine }: VerifyContext,
): Promise<boolean> {
  if (payload === undefined) return false;
  const { manifestOffset, manifestLength } = header.values;
  const [found] = await findPlans(payload, manifestLength, gridOf(manifest));
  if (found === undefined || found.head === "damaged") return false;
  const own = healed.find(({ name }) => name === "manifest")?.bytes;
  const data = inMemory(own ?? (await read(manifestOffset, manifestLength)));
  const wanted: Bytes = await avecPayload({ engine, plan: found.plan, data });
  return equalBytes(wanted, await payload.read(0, payload.byteLength));
}
