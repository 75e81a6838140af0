import { type Bytes, concatBytes } from "../../../../base/bytes.ts";
import { LimitError } from "../../../../base/errors.ts";
import { encodeAvec, planAvec } from "../../../../model/parity/avec.ts";
import { GCM_SIV_NONCE_BYTES } from "../../../../primitives/cipher/gcm-siv.ts";
import { BlockStream, checkStoredBlocks } from "../../blocks/stream.ts";
import { sealOf, type VaultCipher } from "../../cipher.ts";
import {
  DATA_PARITY,
  type ExtensionRow,
  encodeDirectory,
  gridOf,
  isParityRow,
  MANIFEST_PARITY,
  parityRow,
} from "../../extensions/rows.ts";
import { headerMac, type KeySlots } from "../../keys.ts";
import { HEADER_BYTES, PLAINTEXT_FLAG, vaultHeader, withMac } from "../../layout.ts";
import { AEROVAULT_LIMITS } from "../../limits.ts";
import { encodeCheckedManifest } from "../../manifest/checksum.ts";
import { encodeManifest } from "../../manifest/codec.ts";
import { inMemory } from "../../manifest/parity.ts";
import type { Manifest } from "../../manifest/records.ts";
import type { SpacePlan } from "../free-space.ts";
import type { EditHost, VaultDraft, VaultState } from "../state.ts";

/** Bytes that a copy of an extension's payload reads at once. */
const COPY_BYTES = 8 << 20;

export interface SealParts {
  /** The state before the change. */
  readonly state: VaultState;
  readonly slots: KeySlots;
  readonly cipher: VaultCipher;
  readonly host: EditHost;
  readonly draft: VaultDraft;
  readonly space: SpacePlan;
  /** The manifest after the change. */
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

/**
 * Without encryption, the format does not protect the manifest. So it carries a hash of itself, which other readers
 * ignore.
 */
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
  await draft.commit(header, byteLength, space.end);
  return { header, manifest, manifestSeal: sealOf(blob), extensions: rows, sections, byteLength };
}

/** The reference refuses a longer manifest, so writing it would make the vault unreadable there. */
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

/** A vault keeps its parity while it has either of its two rows. */
function carriesParity({ extensions }: VaultState): boolean {
  return extensions.some(isParityRow);
}

/**
 * Every payload with its length, before any of it is written: parity first, as in the reference, then every other
 * extension with its old bytes.
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
      const onProgress = id === DATA_PARITY ? host.onProgress : undefined;
      const row = parityRow(id, { offset: 0, length: plan.payloadBytes });
      const encoding = { engine, plan, data: protectedBytes, signal, onProgress };
      payloads.push({ row, write: (write) => encodeAvec({ ...encoding, write }) });
    }
  }
  for (const row of state.extensions) {
    if (!isParityRow(row)) payloads.push({ row, write: (write) => copyPayload(state, row, write) });
  }
  return payloads;
}

type WritePiece = (offset: number, bytes: Bytes) => Promise<void>;

interface Payload {
  /** Only its length is valid; the offset comes later. */
  readonly row: ExtensionRow;
  write(write: WritePiece): Promise<void>;
}

async function copyPayload({ sections, read }: VaultState, row: ExtensionRow, write: WritePiece): Promise<void> {
  for (let done = 0; done < row.length; done += COPY_BYTES) {
    const length = Math.min(COPY_BYTES, row.length - done);
    await write(done, await read(sections.payload.offset + row.offset + done, length));
  }
}

/** Places the rows one after the other. */
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
 * Parity over a damaged block would make the loss permanent. So blocks of earlier changes are compared with their
 * records first, and a damaged one is an error. Blocks that this change stored need no check.
 */
async function checkBlocks({ state, draft, host, manifest }: SealParts): Promise<void> {
  if (!carriesParity(state)) return;
  const before = state.manifest.chunks;
  const kept = [...manifest.chunks.values()].filter(({ id }) => before.has(id));
  await checkStoredBlocks(kept, (offset, byteLength) => draft.read(offset, byteLength), {
    engine: host.engine,
    label: state.label,
    signal: host.signal,
    onProgress: host.onProgress,
    action: "renew the parity of the vault",
  });
}
