import type { Bytes } from "../../base/bytes.ts";
import { FormatError, IntegrityError } from "../../base/errors.ts";
import { checkLimit, resolveLimits } from "../../base/limits.ts";
import { decodeUtf8, printable } from "../../base/text.ts";
import type { Source } from "../../bytes/source.ts";
import type { Finding } from "../../model/finding.ts";
import type { OpenContext } from "../../model/format.ts";
import { findPathFault } from "../aerovault/paths.ts";
import { checkStoredPaths } from "../legacy-paths.ts";
import { readHeader2 } from "./header.ts";
import { unlock2, type Vault2Keys, wipeKeys2 } from "./keys.ts";
import { HEADER_BYTES } from "./layout.ts";
import { AEROVAULT2_LIMITS } from "./limits.ts";
import { decodeManifest2, type Manifest2, type ManifestRow, openText } from "./manifest.ts";
import { MANIFEST_OFFSET, type NamedRow } from "./vault2.ts";
import { Vault2Archive } from "./vault2-archive.ts";

/**
 * Opens a vault of version 2. In this order: what the header alone shows to be wrong, the password, the header's HMAC, the
 * manifest's tag, what it says, every name. Closing the result closes `source`; a failure does not.
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
    const manifest = openManifest2(sealed, keys, source.label);
    const rows = nameRows(manifest.rows, keys, source.label);
    const warnings = findOddNames(rows, source.label);
    return new Vault2Archive({ source, header, keys, manifest, rows, limits, warnings });
  } catch (error) {
    wipeKeys2(keys);
    throw error;
  }
}

function openManifest2(sealed: Bytes, keys: Vault2Keys, label: string): Manifest2 {
  const at = { source: label, offset: MANIFEST_OFFSET };
  // A byte that is not ASCII is no base64url either.
  const json = openText(keys.names, decodeUtf8(sealed) ?? "");
  if (json === undefined) {
    const message = "Cannot trust the manifest of the vault: its tag must match, and does not";
    const hint = "The header is whole, so the password is right; get another copy of the vault";
    throw new IntegrityError("integrity/aerovault2.manifest", message, at, { hint });
  }
  return decodeManifest2(json, at);
}

function nameRows(rows: readonly ManifestRow[], keys: Vault2Keys, label: string): readonly NamedRow[] {
  const place = (index: number) => ({
    source: label,
    offset: MANIFEST_OFFSET,
    path: `entries[${index}].encrypted_name`,
  });
  const named = rows.map((row, i): NamedRow => {
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
    return { ...row, path };
  });
  const paths = named.map(({ path, isDir }) => ({ path, type: isDir ? ("directory" as const) : ("file" as const) }));
  checkStoredPaths(paths, "format/aerovault2.path", place);
  return named;
}

/** Names that a vault of version 3 cannot store: they are read, but not everywhere written. */
function findOddNames(rows: readonly NamedRow[], label: string): Finding[] {
  return rows.flatMap(({ path }) => {
    const fault = findPathFault(path);
    if (fault === undefined) return [];
    const message = `"${printable(path)}" cannot be stored in a vault of version 3: ${fault}`;
    return [
      { severity: "warning" as const, code: "format/aerovault2.odd-name", message, at: { source: label }, name: path },
    ];
  });
}
