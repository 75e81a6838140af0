import { type Bytes, equalBytes } from "../../base/bytes.ts";
import type { Source } from "../../bytes/source.ts";
import { BlockStream } from "../../formats/aerovault/block-stream.ts";
import { DATA_PARITY, extensionPayload, MANIFEST_PARITY } from "../../formats/aerovault/extension-payload.ts";
import { inMemory } from "../../formats/aerovault/manifest-parity.ts";
import { gridOf } from "../../formats/aerovault/parity-grid.ts";
import type { Vault } from "../../formats/aerovault/vault.ts";
import { avecPayload, encodeAvec, findPlans, planAvec, type ReadableBytes } from "../../model/parity/avec.ts";
import { ParityReader } from "../../model/parity/reader.ts";
import type { WritePatch } from "../correct.ts";
import type { HealContext } from "./heal-blocks.ts";

/** Parity that a vault carries, and that is not what its blocks and its manifest give. */
export interface DamagedParity {
  /** Writes what differs, as it should be. Blocks and manifest of the image are whole. */
  renew(write: WritePatch): Promise<void>;
}

/** Compares the parity of a vault with what it is of, which the caller has proven; undefined where all of it is right. */
export async function findDamagedParity(
  vault: Vault,
  image: Source,
  context: HealContext,
): Promise<DamagedParity | undefined> {
  const data = await damagedDataParity(vault, image, context);
  const manifest = await damagedManifestParity(vault, image, context);
  if (data === undefined && manifest === undefined) return undefined;
  return {
    async renew(write) {
      await data?.renew(write);
      await manifest?.renew(write);
    },
  };
}

function payloadOf(id: string, { extensions, header }: Vault, image: Source): ReadableBytes | undefined {
  const read = (offset: number, byteLength: number): Promise<Bytes> => image.read(offset, byteLength);
  return extensionPayload(id, { rows: extensions, header: header.values, read });
}

function placeOf(id: string, { extensions, header }: Vault): number {
  const row = extensions.find(({ extensionId }) => extensionId === id);
  return header.values.extensionPayloadOffset + (row?.offset ?? 0);
}

async function damagedDataParity(
  vault: Vault,
  image: Source,
  { engine, signal }: HealContext,
): Promise<DamagedParity | undefined> {
  const payload = payloadOf(DATA_PARITY, vault, image);
  const data = new BlockStream(vault.manifest.chunks.values(), (offset, length) => image.read(offset, length));
  const [found] = payload === undefined ? [] : await findPlans(payload, data.byteLength, gridOf(vault.manifest));
  // One of another length is for other blocks, and cannot be put right where it is.
  if (payload === undefined || found === undefined) return undefined;
  const { plan } = found;
  const reader = new ParityReader({ engine, plan, data, payload });
  await reader.examine({ signal });
  if (found.head === "sound" && reader.damage.length === 0) return undefined;
  const start = placeOf(DATA_PARITY, vault);
  return {
    async renew(write) {
      const compare = async (offset: number, bytes: Bytes): Promise<void> => {
        if (equalBytes(bytes, await payload.read(offset, bytes.byteLength))) return;
        await write({ offset: start + offset, bytes });
      };
      await encodeAvec({ engine, plan, data, write: compare, signal });
    },
  };
}

async function damagedManifestParity(
  vault: Vault,
  image: Source,
  { engine }: HealContext,
): Promise<DamagedParity | undefined> {
  const payload = payloadOf(MANIFEST_PARITY, vault, image);
  if (payload === undefined) return undefined;
  const { manifestOffset, manifestLength } = vault.header.values;
  const [found] = await findPlans(payload, manifestLength, gridOf(vault.manifest));
  const plan = found?.plan ?? planAvec(gridOf(vault.manifest), manifestLength);
  if (plan.payloadBytes !== payload.byteLength) return undefined;
  const data = inMemory(await image.read(manifestOffset, manifestLength));
  const bytes = await avecPayload({ engine, plan, data });
  if (equalBytes(bytes, await payload.read(0, payload.byteLength))) return undefined;
  return { renew: (write) => write({ offset: placeOf(MANIFEST_PARITY, vault), bytes }) };
}
