import type { Bytes } from "../../../base/bytes.ts";
import { FormatError, type Location, UnsupportedError } from "../../../base/errors.ts";
import { checkLimit } from "../../../base/limits.ts";
import { encodeUtf8, printable } from "../../../base/text.ts";
import { type ParityGrid, parityGrid, type ReadableBytes } from "../../../model/parity/avec.ts";
import { JsonScanner } from "../../../struct/json-scanner.ts";
import { decodeJsonText } from "../../../struct/strict-json.ts";
import type { ReadFile } from "../blocks/stream.ts";
import type { VaultHeader } from "../layout.ts";
import { type ExtraKeys, FieldReader, NO_EXTRA_KEYS } from "../manifest/field-reader.ts";
import type { Manifest } from "../manifest/records.ts";

/** A row of the extension directory. */
export interface ExtensionRow {
  readonly extensionId: string;
  readonly algorithmId: string;
  readonly algorithmVersion: number;
  readonly critical: boolean;
  /** From the first byte of the extension payload region. */
  readonly offset: number;
  readonly length: number;
  readonly extra: ExtraKeys;
}

export interface DirectoryOptions {
  /** Length of the payload region that rows must stay in. */
  readonly payloadLength: number;
  /** The most rows to accept. */
  readonly maxRows: number;
}

/**
 * Parses and checks the extension directory. Nothing authenticates its bytes, so it is checked before any row is used:
 * critical rows are always refused, as are duplicate ids and payloads outside of their region.
 */
export function decodeDirectory(bytes: Bytes, at: Location, options: DirectoryOptions): ExtensionRow[] {
  const place = { source: at.source, offset: at.offset ?? 0, what: "AeroVault extension directory" };
  const scanner = new JsonScanner(decodeJsonText(bytes, place), place);
  scanner.skipSpace();
  const reader = new FieldReader(scanner, "format/aerovault.extension");
  const rows: ExtensionRow[] = [];
  reader.list(() => {
    const start = scanner.position;
    const row = readRow(reader);
    rows.push(row);
    checkLimit(rows.length, options.maxRows, "extension rows", "limit/aerovault.extensions", at);
    checkRow(row, rows.length - 1, options.payloadLength, scanner.locate(start));
  });
  scanner.expectEnd();
  checkUnique(rows, at);
  return rows;
}

/** The directory as the reference writes it; `[]` without rows. */
export function encodeDirectory(rows: readonly ExtensionRow[]): Bytes {
  const texts = rows.map((row) => {
    const { extensionId, algorithmId, algorithmVersion, critical, offset, length, extra } = row;
    const others = [...extra].map(([key, value]) => `,${JSON.stringify(key)}:${value}`).join("");
    return `{"extension_id":${JSON.stringify(extensionId)},"algorithm_id":${JSON.stringify(algorithmId)},"algorithm_version":${algorithmVersion},"critical":${critical},"offset":${offset},"length":${length}${others}}`;
  });
  return encodeUtf8(`[${texts.join(",")}]`);
}

function readRow(reader: FieldReader): ExtensionRow {
  let extensionId: string | undefined;
  let algorithmId: string | undefined;
  let algorithmVersion: number | undefined;
  let critical: boolean | undefined;
  let offset: number | undefined;
  let length: number | undefined;
  let extra: Map<string, string> | undefined;
  reader.record((key) => {
    if (key === "extension_id") extensionId = reader.text();
    else if (key === "algorithm_id") algorithmId = reader.text();
    else if (key === "algorithm_version") algorithmVersion = reader.whole();
    else if (key === "critical") critical = reader.flag();
    else if (key === "offset") offset = reader.whole();
    else if (key === "length") length = reader.whole();
    else extra = reader.keep(extra, key);
  });
  return {
    extensionId: reader.need(extensionId, "extension_id"),
    algorithmId: reader.need(algorithmId, "algorithm_id"),
    algorithmVersion: reader.need(algorithmVersion, "algorithm_version"),
    critical: reader.need(critical, "critical"),
    offset: reader.need(offset, "offset"),
    length: reader.need(length, "length"),
    extra: extra ?? NO_EXTRA_KEYS,
  };
}

function checkRow(row: ExtensionRow, index: number, payloadLength: number, at: Location): void {
  const { extensionId, critical, offset, length } = row;
  const named = `"${printable(extensionId)}"`;
  if (critical) {
    const message = `Cannot open AeroVault: the extension ${named} is critical, and none that is critical is known`;
    const where = { ...at, path: `extensions[${index}].critical` };
    const hint = "Look for a newer version of tare";
    throw new UnsupportedError("unsupported/aerovault.extension", message, where, { hint });
  }
  // Both are at most 2^53 - 1, so the difference is exact even if the sum is not.
  if (offset <= payloadLength && length <= payloadLength - offset) return;
  const message = `Cannot open AeroVault: offset + length of the extension ${named} must be <= ${payloadLength}, found ${offset} + ${length}`;
  throw new FormatError("format/aerovault.extension", message, { ...at, path: `extensions[${index}].offset` });
}

function checkUnique(rows: readonly ExtensionRow[], at: Location): void {
  const seen = new Set<string>();
  for (const [index, { extensionId }] of rows.entries()) {
    if (seen.has(extensionId)) {
      const message = `Cannot open AeroVault: extension ids must be unique, found "${printable(extensionId)}" twice`;
      const where = { ...at, path: `extensions[${index}].extension_id` };
      throw new FormatError("format/aerovault.extension", message, where);
    }
    seen.add(extensionId);
  }
}

/** Parity of the data section. */
export const DATA_PARITY = "error-correction.reed-solomon";
/** Parity of the manifest. */
export const MANIFEST_PARITY = "error-correction-metadata.reed-solomon";

/** The bytes of an extension; undefined if the vault has none with that id. */
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

/** True for rows that every seal computes again. */
export function isParityRow({ extensionId }: Pick<ExtensionRow, "extensionId">): boolean {
  return extensionId === DATA_PARITY || extensionId === MANIFEST_PARITY;
}

/** A row as the reference writes it (docs/formats/aerovault.md#parity). */
export function parityRow(extensionId: string, place: { offset: number; length: number }): ExtensionRow {
  const algorithm = { algorithmId: "reed-solomon", algorithmVersion: 1, critical: false };
  return { extensionId, ...algorithm, ...place, extra: NO_EXTRA_KEYS };
}

/** The two rows for payloads of these lengths, data parity first. */
export function parityRows(dataBytes: number, manifestBytes: number): readonly [ExtensionRow, ExtensionRow] {
  return [
    parityRow(DATA_PARITY, { offset: 0, length: dataBytes }),
    parityRow(MANIFEST_PARITY, { offset: dataBytes, length: manifestBytes }),
  ];
}

/** For a vault that records no percentage (docs/formats/aerovault.md#parity). */
export const DEFAULT_PARITY_PERCENT = 20;

/** The grid of a vault's parity, embedded or in a sidecar. */
export function gridOf({ errorCorrectionPct }: Pick<Manifest, "errorCorrectionPct">): ParityGrid {
  return parityGrid(errorCorrectionPct ?? DEFAULT_PARITY_PERCENT);
}
