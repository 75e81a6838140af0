import { type Bytes, equalBytes } from "../../base/bytes.ts";
import { isTareError, type TareError } from "../../base/errors.ts";
import { type Overlay, overlaidSource, overlayBytes } from "../../bytes/derived.ts";
import type { Source } from "../../bytes/source.ts";
import { type Sidecar, segmentPayload } from "../../formats/aerocorrect/sidecar.ts";
import { impliedDirectory } from "../../formats/aerovault/extension-directory.ts";
import { decodeHeader, sectionsEnd } from "../../formats/aerovault/header.ts";
import { HEADER_BYTES, type VaultHeader } from "../../formats/aerovault/layout.ts";
import { AEROVAULT_LIMITS } from "../../formats/aerovault/limits.ts";
import { healedVersions } from "../../formats/aerovault/manifest-parity.ts";
import { openVault } from "../../formats/aerovault/open.ts";
import type { HealedPart, Vault } from "../../formats/aerovault/vault.ts";
import type { OpenContext } from "../../model/format.ts";
import type { ReadableBytes } from "../../model/parity/avec.ts";

/** Segments of a vault's sidecar, by their position (dossier 5.6). */
const HEADER_SEGMENT = 0;
const MANIFEST_SEGMENT = 1;
export const DATA_SEGMENT = 2;

/** A vault that was opened although its control region is damaged, or that turned out to be whole. */
export interface RecoveredVault {
  /** Opened over `image`. */
  readonly vault: Vault;
  /** The file with what was healed in it, as long as it should be. */
  readonly image: Source;
  /** Of the file as it is. */
  readonly foundLength: number;
  /** What stands in the place of the header; shorter where the file is. */
  readonly foundHeader: Bytes;
  /** What is damaged in the file, as it should be. */
  readonly parts: readonly HealedPart[];
  /** What comes from a sidecar and may be of another state counts only once the whole container is proven (dossier 15). */
  readonly proof: "own" | "needed";
}

/**
 * Opens a vault whatever of its control region is damaged: the header by the sidecar, the extension directory by what it
 * must say, the manifest by either parity; what was cut off is taken as zeros. Throws what plain opening would throw where
 * that does not help. The caller closes the result's vault, and with it `file`.
 */
export async function recoverVault(
  file: Source,
  context: OpenContext,
  sidecar: Sidecar | undefined,
): Promise<RecoveredVault> {
  const foundHeader = await file.read(0, Math.min(HEADER_BYTES, file.byteLength));
  const found = foundHeader.byteLength < HEADER_BYTES ? undefined : foundHeader;
  let failure: unknown;
  try {
    // Without a header there is nothing to recover: opening says so in its own words.
    if (found === undefined) return { ...(await openPlainly(file, context)), foundHeader, proof: "own" };
    const opened = await openWithHeader(file, found, context, sidecar);
    return { ...opened, foundHeader, proof: (await isOfThisState(opened)) ? "own" : "needed" };
  } catch (error) {
    // Whoever judged the manifest had a header that is proven: another one would be that of another state.
    if (!isDamage(error) || error.code === "integrity/aerovault.manifest") throw error;
    failure = error;
  }
  for await (const header of otherHeaders(found, context, sidecar)) {
    try {
      return { ...(await openWithHeader(file, header, context, sidecar)), foundHeader, proof: "needed" };
    } catch (error) {
      if (!isDamage(error)) throw error;
      // With the right header it is the password that is wrong, not the file.
      if (/^usage\/password\./.test(error.code)) throw error;
    }
  }
  throw failure;
}

type Opened = Omit<RecoveredVault, "proof" | "foundHeader">;

async function openPlainly(file: Source, context: OpenContext): Promise<Opened> {
  return { vault: await openVault(file, context), image: file, foundLength: file.byteLength, parts: [] };
}

/** Headers that the sidecar can tell, where they are not the one that is there. */
async function* otherHeaders(
  found: Bytes | undefined,
  { engine }: OpenContext,
  sidecar: Sidecar | undefined,
): AsyncGenerator<Bytes> {
  const payload = segmentOf(sidecar, HEADER_SEGMENT);
  if (payload !== undefined) yield* healedVersions(engine, found ?? new Uint8Array(HEADER_BYTES), payload);
}

/** The payload of a segment; undefined where there is no sidecar, or it does not protect that. */
export function segmentOf(sidecar: Sidecar | undefined, index: number): ReadableBytes | undefined {
  const segment = sidecar?.kind === "vault" ? sidecar.segments[index] : undefined;
  if (sidecar === undefined || segment === undefined || segment.byteLength === 0) return undefined;
  return segmentPayload(sidecar, segment);
}

