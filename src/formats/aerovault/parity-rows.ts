import { DATA_PARITY, MANIFEST_PARITY } from "./extension-payload.ts";
import type { ExtensionRow } from "./extensions.ts";
import { NO_EXTRA_KEYS } from "./field-reader.ts";

/** True for rows that seals compute anew. */
export function isParityRow({ extensionId }: Pick<ExtensionRow, "extensionId">): boolean {
  return extensionId === DATA_PARITY || extensionId === MANIFEST_PARITY;
}

/** A row as the reference writes it (dossier 5.1). */
export function parityRow(extensionId: string, place: { offset: number; length: number }): ExtensionRow {
  const algorithm = { algorithmId: "reed-solomon", algorithmVersion: 1, critical: false };
  return { extensionId, ...algorithm, ...place, extra: NO_EXTRA_KEYS };
}

/** The two rows of a vault whose payloads have these lengths, data parity first. */
export function parityRows(dataBytes: number, manifestBytes: number): readonly [ExtensionRow, ExtensionRow] {
  return [
    parityRow(DATA_PARITY, { offset: 0, length: dataBytes }),
    parityRow(MANIFEST_PARITY, { offset: dataBytes, length: manifestBytes }),
  ];
}
