import { type Bytes, concatBytes, equalBytes } from "../../base/bytes.ts";
import { IntegrityError, type Location } from "../../base/errors.ts";
import { encodeHex } from "../../base/hex.ts";
import { encodeUtf8 } from "../../base/text.ts";
import type { Source } from "../../bytes/source.ts";
import type { Finding } from "../../model/finding.ts";
import type { Engine } from "../../primitives/engine.ts";
import { encodeManifest } from "./encode-manifest.ts";
import { type ExtensionRow, MANIFEST_PARITY } from "./extensions.ts";
import type { StoredHeader } from "./header.ts";
import { CHECKSUM_KEY, type Manifest } from "./manifest.ts";
import { findDamagedShard } from "./parity-checksums.ts";

/**
 * In the plaintext lane nothing of the format protects the manifest: a size that lost a digit would be believed. Vaults that
 * tare writes carry a BLAKE3 of the manifest in a key of their own, over the text with the digits of the hash as zeros; any
 * vault with parity has checksums of the manifest's shards. Both are compared here.
 */

const DIGITS = 64;
const TAIL = encodeUtf8('"}');

/** The manifest with its own checksum as the last key. */
export async function encodeCheckedManifest(engine: Engine, manifest: Manifest): Promise<Bytes> {
  const text = encodeManifest(manifest);
  const key = encodeUtf8(`,"${CHECKSUM_KEY}":"${"0".repeat(DIGITS)}`);
  const bytes = concatBytes([text.subarray(0, -1), key, TAIL]);
  const hash = encodeUtf8(encodeHex(await engine.digest("blake3", bytes)));
  bytes.set(hash, bytes.byteLength - TAIL.byteLength - DIGITS);
  return bytes;
}

/** What is known of a vault when its manifest is judged. */
export interface PlainVault {
  readonly source: Source;
  readonly header: StoredHeader;
  readonly extensions: readonly ExtensionRow[];
}

/** Refuses a manifest that is provably not the one that was written; says so where nothing can prove it. */
export async function checkPlainManifest(
  { source, header, extensions }: PlainVault,
  { blob, manifest }: { readonly blob: Bytes; readonly manifest: Manifest },
  { engine, signal }: { readonly engine: Engine; readonly signal?: AbortSignal | undefined },
): Promise<Finding[]> {
  const at = { source: source.label, offset: header.values.manifestOffset };
  if (manifest.checksum !== undefined) await checkChecksum(engine, blob, manifest.checksum, at);
  const row = extensions.find(({ extensionId }) => extensionId === MANIFEST_PARITY);
  const payload = row === undefined ? undefined : await readPayload(source, header, row, signal);
  const damaged = payload === undefined ? "unknown" : await findDamagedShard(engine, blob, payload);
  if (typeof damaged === "number") {
    const place = { ...at, offset: at.offset + damaged };
    throw wrongManifest("its parity must have the checksums of its bytes, and has not", place);
  }
  if (manifest.checksum !== undefined || damaged === "none" || manifest.entries.length === 0) return [];
  const message = "Nothing proves the manifest: names, sizes and places in packs are believed as they are";
  return [{ severity: "note", code: "integrity/aerovault.unproven", message, at }];
}

async function checkChecksum(engine: Engine, blob: Bytes, checksum: string, at: Location): Promise<void> {
  const start = blob.byteLength - TAIL.byteLength - DIGITS;
  const copy = blob.slice();
  const stands = start > 0 && equalBytes(blob.subarray(start), encodeUtf8(`${checksum}"}`));
  if (stands) copy.fill(0x30, start, start + DIGITS);
  const hash = stands ? encodeHex(await engine.digest("blake3", copy)) : "another place for it";
  if (hash !== checksum) throw wrongManifest(`it must have the BLAKE3 ${checksum}, found ${hash}`, at);
}

function readPayload(
  source: Source,
  { values }: StoredHeader,
  { offset, length }: ExtensionRow,
  signal: AbortSignal | undefined,
): Promise<Bytes> {
  return source.read(values.extensionPayloadOffset + offset, length, { signal });
}

function wrongManifest(problem: string, at: Location): IntegrityError {
  const message = `Cannot trust the manifest of the vault: ${problem}`;
  const hint = "Some of it was damaged or changed; get another copy of the vault";
  return new IntegrityError("integrity/aerovault.manifest", message, at, { hint });
}