async function openWithHeader(
  file: Source,
  header: Bytes,
  context: OpenContext,
  sidecar: Sidecar | undefined,
): Promise<Opened> {
  const at = { source: file.label, offset: 0 };
  const values = decodeHeader(header, at);
  const parts: HealedPart[] = [];
  if (file.byteLength < HEADER_BYTES || !equalBytes(header, await file.read(0, HEADER_BYTES))) {
    parts.push({ name: "header", offset: 0, bytes: header });
  }
  const byteLength = lengthFor(file, values);
  const before = overlaidSource(file, byteLength, overlaysOf(parts));
  // A vault that has no parity at all is refused as it is: nobody can tell damage from a writer that knows no better.
  const hasParity = sidecar !== undefined || values.extensionPayloadLength > 0;
  const directory = hasParity ? await damagedDirectory(before, values) : undefined;
  if (directory !== undefined) parts.push(directory);
  const image = parts.length === 0 && byteLength === file.byteLength ? file : overlaid(file, byteLength, parts);
  const vault = await openVault(image, context, { manifestParity: manifestParity(sidecar, values) });
  return {
    vault,
    image: vault.healed.length === 0 ? image : overlaid(image, byteLength, vault.healed),
    foundLength: file.byteLength,
    parts: [...parts, ...vault.healed],
  };
}

/**
 * Whether a manifest that a sidecar gives is the one that is there but for some damage. One of another state is encrypted
 * anew: it has hardly a byte in common with it, and would undo what was changed since.
 */
async function isOfThisState({ vault, parts }: Opened): Promise<boolean> {
  const healed = parts.find(({ origin }) => origin === "sidecar");
  return (
    healed === undefined || resembles(await vault.source.read(healed.offset, healed.bytes.byteLength), healed.bytes)
  );
}

/** True where at least half of the bytes are the same. */
export function resembles(found: Bytes, healed: Bytes): boolean {
  const agreeing = healed.reduce((count, byte, i) => (found[i] === byte ? count + 1 : count), 0);
  return 2 * agreeing >= healed.byteLength;
}

function overlaysOf(parts: readonly HealedPart[]): readonly Overlay[] {
  return parts.map(({ offset, bytes }) => overlayBytes(offset, bytes));
}

function overlaid(file: Source, byteLength: number, parts: readonly HealedPart[]): Source {
  return overlaidSource(file, byteLength, overlaysOf(parts));
}

/** As long as the header says; but no parity brings back more than there is, so a header that asks for it is not believed. */
function lengthFor(file: Source, header: VaultHeader): number {
  const end = sectionsEnd(header);
  return end > file.byteLength && end <= 2 * file.byteLength ? end : file.byteLength;
}

/** The directory as it should be, where it is not. Nothing protects it, but only one fits the header and the payloads. */
async function damagedDirectory(image: Source, header: VaultHeader): Promise<HealedPart | undefined> {
  const { extensionDirectoryOffset: offset, extensionDirectoryLength: byteLength } = header;
  const isThere = offset <= image.byteLength - byteLength && byteLength <= AEROVAULT_LIMITS.directoryBytes.default;
  const payloadEnd = header.extensionPayloadOffset + header.extensionPayloadLength;
  if (!isThere || payloadEnd > image.byteLength) return undefined;
  const read = (at: number, length: number): Promise<Bytes> => image.read(at, length);
  const bytes = await impliedDirectory(header, read);
  if (bytes === undefined || equalBytes(bytes, await image.read(offset, byteLength))) return undefined;
  return { name: "extension directory", offset, bytes };
}

/** Only where it is for a manifest of that place and length: the sidecar may be of another state of the vault. */
function manifestParity(sidecar: Sidecar | undefined, header: VaultHeader): ReadableBytes | undefined {
  const segment = sidecar?.segments[MANIFEST_SEGMENT];
  const fits = segment?.windowOffset === header.manifestOffset && segment.windowLength === header.manifestLength;
  return fits ? segmentOf(sidecar, MANIFEST_SEGMENT) : undefined;
}

/** What damage can make of opening; a file that cannot be read or a missing password is something else. */
function isDamage(error: unknown): error is TareError {
  if (!isTareError(error)) return false;
  return /^(format|integrity|unsupported|limit)\//.test(error.code) || error.code === "usage/password.wrong";
}
