import { type Bytes, equalBytes } from "../../../base/bytes.ts";
import { IntegrityError } from "../../../base/errors.ts";
import { printable } from "../../../base/text.ts";
import { AVEC_HEADER_BYTES, decodeAvecHeader, planAvec } from "../../../model/parity/avec.ts";
import type { ReadFile } from "../blocks/stream.ts";
import type { VaultHeader } from "../layout.ts";
import type { Vault } from "../vault.ts";
import { type ExtensionRow, encodeDirectory, isParityRow, parityRows } from "./rows.ts";

/**
 * The extension directory that the header and the payloads imply, byte for byte as writers make it. Nothing protects
 * the stored directory, but its content is nearly fixed. Undefined if the vault has other extensions than parity.
 */
export async function impliedDirectory(header: VaultHeader, read: ReadFile): Promise<Bytes | undefined> {
  const { extensionDirectoryLength, extensionPayloadLength, manifestLength } = header;
  const directory = extensionPayloadLength === 0 ? [] : await impliedRows(header, read);
  const bytes = directory === undefined ? undefined : encodeDirectory(directory);
  return bytes?.byteLength === extensionDirectoryLength && manifestLength > 0 ? bytes : undefined;
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
