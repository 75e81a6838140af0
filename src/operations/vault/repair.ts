import { type Bytes, equalBytes } from "../../base/bytes.ts";
import { overlaidSource, overlayBytes } from "../../bytes/derived.ts";
import type { Source } from "../../bytes/source.ts";
import type { Sidecar } from "../../formats/aerocorrect/sidecar.ts";
import { DATA_PARITY, extensionPayload } from "../../formats/aerovault/extension-payload.ts";
import { sectionsEnd } from "../../formats/aerovault/header.ts";
import { MAC_BYTES, MAC_OFFSET } from "../../formats/aerovault/layout.ts";
import type { HealedPart, Vault } from "../../formats/aerovault/vault.ts";
import { ChunkOwners } from "../../formats/aerovault/verify.ts";
import type { Patch, WritePatch } from "../correct.ts";
import { type DataParity, type HealContext, type HealedBlocks, healBlocks } from "./heal-blocks.ts";
import { DATA_SEGMENT, type RecoveredVault, resembles, segmentOf } from "./recover.ts";
import { type DamagedParity, findDamagedParity } from "./renew-parity.ts";

/** Renewed parity that is held in memory to prove a header; more of it is not worth proving. */
const PROOF_BYTES = 256 << 20;
/** What a patch of blocks holds at once. */
const PATCH_BYTES = 4 << 20;

/** "intact": nothing is damaged. "damaged": all of it can be healed. "lost": some cannot, and nothing is to be written. */
export type VaultHealth = "intact" | "damaged" | "lost";

/** What a repair will do, proven before the first byte is written. */
export interface VaultRepair {
  readonly state: VaultHealth;
  /** Of the vault afterwards. */
  readonly byteLength: number;
  /** Parts of the control region that are damaged. */
  readonly parts: readonly HealedPart["name"][];
  readonly damagedBlocks: number;
  readonly lostBlocks: number;
  /** Files that cannot be healed. */
  readonly lostFiles: readonly string[];
  /** Whether parity that the vault carries is damaged. */
  readonly parity: "none" | "sound" | "damaged";
  /** Which parity healed blocks. */
  readonly origins: readonly DataParity["origin"][];
  /** "unproven" where a sidecar gives a header or a manifest that the rest of the vault does not belong to. */
  readonly header: "own" | "sidecar" | "unproven";
  /** The vault as it should be, as far as that could be found out. */
  readonly image: Source;
  /** Hands out what is to be written; afterwards the file must have `byteLength` bytes. */
  apply(write: WritePatch): Promise<void>;
}

/**
 * Finds out how to heal a vault: all of it or nothing. Every block is compared with its record, those that parity touches
 * once more; a header from a sidecar counts only where SHA-256 of the whole healed container is the one that the sidecar
 * was made of, so that no old copy of it can bring an old password back (dossier 15).
 */
export async function planVaultRepair(
  recovered: RecoveredVault,
  sidecar: Sidecar | undefined,
  context: HealContext,
): Promise<VaultRepair> {
  const { vault, parts } = recovered;
  const blocks = await healBlocks(vault, recovered.image, dataParities(vault, recovered.image, sidecar), context);
  const isWhole = blocks.lost.length === 0;
  const damagedParity = isWhole ? await findDamagedParity(vault, blocks.image, context) : undefined;
  const header = await proveHeader(recovered, blocks, { damagedParity, sidecar }, context);
  const lostIds = new Set(blocks.lost.map(({ id }) => id));
  const { byteLength } = recovered.image;
  const isChanged = parts.length > 0 || blocks.damaged.length > 0 || damagedParity !== undefined;
  const isClean = !isChanged && byteLength === recovered.foundLength;
  return {
    state: !isWhole || header === "unproven" ? "lost" : isClean ? "intact" : "damaged",
    byteLength,
    parts: parts.map(({ name }) => name),
    damagedBlocks: blocks.damaged.length,
    lostBlocks: blocks.lost.length,
    lostFiles: isWhole ? [] : new ChunkOwners(vault.manifest.entries).pathsOf(lostIds),
    parity: vault.extensions.some(({ extensionId }) => extensionId === DATA_PARITY)
      ? damagedParity === undefined
        ? "sound"
        : "damaged"
      : "none",
    origins: blocks.origins,
    header,
    image: blocks.image,
    apply: (write) => applyAll(recovered, blocks, damagedParity, write),
  };
}

