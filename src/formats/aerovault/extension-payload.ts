import type { ReadableBytes } from "../../model/parity/avec.ts";
import type { ReadFile } from "./block-stream.ts";
import type { ExtensionRow } from "./extensions.ts";
import type { VaultHeader } from "./layout.ts";

/** Parity of the data section. */
export const DATA_PARITY = "error-correction.reed-solomon";
/** Parity of the manifest. */
export const MANIFEST_PARITY = "error-correction-metadata.reed-solomon";

/** The bytes of an extension; undefined where the vault has none of that id. */
export function extensionPayload(
  extensionId: string,
  {
    rows,
    header,
    read,
  }: { readonly rows: readonly ExtensionRow[]; readonly header: VaultHeader; readonly read: ReadFile },
): ReadableBytes | undefined {
  const row = rows.find((one) => one.extensionId === extensionId);
  if (row === undefined) return undefined;
  const start = header.extensionPayloadOffset + row.offset;
  return { byteLength: row.length, read: (offset, byteLength) => read(start + offset, byteLength) };
}
