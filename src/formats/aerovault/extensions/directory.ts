import { type Bytes, equalBytes } from "../../../base/bytes.ts";
import { IntegrityError, isTareError } from "../../../base/errors.ts";
import { MAX_OFFSET } from "../../../base/integers.ts";
import { encodeUtf8, printable } from "../../../base/text.ts";
import { AVEC_HEADER_BYTES, decodeAvecHeader, planAvec } from "../../../model/parity/avec.ts";
import type { ReadFile } from "../blocks/stream.ts";
import type { VaultHeader } from "../layout.ts";
import type { Vault } from "../vault.ts";
import { decodeDirectory, type ExtensionRow, encodeDirectory, isParityRow, parityRows } from "./rows.ts";

/**
 * The extension directory that the header and the payloads imply, byte for byte as writers make it. Nothing protects
 * the stored directory, but its content is nearly fixed: rows of parity, and key slots, as far as these can still be read.
 * Undefined if the vault has other extensions.
 */
export async function impliedDirectory(header: VaultHeader, read: ReadFile): Promise<Bytes | undefined> {
  const { extensionDirectoryOffset, extensionDirectoryLength, extensionPayloadLength, manifestLength } = header;
  const directory = extensionPayloadLength === 0 ? [] : await impliedRows(header, read);
  if (directory === undefined || manifestLength === 0) return undefined;
  const bytes = encodeDirectory(directory);
  if (bytes.byteLength === extensionDirectoryLength) return bytes;
  if (bytes.byteLength > extensionDirectoryLength) return undefined;
  return besideSlots(directory, await read(extensionDirectoryOffset, extensionDirectoryLength));
}

/** A row of a key slot, as every writer makes it. */
const SLOT_TEXT =
  /\{"extension_id":"tare\.key\.[0-9a-f]{8}","algorithm_id":"tare-key-slot-1:[\w-]{152}","algorithm_version":1,"critical":false,"offset":0,"length":0\}/g;
const SLOT_BYTES = 283;

/** True if a directory, which may be damaged, has rows of key slots. */
export function hasSlotRows(stored: Bytes): boolean {
  return textOf(stored).includes("tare.key.");
}

/**
 * The directory with these rows of parity and the slots that can be read in the stored one. A slot that is lost leaves
 * spaces, because the header says how long the directory is; the list in the manifest names it. Undefined if it never
 * had just these rows and some slots.
 */
function besideSlots(parity: readonly ExtensionRow[], stored: Bytes): Bytes | undefined {
  const room = stored.byteLength - encodeDirectory(parity).byteLength + (parity.length === 0 ? 1 : 0);
  if (room % (SLOT_BYTES + 1) !== 0 || !hasSlotRows(stored)) return undefined;
  const found = rowsOf(stored);
  const isWhole = found !== undefined && sameRows(found.filter(isParityRow), parity);
  if (isWhole) return stored;
  const slots = new Map<string, ExtensionRow>();
  for (const [text] of textOf(stored).matchAll(SLOT_TEXT)) {
    const [row] = rowsOf(encodeUtf8(`[${text}]`)) ?? [];
    if (row === undefined) continue;
    // A row that comes twice is no damage: somebody doubled it, and opening refuses that.
    if (slots.has(row.extensionId)) return undefined;
    slots.set(row.extensionId, row);
  }
  const bytes = encodeDirectory([...parity, ...slots.values()]);
  const whole = new Uint8Array(stored.byteLength).fill(SPACE);
  if (bytes.byteLength > whole.byteLength) return undefined;
  whole.set(bytes);
  return whole;
}

const SPACE = 0x20;

/** Byte for byte: damage may have left no UTF-8. */
function textOf(bytes: Bytes): string {
  return new TextDecoder("latin1").decode(bytes);
}

/** The rows of a directory; undefined if it is damaged. Where their payloads lie does not matter here. */
function rowsOf(stored: Bytes): readonly ExtensionRow[] | undefined {
  const everything = { payloadLength: MAX_OFFSET, maxRows: Number.MAX_SAFE_INTEGER };
  try {
    return decodeDirectory(stored, { source: "vault", offset: 0 }, everything);
  } catch (error) {
    if (isTareError(error)) return undefined;
    throw error;
  }
}

/** In any order: another program may have put parity behind slots. */
function sameRows(found: readonly ExtensionRow[], wanted: readonly ExtensionRow[]): boolean {
  const texts = (rows: readonly ExtensionRow[]): string => textOf(encodeDirectory([...rows].sort(byId)));
  return texts(found) === texts(wanted);
}

function byId(a: ExtensionRow, b: ExtensionRow): number {
  return a.extensionId < b.extensionId ? -1 : 1;
}

/**
 * Why the extension directory of a vault cannot be the one that was written; undefined if there is no evidence. Nothing
 * authenticates its bytes, and a writer relies on its rows: parity whose row is damaged would be lost for good.
 */
export async function findDirectoryFault({ source, header, extensions }: OpenedParts): Promise<string | undefined> {
  const { values } = header;
  const read: ReadFile = (offset, byteLength) => source.read(offset, byteLength);
  const { extensionDirectoryOffset: offset, extensionDirectoryLength: byteLength } = values;
  const implied = await impliedDirectory(values, read);
  if (implied !== undefined) {
    if (equalBytes(implied, await read(offset, byteLength))) return undefined;
    return "is not the one that the header and the payloads call for";
  }
  const claimed = extensions.reduce((sum, row) => sum + row.length, 0);
  if (claimed < values.extensionPayloadLength) return "leaves out a part of the payloads";
  for (const row of extensions) {
    if (isParityRow(row) || row.length < AVEC_HEADER_BYTES) continue;
    const head = decodeAvecHeader(await read(values.extensionPayloadOffset + row.offset, AVEC_HEADER_BYTES));
    if (head?.payloadBytes === row.length) return `calls parity "${printable(row.extensionId)}"`;
  }
  return undefined;
}

type OpenedParts = Pick<Vault, "source" | "header" | "extensions">;

/** Refuses to write if the extension directory is damaged. */
export async function checkDirectory(vault: OpenedParts, action: string): Promise<void> {
  const fault = await findDirectoryFault(vault);
  if (fault === undefined) return;
  const { source, header } = vault;
  const message = `Cannot ${action}: its list of extensions is damaged, it ${fault}`;
  const at = { source: source.label, offset: header.values.extensionDirectoryOffset };
  const hint = "The vault is unchanged; run tare vault repair first";
  throw new IntegrityError("integrity/aerovault.directory", message, at, { hint });
}

/** Derives the rows from the heads of the payloads; undefined unless the heads and the lengths agree. */
async function impliedRows(header: VaultHeader, read: ReadFile): Promise<readonly ExtensionRow[] | undefined> {
  const { extensionPayloadOffset, extensionPayloadLength, manifestLength } = header;
  const head = async (at: number): Promise<ReturnType<typeof decodeAvecHeader>> =>
    at < 0 || extensionPayloadLength - at < 32
      ? undefined
      : decodeAvecHeader(await read(extensionPayloadOffset + at, 32));
  const first = await head(0);
  if (first === undefined) return undefined;
  const manifestBytes = planAvec(first.grid, manifestLength).payloadBytes;
  const dataBytes = extensionPayloadLength - manifestBytes;
  // An empty vault has parity only for its manifest.
  if (dataBytes === 0 && first.byteLength === manifestLength) return parityRows(0, manifestBytes);
  const second = await head(dataBytes);
  const isPair = first.payloadBytes === dataBytes && second?.byteLength === manifestLength;
  return isPair ? parityRows(dataBytes, manifestBytes) : undefined;
}
