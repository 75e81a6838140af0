import { type Bytes, concatBytes, equalBytes } from "../../../base/bytes.ts";
import { IntegrityError, type Location } from "../../../base/errors.ts";
import { encodeHex, encodeUtf8 } from "../../../base/text.ts";
import type { Finding } from "../../../model/finding.ts";
import type { ReadableBytes } from "../../../model/parity/avec.ts";
import type { Engine } from "../../../primitives/engine.ts";
import { encodeManifest } from "./codec.ts";
import { compareWithParity } from "./parity.ts";
import { CHECKSUM_KEY, type Manifest } from "./records.ts";

/**
 * In the plaintext lane, the format does not protect the manifest: a size that lost a digit would be accepted. Vaults
 * that tare writes have a BLAKE3 of the manifest in a separate key, over the text with the digits of the hash as zeros.
 * Any vault with parity has checksums of the manifest's shards. Both are compared here.
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

/** Refuses a manifest that is provably not the one that was written; returns a note if nothing can prove it. */
export async function checkPlainManifest(
  engine: Engine,
  { blob, manifest }: { readonly blob: Bytes; readonly manifest: Manifest },
  parity: ReadableBytes | undefined,
  at: Location,
): Promise<Finding[]> {
  if (manifest.checksum !== undefined) {
    await checkChecksum(engine, blob, manifest.checksum, at);
    return [];
  }
  const verdict = parity === undefined ? "unknown" : await compareWithParity(engine, blob, parity);
  if (typeof verdict === "number") {
    const place = { ...at, offset: (at.offset ?? 0) + verdict };
    throw wrongManifest("its parity must have the checksums of its bytes, and has not", place);
  }
  if (verdict === "agrees" || manifest.entries.length === 0) return [];
  const message = "Nothing proves the manifest: names, sizes and places in packs are believed as they are";
  return [{ severity: "note", code: "integrity/aerovault.unproven", message, at }];
}

async function checkChecksum(engine: Engine, blob: Bytes, checksum: string, at: Location): Promise<void> {
  const start = blob.byteLength - TAIL.byteLength - DIGITS;
  const copy = blob.slice();
  const isAtEnd = start > 0 && equalBytes(blob.subarray(start), encodeUtf8(`${checksum}"}`));
  if (isAtEnd) copy.fill(0x30, start, start + DIGITS);
  const hash = isAtEnd ? encodeHex(await engine.digest("blake3", copy)) : "another place for it";
  if (hash !== checksum) throw wrongManifest(`it must have the BLAKE3 ${checksum}, found ${hash}`, at);
}

function wrongManifest(problem: string, at: Location): IntegrityError {
  const message = `Cannot trust the manifest of the vault: ${problem}`;
  const hint = "Some of it was damaged or changed; get another copy of the vault";
  return new IntegrityError("integrity/aerovault.manifest", message, at, { hint });
}
