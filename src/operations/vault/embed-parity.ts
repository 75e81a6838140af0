import { checkStoredBlocks } from "../../formats/aerovault/block-stream.ts";
import { isParityRow, parityRows } from "../../formats/aerovault/parity-rows.ts";
import type { Vault } from "../../formats/aerovault/vault.ts";
import { stateOf, type VaultState } from "../../formats/aerovault/write/vault-state.ts";
import { clampParity } from "../../model/parity/avec.ts";
import type { Engine } from "../../primitives/engine.ts";

/** The vault as one that carries parity: its next seal computes it, after comparing every block with its hash. */
export function withParity(vault: Vault, percent: number): VaultState {
  const state = stateOf(vault);
  const others = state.extensions.filter((row) => !isParityRow(row));
  return {
    ...state,
    extensions: [...parityRows(0, 0), ...others],
    manifest: { ...state.manifest, errorCorrectionPct: clampParity(percent) },
  };
}

/** The vault as one that carries none. Where a block is damaged this is refused: parity is what could heal it. */
export async function withoutParity(vault: Vault, engine: Engine): Promise<VaultState> {
  const { source, manifest } = vault;
  const read = (offset: number, byteLength: number) => source.read(offset, byteLength);
  const check = { engine, label: source.label, action: "strip the parity of the vault" };
  await checkStoredBlocks(manifest.chunks.values(), read, check);
  const state = stateOf(vault);
  return { ...state, extensions: state.extensions.filter((row) => !isParityRow(row)) };
}
