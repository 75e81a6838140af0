import { type Bytes, concatBytes } from "../../../base/bytes.ts";
import { UsageError } from "../../../base/errors.ts";
import { encodeUtf8 } from "../../../base/text.ts";
import type { Sink } from "../../../bytes/sink.ts";
import type { Container } from "../../../model/archive.ts";
import type { FormatSigning, Sign, SigningContext, StoredSignature } from "../../../model/capabilities.ts";
import { ED25519_SIGNATURE_BYTES } from "../../../primitives/crypto/ed25519.ts";
import { RangeHasher } from "../../../primitives/ranges.ts";
import { AprModel, type SpecDetails, specDetails } from "../model.ts";
import { crcError, decodeFooter, encodeFooter } from "../spec/header.ts";
import { FILE_FLAGS, FLAGS_OFFSET, fileFooter, fileHeader, SIGNATURE_BYTES } from "../spec/layout.ts";

/** Comes before the digest that is signed, so that the signature fits no other kind of file. */
const CONTEXT = encodeUtf8("tare apr signature v1\0");

/** Signatures inside APR files of the specification's layout: 96 bytes before the footer, with the flag SIGNED. */
export const aprSigning: FormatSigning = {
  place(container) {
    const details = ownDetails(container);
    // The manifest has a shard's length and CRC, which a signature inside would change.
    return details === undefined || FILE_FLAGS.has(details.header.flags, "SHARDED") ? "beside" : "inside";
  },
  async read(container, context) {
    const details = ownDetails(container);
    return details?.signing === "signed" ? readSignature(details, context) : undefined;
  },
  async write(container, sink, context) {
    const details = ownDetails(container);
    if (details === undefined) throw noRoom(container);
    await writeSigned(details, sink, context);
  },
};

function ownDetails(container: Container): SpecDetails | undefined {
  return container instanceof AprModel && container.layout === "spec" ? specDetails(container) : undefined;
}

/** The signed message: a fixed text, a NUL, and the SHA-512 of every byte before the block. */
function messageOf(digest: Bytes): Bytes {
  return concatBytes([CONTEXT, digest]);
}

async function readSignature(
  { source, dataEnd }: SpecDetails,
  { engine, signal, onProgress }: SigningContext,
): Promise<StoredSignature> {
  const block = (await source.read(dataEnd, SIGNATURE_BYTES, { signal })).slice();
  const range = { offset: 0, byteLength: dataEnd, signal, onProgress };
  const digest = await new RangeHasher().run(await engine.hasher("sha512"), source, range);
  return {
    signature: block.slice(0, ED25519_SIGNATURE_BYTES),
    publicKey: block.slice(ED25519_SIGNATURE_BYTES),
    message: messageOf(digest),
    at: { source: source.label, offset: dataEnd, path: "signature" },
  };
}

/** Copies the file with the flag set, then the block and a new footer. Does not sign a damaged file. */
async function writeSigned(
  details: SpecDetails,
  sink: Sink,
  { engine, signal, onProgress, sign }: SigningContext & { readonly sign: Sign },
): Promise<void> {
  const { source, dataEnd } = details;
  const hasher = await engine.hasher("sha512");
  const old = await source.read(0, fileHeader.byteLength, { signal });
  const header = withFlag(old);
  let before = await engine.crc32(old);
  let after = await engine.crc32(header);
  hasher.update(header);
  await sink.append(header);
  const rest = { byteLength: dataEnd - header.byteLength, signal };
  for await (const piece of source.stream(header.byteLength, rest)) {
    before = await engine.crc32(piece, before);
    after = await engine.crc32(piece, after);
    hasher.update(piece);
    await sink.append(piece);
    onProgress?.(piece.byteLength);
  }
  await checkIntact(details, before, { engine, signal });
  const { signature, publicKey } = await sign(messageOf(hasher.digest()));
  const block = concatBytes([signature, publicKey]);
  await sink.append(block);
  const byteLength = dataEnd + SIGNATURE_BYTES + fileFooter.byteLength;
  await sink.append(encodeFooter(await engine.crc32(block, after), byteLength));
}

/** The header with SIGNED set, and every other byte unchanged. */
function withFlag(header: Bytes): Bytes {
  const copy = header.slice();
  const view = new DataView(copy.buffer);
  view.setUint32(FLAGS_OFFSET, view.getUint32(FLAGS_OFFSET, true) | Number(FILE_FLAGS.encode(["SIGNED"])), true);
  return copy;
}

async function checkIntact(
  { source, dataEnd }: SpecDetails,
  crc: number,
  { engine, signal }: SigningContext,
): Promise<void> {
  const tail = await source.read(dataEnd, source.byteLength - dataEnd, { signal });
  const end = tail.byteLength - fileFooter.byteLength;
  const found = await engine.crc32(tail.subarray(0, end), crc);
  const footer = decodeFooter(tail.subarray(end), source.byteLength, source.label);
  if (footer.problem !== undefined) throw footer.problem;
  if (footer.crc32 !== found) throw crcError(footer.crc32, found, source.label, source.byteLength);
}

function noRoom(container: Container): UsageError {
  const message = "Cannot sign inside this file: only the specification's layout of APR has room for it";
  return new UsageError("usage/apr.container", message, { source: container.parts[0]?.label ?? container.format });
}
