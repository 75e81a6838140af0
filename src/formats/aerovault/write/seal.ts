import { type Bytes, concatBytes } from "../../../base/bytes.ts";
import { LimitError } from "../../../base/errors.ts";
import { encodeAvec, planAvec } from "../../../model/parity/avec.ts";
import { GCM_SIV_NONCE_BYTES } from "../../../primitives/cipher/gcm-siv.ts";
import { BlockStream, checkStoredBlocks } from "../block-stream.ts";
import { encodeManifest } from "../encode-manifest.ts";
import { DATA_PARITY, MANIFEST_PARITY } from "../extension-payload.ts";
import { type ExtensionRow, encodeDirectory } from "../extensions.ts";
import { manifestSeal, type VaultCipher } from "../framing.ts";
import { headerMac, type KeySlots } from "../keys.ts";
import { HEADER_BYTES, PLAINTEXT_FLAG, vaultHeader, withMac } from "../layout.ts";
import { AEROVAULT_LIMITS } from "../limits.ts";
import type { Manifest } from "../manifest.ts";
import { inMemory } from "../manifest-parity.ts";
import { gridOf } from "../parity-grid.ts";
import { isParityRow, parityRow } from "../parity-rows.ts";
import { encodeCheckedManifest } from "../plain-manifest.ts";
import type { VaultDraft } from "./draft.ts";
import type { SpacePlan } from "./space.ts";
import type { EditHost, VaultState } from "./vault-state.ts";

/** What a copy of an extension's payload reads at once. */
const COPY_BYTES = 8 << 20;

export interface SealParts {
  /** Before the change. */
  readonly state: VaultState;
  readonly slots: KeySlots;
  readonly cipher: VaultCipher;
  readonly host: EditHost;
  readonly draft: VaultDraft;
  readonly space: SpacePlan;
  /** After the change. */
  readonly manifest: Manifest;
}

/** A vault that was written. */
export interface SealedVault {
  readonly header: Bytes;
  readonly manifest: Manifest;
  /** Nonce and tag of the manifest in the file. */
  readonly manifestSeal: Bytes;
  readonly extensions: readonly ExtensionRow[];
  readonly sections: VaultState["sections"];
  /** Length of the file. */
  readonly byteLength: number;
}

/** Without encryption nothing of the format vouches for the manifest: it carries a hash of itself, which others ignore. */
async function manifestBytes({ state, host, manifest }: SealParts): Promise<Bytes> {
  if (state.keys.lane !== "plain" || host.manner === "reference") return encodeManifest(manifest);
  return encodeCheckedManifest(host.engine, manifest);
}

/** Writes manifest, extension directory and payloads, then the header: the last step of every change. */
export async function sealVault(parts: SealParts): Promise<SealedVault> {
  const { cipher, host, draft, space, manifest } = parts;
  await checkBlocks(parts);
  const blob = cipher.sealManifest(await manifestBytes(parts), () => host.random(GCM_SIV_NONCE_BYTES));
  checkManifestLength(blob.byteLength, parts.state.label);
  const payloads = planPayloads(parts, blob);
  const { rows, byteLength: payloadBytes } = placeRows(payloads);
  const directory = encodeDirectory(rows);
  const front = concatBytes([blob, directory]);
  const offset = space.placeSections(front.byteLength + payloadBytes);
  const sections = {
    manifest: { offset, byteLength: blob.byteLength },
    directory: { offset: offset + blob.byteLength, byteLength: directory.byteLength },
    payload: { offset: offset + front.byteLength, byteLength: payloadBytes },
  };
  await draft.write(offset, front);
  for (const [i, payload] of payloads.entries()) {
    const start = sections.payload.offset + (rows[i]?.offset ?? 0);
    await payload.write((at, bytes) => draft.write(start + at, bytes));
  }
  const header = await encodeHeader(parts, sections, space.dataEnd - HEADER_BYTES);
  const byteLength = sections.payload.offset + payloadBytes;
  await draft.commit(header, byteLength);
  return { header, manifest, manifestSeal: manifestSeal(blob), extensions: rows, sections, byteLength };
}

