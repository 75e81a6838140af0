import type { Bytes } from "../../../base/bytes.ts";
import { FormatError } from "../../../base/errors.ts";
import { MsgpackReader } from "../../../primitives/encoding/msgpack-reader.ts";
import { HASH_BYTES } from "../layout.ts";
import type { ContentPlace } from "./tidx.ts";

/** What a PHSH chunk says (AIP-0002), checked against the shard it belongs to. */
export interface PageHashes {
  readonly shardName: string | undefined;
  readonly pageBytes: number;
  readonly pageCount: number;
  /** The digests one after the other. */
  readonly digests: Bytes;
}

/** `shardBytes` is the length of the shard: the pages must cover exactly that. */
export function decodePhsh(content: Bytes, place: ContentPlace, shardBytes: number): PageHashes {
  const where = { source: place.label, base: place.offset, what: "AERO PHSH", path: "phsh" };
  const reader = new MsgpackReader(content, where);
  const fault = (problem: string): FormatError =>
    new FormatError("format/aero.phsh", `Cannot read AERO PHSH: ${problem}`, reader.at());
  let shardName: string | undefined;
  let pageBytes = 0;
  let digests: Bytes | undefined;
  for (let left = reader.readMapHeader(); left > 0; left--) {
    const key = reader.readKey();
    if (key === "shard_name") shardName = reader.readString(key);
    else if (key === "page_size") pageBytes = reader.readUint(key);
    else if (key === "digests") digests = readDigests(reader, fault);
    else reader.skip(key);
  }
  reader.checkEnd();
  if (pageBytes === 0) throw fault("page_size must be at least 1, found 0");
  if (digests === undefined) throw fault("must have digests");
  const pageCount = digests.byteLength / HASH_BYTES;
  const wanted = Math.ceil(shardBytes / pageBytes);
  if (pageCount !== wanted) {
    throw fault(`a shard of ${shardBytes} bytes must have ${wanted} pages of ${pageBytes}, found ${pageCount} digests`);
  }
  return { shardName, pageBytes, pageCount, digests };
}

function readDigests(reader: MsgpackReader, fault: (problem: string) => FormatError): Bytes {
  const count = reader.readArrayHeader("digests");
  // Each takes at least two bytes of head and its 32: refused before room is made for them.
  if (count > reader.remaining / (2 + HASH_BYTES)) throw fault(`${count} digests cannot follow`);
  const digests = new Uint8Array(count * HASH_BYTES);
  for (let i = 0; i < count; i++) {
    const digest = reader.readBin("digests");
    if (digest.byteLength !== HASH_BYTES) {
      throw fault(`digests[${i}] must have ${HASH_BYTES} bytes, found ${digest.byteLength}`);
    }
    digests.set(digest, i * HASH_BYTES);
  }
  return digests;
}
