import type { Bytes } from "../../base/bytes.ts";
import type { Sink } from "../../bytes/sink.ts";
import type { Source } from "../../bytes/source.ts";
import { encodeFront, placeSegments, type SidecarPlan } from "../../formats/aerocorrect/sidecar.ts";
import { BlockStream, checkStoredBlocks } from "../../formats/aerovault/block-stream.ts";
import { HEADER_BYTES } from "../../formats/aerovault/layout.ts";
import { checkUndamaged, type Vault } from "../../formats/aerovault/vault.ts";
import { type AvecPlan, encodeAvec, type ParityGrid, planAvec, type ReadableBytes } from "../../model/parity/avec.ts";
import type { HealContext } from "./heal-blocks.ts";

/** A sidecar that may be made: the vault is whole. */
export interface ParityExport {
  readonly plan: SidecarPlan;
  /** Writes it to a sink that can go back, which the caller commits. */
  write(sink: Sink): Promise<void>;
}

/**
 * Parity of header, manifest and blocks of a vault (dossier 5.6). Parity of damage would make the loss final, so every
 * block is compared with its hash first.
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
  digest.catch(() => undefined); // awaited below, where nothing fails before
  for (const [i, { plan: avec, data }] of windows.entries()) {
    const start = plan.segments[i]?.offset ?? 0;
    const write = async (offset: number, bytes: Bytes): Promise<void> => sink.fill?.(start + offset, bytes);
    await encodeAvec({ engine, plan: avec, data, write, signal, onProgress });
  }
  await sink.fill?.(0, await encodeFront(engine, plan, await digest));
}
