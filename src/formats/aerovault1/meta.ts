import { type Bytes, concatBytes } from "../../base/bytes.ts";
import { FormatError, type Location } from "../../base/errors.ts";
import { JsonScanner } from "../../struct/json-scanner.ts";
import { decodeJsonText } from "../../struct/strict-json.ts";
import { FieldReader } from "../aerovault/field-reader.ts";
import { EntryReader } from "./entry-reader.ts";
import type { Vault1 } from "./vault1.ts";

/** The meta entry is a few hundred bytes; nobody holds more for it. */
const MAX_META_BYTES = 1 << 20;

/** What the entry that makes a ZIP a vault says. */
export interface VaultMeta {
  readonly version: number;
  readonly created: string | undefined;
  readonly modified: string | undefined;
  readonly description: string | undefined;
  readonly fileCount: number | undefined;
}

/** Reads and proves the meta entry. */
export async function readMeta(vault: Vault1, signal?: AbortSignal): Promise<VaultMeta> {
  const { meta, contents, proof } = vault;
  const content = contents.get(meta);
  const at = { source: vault.source.label, offset: meta.localOffset };
  if (content === undefined || meta.size > MAX_META_BYTES) {
    const message = `Cannot read AeroVault v1 meta entry: must have at most ${MAX_META_BYTES} bytes, found ${meta.size}`;
    throw new FormatError("format/aerovault1.meta", message, at);
  }
  const reader = new EntryReader(content, vault, proof);
  const pieces: Bytes[] = [];
  for await (const piece of reader.read(0, meta.size, signal)) pieces.push(piece);
  reader.wipe();
  return decodeMeta(concatBytes(pieces), at);
}

function decodeMeta(bytes: Bytes, at: Location): VaultMeta {
  const place = { source: at.source, offset: at.offset ?? 0, what: "AeroVault v1 meta entry" };
  const scanner = new JsonScanner(decodeJsonText(bytes, place), place);
  scanner.skipSpace();
  const reader = new FieldReader(scanner, "format/aerovault1.meta");
  let version: number | undefined;
  let created: string | undefined;
  let modified: string | undefined;
  let description: string | undefined;
  let fileCount: number | undefined;
  reader.record((key) => {
    if (key === "version") version = reader.whole();
    else if (key === "created") created = reader.orNull(() => reader.text());
    else if (key === "modified") modified = reader.orNull(() => reader.text());
    else if (key === "description") description = reader.orNull(() => reader.text());
    else if (key === "fileCount") fileCount = reader.orNull(() => reader.whole());
    else scanner.skipValue();
  });
  scanner.expectEnd();
  return { version: reader.need(version, "version"), created, modified, description, fileCount };
}