/** The vault's own first: a sidecar may be of another state, or of something else altogether. */
function dataParities(vault: Vault, image: Source, sidecar: Sidecar | undefined): DataParity[] {
  const read = (offset: number, byteLength: number): Promise<Bytes> => image.read(offset, byteLength);
  const embedded = extensionPayload(DATA_PARITY, { rows: vault.extensions, header: vault.header.values, read });
  const beside = segmentOf(sidecar, DATA_SEGMENT);
  return [
    ...(embedded === undefined ? [] : [{ origin: "embedded" as const, payload: embedded }]),
    ...(beside === undefined ? [] : [{ origin: "sidecar" as const, payload: beside }]),
  ];
}

interface Proof {
  readonly damagedParity: DamagedParity | undefined;
  readonly sidecar: Sidecar | undefined;
}

/**
 * A sidecar can hold enough to put a whole earlier state in the place of the present one, password and all. It may heal
 * this vault only: one whose length and whose manifest is the sidecar's but for some damage; that of another state is
 * encrypted anew, and has hardly a byte in common with it.
 */
async function proveHeader(
  recovered: RecoveredVault,
  blocks: HealedBlocks,
  { damagedParity, sidecar }: Proof,
  { engine, signal }: HealContext,
): Promise<VaultRepair["header"]> {
  if (recovered.proof === "own" || sidecar === undefined) return "own";
  if (blocks.lost.length > 0 || !isLengthOfThisState(recovered, sidecar)) return "unproven";
  if (!(await isManifestOfThisState(recovered))) return "unproven";
  const renewed: Patch[] = [];
  let held = 0;
  await damagedParity?.renew(async (patch) => {
    held += patch.bytes.byteLength;
    if (held <= PROOF_BYTES) renewed.push(patch);
  });
  const overlays = renewed.map(({ offset, bytes }) => overlayBytes(offset, bytes));
  const whole = overlaidSource(blocks.image, sidecar.totalLength, overlays);
  const range = { offset: 0, byteLength: sidecar.totalLength, signal };
  const digest = await engine.digestRange("sha256", whole, range);
  if (!equalBytes(digest, sidecar.contentSha256)) return "unproven";
  return recovered.parts.some(({ name }) => name === "header") ? "sidecar" : "own";
}

/**
 * A file that is longer than the sidecar knows has the rest of a change that was not completed, or a state of its own that
 * the sidecar must not undo. The header tells: its MAC is another one in every state.
 */
function isLengthOfThisState(recovered: RecoveredVault, { totalLength }: Sidecar): boolean {
  const { image, parts, vault, foundHeader } = recovered;
  if (image.byteLength <= totalLength) return image.byteLength === totalLength;
  if (sectionsEnd(vault.header.values) !== totalLength) return false;
  const healed = parts.find(({ name }) => name === "header");
  if (healed === undefined) return true;
  const macOf = (header: Bytes): Bytes => header.subarray(MAC_OFFSET, MAC_OFFSET + MAC_BYTES);
  return resembles(macOf(foundHeader), macOf(healed.bytes));
}

async function isManifestOfThisState({ vault, parts }: RecoveredVault): Promise<boolean> {
  const healed = parts.find(({ name }) => name === "manifest");
  // With the vault's own header no key slots can come back: the digest of the whole suffices.
  if (healed === undefined || !parts.some(({ name }) => name === "header")) return true;
  return resembles(await vault.source.read(healed.offset, healed.bytes.byteLength), healed.bytes);
}

/** Blocks first, the header last: until it is there, the vault is found to be damaged. */
async function applyAll(
  { parts }: RecoveredVault,
  { overlays }: HealedBlocks,
  damagedParity: DamagedParity | undefined,
  write: WritePatch,
): Promise<void> {
  for (const overlay of overlays) {
    for (let done = 0; done < overlay.byteLength; done += PATCH_BYTES) {
      const length = Math.min(PATCH_BYTES, overlay.byteLength - done);
      await write({ offset: overlay.offset + done, bytes: await overlay.read(done, length) });
    }
  }
  await damagedParity?.renew(write);
  const order: readonly HealedPart["name"][] = ["manifest", "extension directory", "header"];
  const rank = ({ name }: HealedPart): number => order.indexOf(name);
  for (const part of [...parts].sort((a, b) => rank(a) - rank(b))) await write(part);
}
