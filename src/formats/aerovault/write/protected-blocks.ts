import { type Bytes, concatBytes } from "../../../base/bytes.ts";
import { IntegrityError } from "../../../base/errors.ts";
import { encodeHex } from "../../../base/hex.ts";
import type { Extent } from "../../../bytes/extents.ts";
import type { Engine } from "../../../primitives/engine.ts";
import { blockExtent } from "../block-check.ts";
import { PREFIX_BYTES } from "../layout.ts";
import type { ChunkRecord, Manifest } from "../manifest.ts";
import type { VaultDraft } from "./draft.ts";
import type { ProtectedBytes } from "./parity.ts";

export interface ProtectedBlocksParts {
  readonly manifest: Manifest;
  /** Records that were there before this change: their blocks are checked first. */
  readonly before: ReadonlyMap<string, ChunkRecord>;
  readonly draft: VaultDraft;
  readonly engine: Engine;
  readonly label: string;
}

/**
 * The stored blocks of a draft as the one stream that parity protects: by their place, prefixes included. Parity made over
 * a damaged block would make the loss final, so blocks of earlier changes are checked, and a damaged one is an error.
 */
export async function protectedBlocks(parts: ProtectedBlocksParts): Promise<ProtectedBytes> {
  const records = [...parts.manifest.chunks.values()].sort((a, b) => a.dataOffset - b.dataOffset);
  for (const record of records) if (parts.before.has(record.id)) await checkBlock(record, parts);
  const extents = records.map(blockExtent);
  const starts: number[] = [];
  let byteLength = 0;
  for (const extent of extents) {
    starts.push(byteLength);
    byteLength += extent.byteLength;
  }
  return { byteLength, read: (offset, length) => gather(parts.draft, { extents, starts }, offset, length) };
}

async function checkBlock(record: ChunkRecord, { draft, engine, label }: ProtectedBlocksParts): Promise<void> {
  const { offset } = blockExtent(record);
  const blob = await draft.read(offset + PREFIX_BYTES, record.blockLen);
  if (encodeHex(await engine.digest("blake3", blob)) === record.cipherHash) return;
  throw new IntegrityError(
    "integrity/aerovault.cipher-hash",
    `Cannot renew the parity of the vault: block ${record.blockIndex} is damaged`,
    { source: label, offset, path: `chunks["${record.id}"]` },
    { hint: "The vault is unchanged; run tare vault repair first" },
  );
}

interface Spread {
  readonly extents: readonly Extent[];
  /** Where each extent begins in the stream. */
  readonly starts: readonly number[];
}

async function gather(draft: VaultDraft, spread: Spread, offset: number, length: number): Promise<Bytes> {
  const pieces: Bytes[] = [];
  let position = offset;
  for (let i = findExtent(spread.starts, offset); position < offset + length; i++) {
    const extent = spread.extents[i] as Extent;
    const inside = position - (spread.starts[i] as number);
    const count = Math.min(extent.byteLength - inside, offset + length - position);
    pieces.push(await draft.read(extent.offset + inside, count));
    position += count;
  }
  return pieces.length === 1 ? (pieces[0] as Bytes) : concatBytes(pieces);
}

/** The last extent that begins at or before `offset`. */
function findExtent(starts: readonly number[], offset: number): number {
  let low = 0;
  let high = starts.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if ((starts[middle] as number) <= offset) low = middle;
    else high = middle - 1;
  }
  return low;
}
