import { type Bytes, concatBytes, EMPTY_BYTES } from "../../../base/bytes.ts";
import { LimitError } from "../../../base/errors.ts";
import { GCM_SIV_NONCE_BYTES } from "../../../primitives/crypto/gcm-siv.ts";
import { encodeManifest } from "../encode-manifest.ts";
import { DATA_PARITY, type ExtensionRow, encodeDirectory, MANIFEST_PARITY } from "../extensions.ts";
import { NO_EXTRA_KEYS } from "../field-reader.ts";
import type { VaultCipher } from "../framing.ts";
import { headerMac, type KeySlots } from "../keys.ts";
import { HEADER_BYTES, PLAINTEXT_FLAG, vaultHeader, withMac } from "../layout.ts";
import { AEROVAULT_LIMITS } from "../limits.ts";
import type { Manifest } from "../manifest.ts";
import { encodeCheckedManifest } from "../plain-manifest.ts";
import type { VaultDraft } from "./draft.ts";
import { DEFAULT_PARITY_PERCENT, encodeParity, parityGrid } from "./parity.ts";
import { protectedBlocks } from "./protected-blocks.ts";
import type { SpacePlan } from "./space.ts";
import type { EditHost, VaultState } from "./vault-state.ts";

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
  const dataParity = await encodeDataParity(parts);
  const blob = cipher.sealManifest(await manifestBytes(parts), () => host.random(GCM_SIV_NONCE_BYTES));
  checkManifestLength(blob.byteLength, parts.state.label);
  const { rows, payload } = await arrangeExtensions(parts, dataParity, blob);
  const directory = encodeDirectory(rows);
  const tail = concatBytes([blob, directory, payload]);
  const offset = space.placeSections(tail.byteLength);
  const sections = {
    manifest: { offset, byteLength: blob.byteLength },
    directory: { offset: offset + blob.byteLength, byteLength: directory.byteLength },
    payload: { offset: offset + blob.byteLength + directory.byteLength, byteLength: payload.byteLength },
  };
  await draft.write(offset, tail);
  const header = await encodeHeader(parts, sections, space.dataEnd - HEADER_BYTES);
  const byteLength = offset + tail.byteLength;
  await draft.commit(header, byteLength);
  return { header, manifest, extensions: rows, sections, byteLength };
}

/** The reference refuses a longer one, so writing it would lock the vault away. */
function checkManifestLength(byteLength: number, label: string): void {
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

/** Undefined where the vault has no parity of its own. */
async function encodeDataParity(parts: SealParts): Promise<Bytes | undefined> {
  const { state, host, draft, manifest } = parts;
  if (!state.extensions.some((row) => row.extensionId === DATA_PARITY)) return undefined;
  const before = state.manifest.chunks;
  const data = await protectedBlocks({ manifest, before, draft, engine: host.engine, label: state.label });
  return encodeParity(host.engine, gridOf(manifest), data);
}

function gridOf(manifest: Manifest): ReturnType<typeof parityGrid> {
  return parityGrid(manifest.errorCorrectionPct ?? DEFAULT_PARITY_PERCENT);
}

interface Arranged {
  readonly rows: readonly ExtensionRow[];
  readonly payload: Bytes;
}

/** Parity first, as the reference has it; then every other extension with the bytes that it had. */
async function arrangeExtensions(parts: SealParts, dataParity: Bytes | undefined, blob: Bytes): Promise<Arranged> {
  const rows: ExtensionRow[] = [];
  const payloads: Bytes[] = [];
  let offset = 0;
  const add = (row: Omit<ExtensionRow, "offset" | "length">, payload: Bytes): void => {
    rows.push({ ...row, offset, length: payload.byteLength });
    payloads.push(payload);
    offset += payload.byteLength;
  };
  if (dataParity !== undefined) {
    const memory = {
      byteLength: blob.byteLength,
      read: async (start: number, length: number) => blob.subarray(start, start + length),
    };
    add(parityRow(DATA_PARITY), dataParity);
    add(parityRow(MANIFEST_PARITY), await encodeParity(parts.host.engine, gridOf(parts.manifest), memory));
  }
  for (const row of parts.state.extensions) {
    if (row.extensionId === DATA_PARITY || row.extensionId === MANIFEST_PARITY) continue;
    add(row, await readPayload(parts.state, row));
  }
  return { rows, payload: concatBytes(payloads) };
}

function readPayload({ sections, read }: VaultState, { offset, length }: ExtensionRow): Promise<Bytes> {
  return length === 0 ? Promise.resolve(EMPTY_BYTES) : read(sections.payload.offset + offset, length);
}

/** A row as the reference writes it (dossier 5.1); offset and length are filled in later. */
export function parityRow(extensionId: string): ExtensionRow {
  const algorithm = { algorithmId: "reed-solomon", algorithmVersion: 1, critical: false };
  return { extensionId, ...algorithm, offset: 0, length: 0, extra: NO_EXTRA_KEYS };
}
