import { type Bytes, equalBytes } from "../../base/bytes.ts";
import { isTareError, type TareError } from "../../base/errors.ts";
import { type Overlay, overlaidSource, overlayBytes } from "../../bytes/derived.ts";
import type { Source } from "../../bytes/source.ts";
import { HEADER_SEGMENT, MANIFEST_SEGMENT } from "../../formats/aerocorrect/layout.ts";
import { type Sidecar, segmentPayload } from "../../formats/aerocorrect/sidecar.ts";
import { impliedDirectory } from "../../formats/aerovault/extensions/directory.ts";
import { decodeHeader, sectionsEnd } from "../../formats/aerovault/header.ts";
import { HEADER_BYTES, type VaultHeader } from "../../formats/aerovault/layout.ts";
import { AEROVAULT_LIMITS } from "../../formats/aerovault/limits.ts";
import { healedVersions } from "../../formats/aerovault/manifest/parity.ts";
import { openVault } from "../../formats/aerovault/open.ts";
import type { HealedPart, Vault } from "../../formats/aerovault/vault.ts";
import type { OpenContext } from "../../model/format.ts";
import type { ReadableBytes } from "../../model/parity/avec.ts";

/** A vault that was opened although its control region is damaged, or that turned out to be whole. */
export interface RecoveredVault {
  /** Opened over `image`. */
  readonly vault: Vault;
  /** The file with the healed parts, at its correct length. */
  readonly image: Source;
  /** Length of the file as it is. */
  readonly foundLength: number;
  /** The bytes in place of the header; fewer if the file is shorter. */
  readonly foundHeader: Bytes;
  /** The damaged parts of the file, with their correct bytes. */
  readonly parts: readonly HealedPart[];
  /** "needed" if a part from a sidecar may belong to another state: it counts only once the whole file is proven. */
  readonly proof: "own" | "needed";
}

/**
 * Opens a vault with a damaged control region: the sidecar heals the header, the implied content the extension
 * directory, and either parity the manifest. Bytes that were cut off count as zeros. If that does not help, throws what
 * plain opening would throw. The caller closes the result's vault, and with it `file`.
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
    // Without a header there is nothing to recover, and opening gives the right error.
    if (found === undefined) return { ...(await openPlainly(file, context)), foundHeader, proof: "own" };
    const opened = await openWithHeader(file, found, context, sidecar);
    return { ...opened, foundHeader, proof: (await isOfThisState(opened)) ? "own" : "needed" };
  } catch (error) {
    // This error means that the header was proven: another header would be that of another state.
    if (!isDamage(error) || error.code === "integrity/aerovault.manifest") throw error;
    failure = error;
  }
  for await (const header of otherHeaders(found, context, sidecar)) {
    try {
      return { ...(await openWithHeader(file, header, context, sidecar)), foundHeader, proof: "needed" };
    } catch (error) {
      if (!isDamage(error)) throw error;
      // With the right header, the password is wrong, not the file.
      if (/^usage\/password\./.test(error.code)) throw error;
    }
  }
  throw failure;
}

type Opened = Omit<RecoveredVault, "proof" | "foundHeader">;

async function openPlainly(file: Source, context: OpenContext): Promise<Opened> {
  return { vault: await openVault(file, context), image: file, foundLength: file.byteLength, parts: [] };
}

/** Headers that the sidecar can give, if they differ from the one in the file. */
async function* otherHeaders(
  found: Bytes | undefined,
  { engine }: OpenContext,
  sidecar: Sidecar | undefined,
): AsyncGenerator<Bytes> {
  const payload = segmentOf(sidecar, HEADER_SEGMENT);
  if (payload !== undefined) yield* healedVersions(engine, found ?? new Uint8Array(HEADER_BYTES), payload);
}

/** The payload of a segment; undefined if there is no sidecar, or if it does not protect this segment. */
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
  // A vault without any parity is refused as it is: damage looks the same as a careless writer.
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
 * Whether a manifest from a sidecar is the stored one apart from some damage. A manifest of another state was encrypted
 * again: it has hardly a byte in common, and would undo later changes.
 */
async function isOfThisState({ vault, parts }: Opened): Promise<boolean> {
  const healed = parts.find(({ origin }) => origin === "sidecar");
  return (
    healed === undefined || resembles(await vault.source.read(healed.offset, healed.bytes.byteLength), healed.bytes)
  );
}

/** True if at least half of the bytes are equal. */
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

/**
 * The length that the header states. Parity cannot restore more than the file has, so a header that claims more is
 * ignored.
 */
function lengthFor(file: Source, header: VaultHeader): number {
  const end = sectionsEnd(header);
  return end > file.byteLength && end <= 2 * file.byteLength ? end : file.byteLength;
}

/** The correct directory, if the stored one differs. Nothing protects it, but only one fits header and payloads. */
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

/** Only for a manifest at this place and of this length: the sidecar may belong to another state of the vault. */
function manifestParity(sidecar: Sidecar | undefined, header: VaultHeader): ReadableBytes | undefined {
  const segment = sidecar?.segments[MANIFEST_SEGMENT];
  const fits = segment?.windowOffset === header.manifestOffset && segment.windowLength === header.manifestLength;
  return fits ? segmentOf(sidecar, MANIFEST_SEGMENT) : undefined;
}

/** Mistakes of the user that a damaged header looks like: its salt is wrong, or its bit for encryption is lost. */
const LIKE_DAMAGE: ReadonlySet<string> = new Set(["usage/password.wrong", "usage/vault.unencrypted"]);

/** Errors that damage can cause; an unreadable file or a missing password is something else. */
export function isDamage(error: unknown): error is TareError {
  if (!isTareError(error)) return false;
  return /^(format|integrity|unsupported|limit)\//.test(error.code) || LIKE_DAMAGE.has(error.code);
}
