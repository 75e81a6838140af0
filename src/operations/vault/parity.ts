import { type Bytes, equalBytes } from "../../base/bytes.ts";
import type { Sink } from "../../bytes/sink.ts";
import type { Source } from "../../bytes/source.ts";
import { encodeFront, placeSegments, type SidecarPlan } from "../../formats/aerocorrect/sidecar.ts";
import { BlockStream, checkStoredBlocks } from "../../formats/aerovault/blocks/stream.ts";
import {
  DATA_PARITY,
  extensionPayload,
  gridOf,
  isParityRow,
  MANIFEST_PARITY,
  parityRows,
} from "../../formats/aerovault/extensions/rows.ts";
import { HEADER_BYTES } from "../../formats/aerovault/layout.ts";
import { inMemory } from "../../formats/aerovault/manifest/parity.ts";
import { checkUndamaged, type Vault } from "../../formats/aerovault/vault.ts";
import { stateOf, type VaultState } from "../../formats/aerovault/write/state.ts";
import {
  type AvecPlan,
  avecPayload,
  clampParity,
  encodeAvec,
  findPlans,
  type ParityGrid,
  planAvec,
  type ReadableBytes,
} from "../../model/parity/avec.ts";
import { ParityReader } from "../../model/parity/reader.ts";
import type { Engine } from "../../primitives/engine.ts";
import type { WritePatch } from "../correct.ts";
import type { HealContext } from "./heal-blocks.ts";

/** The state of the vault with parity: its next seal computes it, after comparing every block with its hash. */
export function withParity(vault: Vault, percent: number): VaultState {
  const state = stateOf(vault);
  const others = state.extensions.filter((row) => !isParityRow(row));
  return {
    ...state,
    extensions: [...parityRows(0, 0), ...others],
    manifest: { ...state.manifest, errorCorrectionPct: clampParity(percent) },
  };
}

/** The state of the vault without parity. Refused if a block is damaged: parity could still heal it. */
export async function withoutParity(vault: Vault, engine: Engine): Promise<VaultState> {
  const { source, manifest } = vault;
  const read = (offset: number, byteLength: number) => source.read(offset, byteLength);
  const check = { engine, label: source.label, action: "strip the parity of the vault" };
  await checkStoredBlocks(manifest.chunks.values(), read, check);
  const state = stateOf(vault);
  return { ...state, extensions: state.extensions.filter((row) => !isParityRow(row)) };
}

/** A sidecar that may be written: the vault is whole. */
export interface ParityExport {
  readonly plan: SidecarPlan;
  /** Writes it to a seekable sink, which the caller commits. */
  write(sink: Sink): Promise<void>;
}

/**
 * Parity of header, manifest and blocks of a vault (docs/formats/aerocorrect.md#sidecars-of-vaults). Parity over damage
 * would make the loss permanent, so every block is compared with its hash first.
 */
export async function prepareExport(vault: Vault, grid: ParityGrid, context: HealContext): Promise<ParityExport> {
  const { engine, signal } = context;
  const { source, header, manifest } = vault;
  const action = "export the parity of the vault";
  const read = (offset: number, byteLength: number): Promise<Bytes> => source.read(offset, byteLength);
  checkUndamaged(vault, action);
  const check = { engine, label: source.label, action, signal };
  await checkStoredBlocks(manifest.chunks.values(), read, check);
  const { manifestOffset, manifestLength, dataLength } = header.values;
  const run = (offset: number, byteLength: number): ReadableBytes => ({
    byteLength,
    read: (at, length) => read(offset + at, length),
  });
  const windows = [
    { windowOffset: 0, windowLength: HEADER_BYTES, data: run(0, HEADER_BYTES) },
    { windowOffset: manifestOffset, windowLength: manifestLength, data: run(manifestOffset, manifestLength) },
    { windowOffset: HEADER_BYTES, windowLength: dataLength, data: new BlockStream(manifest.chunks.values(), read) },
  ].map((window) => ({ ...window, plan: planAvec(grid, window.data.byteLength) }));
  const plan = placeSegments(source.byteLength, windows);
  return { plan, write: (sink) => writeSidecar({ source, plan, windows }, sink, context) };
}

interface Prepared {
  readonly source: Source;
  readonly plan: SidecarPlan;
  readonly windows: readonly { readonly data: ReadableBytes; readonly plan: AvecPlan }[];
}

async function writeSidecar(
  { source, plan, windows }: Prepared,
  sink: Sink,
  { engine, signal, onProgress }: HealContext,
): Promise<void> {
  sink.reserve?.(plan.byteLength);
  const digest = engine.digestRange("sha256", source, { offset: 0, byteLength: source.byteLength, signal });
  digest.catch(() => undefined); // awaited below, if nothing fails before
  for (const [i, { plan: avec, data }] of windows.entries()) {
    const start = plan.segments[i]?.offset ?? 0;
    const write = async (offset: number, bytes: Bytes): Promise<void> => sink.fill?.(start + offset, bytes);
    await encodeAvec({ engine, plan: avec, data, write, signal, onProgress });
  }
  await sink.fill?.(0, await encodeFront(engine, plan, await digest));
}

/** Parity inside a vault that does not match its blocks and its manifest. */
export interface DamagedParity {
  /** Writes the correct bytes where they differ. Blocks and manifest of the image are whole. */
  renew(write: WritePatch): Promise<void>;
}

/** Compares the parity of a vault with its data, which the caller has checked; undefined if all of it is right. */
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
  // Parity of another length is for other blocks, and cannot be corrected in place.
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