/** The reference refuses a longer one, so writing it would lock the vault away. */
export function checkManifestLength(byteLength: number, label: string): void {
  const limit = AEROVAULT_LIMITS.manifestBytes.default;
  if (byteLength <= limit) return;
  throw new LimitError(
    "limit/aerovault.manifest-bytes",
    `Cannot write the manifest: must be <= ${limit} bytes, found ${byteLength}`,
    { source: label },
    { hint: "Keep fewer files in one vault; nothing was written" },
  );
}

async function encodeHeader(
  { state, slots, host }: SealParts,
  { manifest, directory, payload }: VaultState["sections"],
  dataLength: number,
): Promise<Bytes> {
  const header = vaultHeader.encode({
    flags: state.keys.lane === "plain" ? PLAINTEXT_FLAG : 0,
    salt: slots.salt,
    wrappedMasterKey: slots.wrappedMasterKey,
    wrappedMacKey: slots.wrappedMacKey,
    dataLength,
    manifestOffset: manifest.offset,
    manifestLength: manifest.byteLength,
    extensionDirectoryOffset: directory.offset,
    extensionDirectoryLength: directory.byteLength,
    extensionPayloadOffset: payload.offset,
    extensionPayloadLength: payload.byteLength,
  });
  return withMac(header, await headerMac(host.engine, state.keys.mac, header));
}

/** A vault keeps its parity while either of its two rows is there. */
function carriesParity({ extensions }: VaultState): boolean {
  return extensions.some(isParityRow);
}

/**
 * Every payload with what it takes, before any of it is written: parity first, as the reference has it, then every other
 * extension with the bytes that it had.
 */
function planPayloads({ state, manifest, draft, host }: SealParts, blob: Bytes): readonly Payload[] {
  const payloads: Payload[] = [];
  if (carriesParity(state)) {
    const grid = gridOf(manifest);
    const data = new BlockStream(manifest.chunks.values(), (offset, byteLength) => draft.read(offset, byteLength));
    for (const [id, protectedBytes] of [
      [DATA_PARITY, data],
      [MANIFEST_PARITY, inMemory(blob)],
    ] as const) {
      const plan = planAvec(grid, protectedBytes.byteLength);
      const { engine, signal } = host;
      const row = parityRow(id, { offset: 0, length: plan.payloadBytes });
      payloads.push({ row, write: (write) => encodeAvec({ engine, plan, data: protectedBytes, write, signal }) });
    }
  }
  for (const row of state.extensions) {
    if (!isParityRow(row)) payloads.push({ row, write: (write) => copyPayload(state, row, write) });
  }
  return payloads;
}

type WritePiece = (offset: number, bytes: Bytes) => Promise<void>;

interface Payload {
  /** Its length counts, its offset comes later. */
  readonly row: ExtensionRow;
  write(write: WritePiece): Promise<void>;
}

async function copyPayload({ sections, read }: VaultState, row: ExtensionRow, write: WritePiece): Promise<void> {
  for (let done = 0; done < row.length; done += COPY_BYTES) {
    const length = Math.min(COPY_BYTES, row.length - done);
    await write(done, await read(sections.payload.offset + row.offset + done, length));
  }
}

/** Rows one behind the other. */
function placeRows(payloads: readonly Payload[]): {
  readonly rows: readonly ExtensionRow[];
  readonly byteLength: number;
} {
  const rows: ExtensionRow[] = [];
  let offset = 0;
  for (const { row } of payloads) {
    rows.push({ ...row, offset });
    offset += row.length;
  }
  return { rows, byteLength: offset };
}

/**
 * Parity made over a damaged block would make the loss final (dossier 14, 5.5): blocks of earlier changes are compared with
 * their records first, and a damaged one is an error. What this change stored is as it was made.
 */
async function checkBlocks({ state, draft, host, manifest }: SealParts): Promise<void> {
  if (!carriesParity(state)) return;
  const before = state.manifest.chunks;
  const kept = [...manifest.chunks.values()].filter(({ id }) => before.has(id));
  await checkStoredBlocks(kept, (offset, byteLength) => draft.read(offset, byteLength), {
    engine: host.engine,
    label: state.label,
    signal: host.signal,
    action: "renew the parity of the vault",
  });
}
