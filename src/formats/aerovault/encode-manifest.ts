import type { Bytes } from "../../base/bytes.ts";
import { encodeUtf8 } from "../../base/text.ts";
import type { ExtraKeys } from "./field-reader.ts";
import {
  type ChunkRecord,
  MANIFEST_FORMAT,
  type Manifest,
  type ManifestEntry,
  WRAPPER_NAMES,
  type WrapperRecord,
} from "./manifest.ts";
import { comparePaths } from "./paths.ts";

/**
 * The manifest as the reference writes it, byte for byte: compact, keys in their order, entries sorted by the UTF-8 bytes of
 * their paths, chunks by id. Keys of ours and unknown ones come after those that the reference knows.
 */
export function encodeManifest(manifest: Manifest): Bytes {
  const { created, modified, wrappers, entries, chunks, errorCorrectionPct, generation, extra } = manifest;
  const layers = WRAPPER_NAMES.map((name) => `"${name}":${wrapperText(wrappers[name])}`).join(",");
  const sorted = [...entries.records()].sort((a, b) => comparePaths(a.path, b.path));
  const ids = [...chunks.keys()].sort(); // hex digits: UTF-16 order is byte order
  const text = [
    `{"format":${MANIFEST_FORMAT},"created":${JSON.stringify(created)},"modified":${JSON.stringify(modified)},`,
    `"wrappers":{${layers}${extraText(wrappers.extra)}},`,
    `"entries":[${sorted.map(entryText).join(",")}],`,
    `"chunks":{${ids.map((id) => `${JSON.stringify(id)}:${chunkText(chunks.get(id) as ChunkRecord)}`).join(",")}}`,
    errorCorrectionPct === undefined ? "" : `,"error_correction_pct":${errorCorrectionPct}`,
    generation === undefined ? "" : `,"generation":${generation}`,
    `${extraText(extra)}}`,
  ];
  return encodeUtf8(text.join(""));
}

function wrapperText({ algorithmId, algorithmVersion, level, bounds, extra }: WrapperRecord): string {
  const levelText = level === undefined ? "" : `,"level":${level}`;
  const boundsText =
    bounds === undefined ? "" : `,"bounds":{"min":${bounds.min},"avg":${bounds.avg},"max":${bounds.max}}`;
  const id = JSON.stringify(algorithmId);
  return `{"algorithm_id":${id},"algorithm_version":${algorithmVersion}${levelText}${boundsText}${extraText(extra)}}`;
}

function entryText(entry: ManifestEntry): string {
  const { path, size, modified, isDir, chunks, packOffset, mtime, mode, extra } = entry;
  const ids = chunks.length === 0 ? "" : `"${chunks.join('","')}"`;
  const pack = packOffset === undefined ? "" : `,"pack_offset":${packOffset}`;
  const time = mtime === undefined ? "" : `,"mtime":${JSON.stringify(mtime)}`;
  const bits = mode === undefined ? "" : `,"mode":${mode}`;
  return `{"path":${JSON.stringify(path)},"size":${size},"modified":${JSON.stringify(modified)},"is_dir":${isDir},"chunks":[${ids}]${pack}${time}${bits}${extraText(extra)}}`;
}

function chunkText(record: ChunkRecord): string {
  const { id, blockIndex, dataOffset, blockLen, plaintextLen, compressedLen, cipherHash, storedRaw, extra } = record;
  const raw = storedRaw ? ',"stored_raw":true' : "";
  return `{"id":"${id}","block_index":${blockIndex},"data_offset":${dataOffset},"block_len":${blockLen},"plaintext_len":${plaintextLen},"compressed_len":${compressedLen},"cipher_hash":"${cipherHash}"${raw}${extraText(extra)}}`;
}

function extraText(extra: ExtraKeys): string {
  let text = "";
  for (const [key, value] of extra) text += `,${JSON.stringify(key)}:${value}`;
  return text;
}
