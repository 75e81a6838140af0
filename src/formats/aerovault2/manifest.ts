import { type Bytes, concatBytes } from "../../base/bytes.ts";
import type { Location } from "../../base/errors.ts";
import { decodeBase64Url } from "../../base/text.ts";
import { FEW_STEPS, type Steps } from "../../base/turns.ts";
import type { AesSivKey } from "../../primitives/cipher/aes-siv.ts";
import { JsonScanner } from "../../struct/json-scanner.ts";
import { decodeJsonText } from "../../struct/strict-json.ts";
import { FieldReader } from "../aerovault/manifest/field-reader.ts";

/** A file or directory in the manifest, its name still encrypted. */
export interface ManifestRow {
  /** base64url. */
  readonly encryptedName: string;
  readonly size: number;
  /** Offset from the first byte after the manifest. */
  readonly offset: number;
  readonly chunkCount: number;
  readonly fileId: Bytes | undefined;
  readonly isDir: boolean;
  readonly modified: string;
}

export interface Manifest2 {
  readonly created: string;
  readonly modified: string;
  readonly description: string | undefined;
  readonly rows: readonly ManifestRow[];
}

/** A file id is written as this many numbers. */
const FILE_ID_BYTES = 16;

/** An empty string and sixteen zeros: the associated data of names and manifest (docs/formats/aerovault2.md#names). */
export const SIV_COMPONENTS: readonly Bytes[] = [new Uint8Array(0), new Uint8Array(16)];

/** Undefined if the text was not sealed with this key. */
export function openText(key: AesSivKey, text: string): Bytes | undefined {
  const sealed = decodeBase64Url(text);
  return sealed === undefined ? undefined : key.open(sealed, SIV_COMPONENTS);
}

/** Characters that are decoded between two steps; four of them are three bytes. */
const PIECE_CHARACTERS = 1 << 16;

/** The same in steps. */
export function* openLongText(key: AesSivKey, text: string): Steps<Bytes | undefined> {
  const pieces: Bytes[] = [];
  for (let at = 0; at < text.length; at += PIECE_CHARACTERS) {
    const piece = decodeBase64Url(text.slice(at, at + PIECE_CHARACTERS));
    if (piece === undefined) return undefined;
    pieces.push(piece);
    yield FEW_STEPS;
  }
  return yield* key.opening(concatBytes(pieces), SIV_COMPONENTS);
}

/** Parses the manifest as strictly as the reference; skips unknown keys. */
export function* decodeManifest2(bytes: Bytes, at: Location): Steps<Manifest2> {
  const place = { source: at.source, offset: at.offset ?? 0, what: "AeroVault v2 manifest" };
  const scanner = new JsonScanner(decodeJsonText(bytes, place), place);
  scanner.skipSpace();
  const manifest = yield* readManifest(new FieldReader(scanner, "format/aerovault2.manifest"));
  scanner.expectEnd();
  return manifest;
}

function* readManifest(reader: FieldReader): Steps<Manifest2> {
  let created: string | undefined;
  let modified: string | undefined;
  let description: string | undefined;
  let rows: ManifestRow[] | undefined;
  yield* reader.longRecord((key) => {
    if (key === "created") created = reader.text();
    else if (key === "modified") modified = reader.text();
    else if (key === "description") description = reader.orNull(() => reader.text());
    else if (key === "entries") {
      const found: ManifestRow[] = [];
      rows = found;
      return reader.longList(() => void found.push(readRow(reader)));
    } else reader.scanner.skipValue();
    return undefined;
  });
  return {
    created: reader.need(created, "created"),
    modified: reader.need(modified, "modified"),
    description,
    rows: reader.need(rows, "entries"),
  };
}

function readRow(reader: FieldReader): ManifestRow {
  let encryptedName: string | undefined;
  let size: number | undefined;
  let offset: number | undefined;
  let chunkCount: number | undefined;
  let fileId: Bytes | undefined;
  let isDir = false;
  let modified: string | undefined;
  reader.record((key) => {
    if (key === "encrypted_name") encryptedName = reader.text();
    else if (key === "size") size = reader.whole();
    else if (key === "offset") offset = reader.whole();
    else if (key === "chunk_count") chunkCount = reader.atMost(0xffff_ffff);
    else if (key === "file_id") fileId = reader.orNull(() => readFileId(reader));
    else if (key === "is_dir") isDir = reader.flag();
    else if (key === "modified") modified = reader.text();
    else reader.scanner.skipValue();
  });
  return {
    encryptedName: reader.need(encryptedName, "encrypted_name"),
    size: reader.need(size, "size"),
    offset: reader.need(offset, "offset"),
    chunkCount: reader.need(chunkCount, "chunk_count"),
    fileId,
    isDir,
    modified: reader.need(modified, "modified"),
  };
}

function readFileId(reader: FieldReader): Bytes {
  const numbers: number[] = [];
  const start = reader.scanner.position;
  reader.list(() => {
    const byte = reader.atMost(0xff);
    // Surplus numbers are counted, not kept.
    if (numbers.length <= FILE_ID_BYTES) numbers.push(byte);
  });
  if (numbers.length !== FILE_ID_BYTES) {
    reader.scanner.position = start;
    throw reader.fault(`an array of ${FILE_ID_BYTES} numbers`);
  }
  return Uint8Array.from(numbers);
}
