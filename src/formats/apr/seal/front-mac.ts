import { encodeBase64 } from "../../../base/base64.ts";
import type { Bytes } from "../../../base/bytes.ts";
import { encodeUtf8 } from "../../../base/text.ts";
import { hkdfSha256, hmacSha256 } from "../../../primitives/crypto/hmac.ts";
import type { Engine } from "../../../primitives/engine.ts";
import { FILE_FLAGS, FLAGS_OFFSET } from "../spec/layout.ts";

const INFO = encodeUtf8("tare apr front matter v1");

/** What describes the tensors: the bytes that are in clear and must not be changed. */
export interface FrontBytes {
  readonly header: Bytes;
  readonly metadata: Bytes;
  readonly index: Bytes;
}

/** The key for the mac: derived, so that it is of no use for anything else. */
export function frontKey(engine: Engine, fileKey: Bytes, fileId: Bytes): Promise<Bytes> {
  return hkdfSha256(engine, fileKey, { salt: fileId, info: INFO, byteLength: 32 });
}

/**
 * HMAC-SHA-256 over header, metadata and index as they lie in the file, but for two places: the flag SIGNED counts as
 * clear, since a file is signed after it was encrypted, and the text of the mac itself as that of zeros. Undefined where
 * that text is not there exactly once.
 */
export async function frontMac(
  engine: Engine,
  key: Bytes,
  { header, metadata, index }: FrontBytes,
  mac: Bytes,
): Promise<Bytes | undefined> {
  const blank = blankMac(metadata, mac);
  return blank === undefined ? undefined : hmacSha256(engine, key, [withoutSigned(header), blank, index]);
}

function withoutSigned(header: Bytes): Bytes {
  const copy = header.slice();
  const view = new DataView(copy.buffer);
  const signed = Number(FILE_FLAGS.encode(["SIGNED"]));
  view.setUint32(FLAGS_OFFSET, view.getUint32(FLAGS_OFFSET, true) & ~signed, true);
  return copy;
}

function blankMac(metadata: Bytes, mac: Bytes): Bytes | undefined {
  const field = (value: Bytes): Bytes => encodeUtf8(`"mac":"${encodeBase64(value)}"`);
  const wanted = field(mac);
  const at = find(metadata, wanted, 0);
  if (at < 0 || find(metadata, wanted, at + 1) >= 0) return undefined;
  const copy = metadata.slice();
  copy.set(field(new Uint8Array(mac.byteLength)), at);
  return copy;
}

function find(bytes: Bytes, wanted: Bytes, from: number): number {
  const first = wanted[0] as number;
  for (let at = bytes.indexOf(first, from); at >= 0; at = bytes.indexOf(first, at + 1)) {
    if (at + wanted.byteLength > bytes.byteLength) return -1;
    if (wanted.every((byte, i) => bytes[at + i] === byte)) return at;
  }
  return -1;
}
