import type { Bytes } from "../../base/bytes.ts";
import { FormatError, IntegrityError } from "../../base/errors.ts";
import { checkLimit, resolveLimits } from "../../base/limits.ts";
import { decodeUtf8, printable } from "../../base/text.ts";
import { inTurns, type Steps } from "../../base/turns.ts";
import type { Source } from "../../bytes/source.ts";
import type { Finding } from "../../model/finding.ts";
import type { FormatReader, OpenContext, Section } from "../../model/format.ts";
import { type FieldPlace, placesOf } from "../../struct/fields.ts";
import { checkStoredPaths, findPathFault } from "../aerovault/paths.ts";
import { Vault2Archive, vault2Archive } from "./archive.ts";
import { readHeader2 } from "./header.ts";
import { unlock2, type Vault2Keys, wipeKeys2 } from "./keys.ts";
import { HEADER_BYTES, MAC_BYTES, MAC_OFFSET, PREFIX_BYTES, vault2Header } from "./layout.ts";
import { AEROVAULT2_LIMITS } from "./limits.ts";
import { decodeManifest2, type Manifest2, type ManifestRow, openLongText, openText } from "./manifest.ts";
import { dataOffsetOf, MANIFEST_OFFSET, type NamedRow, type Vault2 } from "./vault.ts";

/** AeroVault v2: read, listed, extracted and upgraded; never written. */
export const reader: FormatReader = {
  limits: AEROVAULT2_LIMITS,
  open: openAerovault2,
  sections: (container) => vault2Sections(vault2Archive(container).vault),
  fields: async (container) => vault2Fields(vault2Archive(container).vault),
};

/**
 * Opens a vault of version 2. Checks in this order: the header alone, the password, the header's HMAC, the manifest's
 * tag, its content, every name. Closing the result closes `source`; a failure does not.
 */
export async function openAerovault2(source: Source, context: OpenContext): Promise<Vault2Archive> {
  const at = { source: source.label, offset: 0 };
  const limits = resolveLimits("aerovault2", AEROVAULT2_LIMITS, context.limits);
  const header = await readHeader2(source, { signal: context.signal });
  const place = { ...at, offset: HEADER_BYTES, path: "manifest_len" };
  const { manifestLength } = header;
  checkLimit(manifestLength, limits.manifestBytes, "bytes of manifest", "limit/aerovault2.manifest-bytes", place);
  const sealed = await source.read(MANIFEST_OFFSET, manifestLength, { signal: context.signal });
  const keys = await unlock2(header, context, at);
  try {
    const manifest = await inTurns(openManifest2(sealed, keys, source.label), context.signal);
    const rows = await inTurns(nameRows(manifest.rows, keys, source.label), context.signal);
    const warnings = await inTurns(findOddNames(rows, source.label), context.signal);
    return new Vault2Archive({ source, header, keys, manifest, rows, limits, warnings });
  } catch (error) {
    wipeKeys2(keys);
    throw error;
  }
}

/** Decrypting a name takes as long as many other steps. */
const NAME_STEPS = 16;

function* openManifest2(sealed: Bytes, keys: Vault2Keys, label: string): Steps<Manifest2> {
  const at = { source: label, offset: MANIFEST_OFFSET };
  // A byte that is not ASCII is not base64url either.
  const json = yield* openLongText(keys.names, decodeUtf8(sealed) ?? "");
  if (json === undefined) {
    const message = "Cannot trust the manifest of the vault: its tag must match, and does not";
    const hint = "The header is whole, so the password is right; get another copy of the vault";
    throw new IntegrityError("integrity/aerovault2.manifest", message, at, { hint });
  }
  return yield* decodeManifest2(json, at);
}

function* nameRows(rows: readonly ManifestRow[], keys: Vault2Keys, label: string): Steps<readonly NamedRow[]> {
  const place = (index: number) => ({
    source: label,
    offset: MANIFEST_OFFSET,
    path: `entries[${index}].encrypted_name`,
  });
  const named: NamedRow[] = [];
  for (const [i, row] of rows.entries()) {
    const name = openText(keys.names, row.encryptedName);
    if (name === undefined) {
      const message = `Cannot trust the name of entry ${i} of the vault: its tag must match, and does not`;
      throw new IntegrityError("integrity/aerovault2.name", message, place(i));
    }
    const path = decodeUtf8(name);
    if (path === undefined) {
      throw new FormatError(
        "format/aerovault2.path",
        `Cannot accept the name of entry ${i} of a vault: it must be UTF-8`,
        place(i),
      );
    }
    named.push({ ...row, path });
    yield NAME_STEPS;
  }
  const paths = named.map(({ path, isDir }) => ({ path, type: isDir ? ("directory" as const) : ("file" as const) }));
  yield* checkStoredPaths(paths, "format/aerovault2.path", place);
  return named;
}

/** Names that a vault of version 3 cannot store: they are read, but cannot be written everywhere. */
function* findOddNames(rows: readonly NamedRow[], label: string): Steps<Finding[]> {
  const findings: Finding[] = [];
  for (const { path } of rows) {
    yield;
    const fault = findPathFault(path);
    if (fault === undefined) continue;
    const message = `"${printable(path)}" cannot be stored in a vault of version 3: ${fault}`;
    const at = { source: label };
    findings.push({ severity: "warning", code: "format/aerovault2.odd-name", message, at, name: path });
  }
  return findings;
}

/** Header and manifest, as in docs/formats/aerovault2.md. */
function vault2Fields({ header }: Vault2): readonly FieldPlace[] {
  return [
    ...placesOf(vault2Header, 0, "header"),
    { offset: HEADER_BYTES, byteLength: PREFIX_BYTES, name: "manifest.length", type: "u32" },
    { offset: MANIFEST_OFFSET, byteLength: header.manifestLength, name: "manifest", type: "bytes" },
  ];
}

/** The map of a vault of version 2. Only copies share bytes, so the files' extents are the map of the data. */
function vault2Sections(vault: Vault2): readonly Section[] {
  const part = 0;
  const data = dataOffsetOf(vault);
  const overhead = PREFIX_BYTES + vault.keys.chunks.sealBytes;
  const seen = new Set<number>();
  const files = vault.rows
    .filter(({ isDir, chunkCount }) => !isDir && chunkCount > 0)
    .map(
      ({ path, offset, size, chunkCount }): Section => ({
        part,
        name: path,
        kind: "data",
        offset: data + offset,
        byteLength: size + chunkCount * overhead,
      }),
    )
    .filter(({ offset, byteLength }) => offset + byteLength <= vault.source.byteLength)
    .filter(({ offset }) => !seen.has(offset) && seen.add(offset))
    .sort((a, b) => a.offset - b.offset);
  return [
    { part, name: "header", kind: "header", offset: 0, byteLength: MAC_OFFSET },
    { part, name: "header HMAC", kind: "integrity", offset: MAC_OFFSET, byteLength: MAC_BYTES },
    { part, name: "manifest length", kind: "header", offset: HEADER_BYTES, byteLength: PREFIX_BYTES },
    { part, name: "manifest", kind: "index", offset: MANIFEST_OFFSET, byteLength: vault.header.manifestLength },
    ...files,
  ];
}
