import { type Bytes, equalBytes } from "../../base/bytes.ts";
import { overlaidSource, overlayBytes } from "../../bytes/derived.ts";
import type { Source } from "../../bytes/source.ts";
import { DATA_SEGMENT } from "../../formats/aerocorrect/layout.ts";
import type { Sidecar } from "../../formats/aerocorrect/sidecar.ts";
import { DATA_PARITY, extensionPayload } from "../../formats/aerovault/extensions/rows.ts";
import { sectionsEnd } from "../../formats/aerovault/header.ts";
import { MAC_BYTES, MAC_OFFSET } from "../../formats/aerovault/layout.ts";
import type { HealedPart, Vault } from "../../formats/aerovault/vault.ts";
import { ChunkOwners } from "../../formats/aerovault/verify.ts";
import type { Patch, WritePatch } from "../correct.ts";
import { type DataParity, type HealContext, type HealedBlocks, healBlocks } from "./heal-blocks.ts";
import { type DamagedParity, findDamagedParity } from "./parity.ts";
import { type RecoveredVault, resembles, segmentOf } from "./recover.ts";

/** The most renewed parity to hold in memory for the proof of a header; beyond this, the proof is not worth it. */
const PROOF_BYTES = 256 << 20;
/** Bytes that a patch of blocks holds at once. */
const PATCH_BYTES = 4 << 20;

/** "intact": nothing is damaged. "damaged": all of it can be healed. "lost": some cannot, so nothing is written. */
export type VaultHealth = "intact" | "damaged" | "lost";

/** What a repair will do, checked before the first byte is written. */
export interface VaultRepair {
  readonly state: VaultHealth;
  /** Length of the repaired vault. */
  readonly byteLength: number;
  /** Parts of the control region that are damaged. */
  readonly parts: readonly HealedPart["name"][];
  readonly damagedBlocks: number;
  readonly lostBlocks: number;
  /** Files that cannot be healed. */
  readonly lostFiles: readonly string[];
  /** Whether the vault's own parity is damaged. */
  readonly parity: "none" | "sound" | "damaged";
  /** The parity that healed blocks. */
  readonly origins: readonly DataParity["origin"][];
  /** "unproven" if a sidecar gives a header or a manifest that does not belong to the rest of the vault. */
  readonly header: "own" | "sidecar" | "unproven";
  /** The correct vault, as far as it could be restored. */
  readonly image: Source;
  /** Passes on the bytes to write; afterwards the file must have `byteLength` bytes. */
  apply(write: WritePatch): Promise<void>;
}

/**
 * Plans how to heal a vault: all of it or nothing. Every block is compared with its record, and again if parity touches
 * it. A header from a sidecar counts only if SHA-256 of the whole healed container is the one that the sidecar was made
 * of, so that an old copy cannot bring an old password back.
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

/** The vault's own parity first: a sidecar may belong to another state, or to another file. */
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
 * A sidecar can hold enough to replace the current state with a whole earlier one, including its password. It may heal
 * only this vault: one with the sidecar's length and, apart from some damage, its manifest. A manifest of another state
 * was encrypted again, and has hardly a byte in common with it.
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
 * A file that is longer than the sidecar states has the rest of an incomplete change, or a later state that the sidecar
 * must not undo. The header decides: its MAC differs in every state.
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
  // With the vault's own header no old key slots can come back, so the digest of the whole is enough.
  if (healed === undefined || !parts.some(({ name }) => name === "header")) return true;
  return resembles(await vault.source.read(healed.offset, healed.bytes.byteLength), healed.bytes);
}

/** Blocks first, the header last: until it is written, the vault counts as damaged. */
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
