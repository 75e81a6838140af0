import type { Bytes } from "../../../base/bytes.ts";
import { FormatError, UnsupportedError } from "../../../base/errors.ts";
import { checkLimit } from "../../../base/limits.ts";
import { encodeHex } from "../../../base/text.ts";
import type { Extent } from "../../../bytes/extents.ts";
import type { Source } from "../../../bytes/source.ts";
import type { OpenContext, Section } from "../../../model/format.ts";
import { arrayValue, Metadata, type MetadataEntry, type MetadataValue, stringValue } from "../../../model/metadata.ts";
import { decodeMsgpack, type MsgpackValue } from "../../../primitives/encoding/msgpack-value.ts";
import { wildLimits } from "../limits.ts";
import { AprModel } from "../model.ts";
import { APRN_FLAGS, type AprnHeader, aprnHeader, CRC_BYTES } from "./layout.ts";
import { Tolerated, WildDetails, type WildFacts } from "./layout-facts.ts";
import { readRegion, unpack } from "./regions.ts";

/** The Rust struct in the payload, by `model_type`. */
const MODEL_TYPES: ReadonlyMap<number, string> = new Map([
  [0x01, "linear regression"],
  [0x02, "logistic regression"],
  [0x03, "decision tree"],
  [0x04, "random forest"],
  [0x05, "gradient boosting"],
  [0x06, "k-means"],
  [0x07, "pca"],
  [0x08, "naive bayes"],
  [0x09, "k nearest neighbours"],
  [0x0a, "svm"],
  [0x10, "n-gram language model"],
  [0x11, "tf-idf"],
  [0x12, "count vectoriser"],
  [0x20, "sequential neural network"],
  [0x21, "custom neural network"],
  [0x30, "recommender"],
  [0x40, "mixture of experts"],
  [0xff, "custom"],
]);

/** By `compression`. */
const COMPRESSIONS = ["none", "zstd", "zstd", "lz4"] as const;

/** Signature (64) and public key (32), after the payload of a signed file. */
const SIGNATURE_BYTES = 96;

/** Where the payload is; `readAprnPayload` unpacks it. */
class AprnDetails extends WildDetails {
  readonly header: AprnHeader;
  readonly payload: Extent;

  constructor(facts: WildFacts, header: AprnHeader, payload: Extent) {
    super(facts);
    this.header = header;
    this.payload = payload;
  }
}

/**
 * Opens header and metadata of an APRN container. The payload is a Rust struct in bincode, whose schema is not in the
 * file, so there are no tensors to show.
 */
export async function openAprn(source: Source, _opening: Bytes, context: OpenContext): Promise<AprModel> {
  const tolerated = new Tolerated();
  const { signal } = context;
  const label = source.label;
  const start = aprnHeader.byteLength;
  const head = await readRegion(source, { offset: 0, byteLength: start, path: "header" }, signal);
  const header = aprnHeader.decode(head, { source: label, offset: 0, path: "header" }, { code: "format/apr.header" });
  if (header.versionMajor !== 1) {
    const message = `Cannot read APRN: version_major must be 1, found ${header.versionMajor}`;
    throw new UnsupportedError("unsupported/apr.version", message, { source: label, offset: 4, path: "version_major" });
  }
  const limits = wildLimits(context.limits);
  const at = { source: label, offset: start, path: "metadata_size" };
  checkLimit(header.metadataSize, limits.metadataBytes, "APR metadata bytes", "limit/apr.metadata-bytes", at);
  const region = { offset: start, byteLength: header.metadataSize, path: "metadata_size" };
  const bytes = await readRegion(source, region, signal);
  const metadata = decodeAprnMetadata(bytes, { source: label, offset: start, maxValues: limits.metadataValues });
  const payload = { offset: start + header.metadataSize, byteLength: header.payloadSize };
  const end = findEnd(source, header, { payload, tolerated });
  tellPayload(label, payload, tolerated);
  tolerated.lose("header", "what it says of model and quality has no place elsewhere");
  return new AprModel({
    layout: "aprn",
    version: `${header.versionMajor}.${header.versionMinor}`,
    parts: [{ label, byteLength: source.byteLength, source }],
    metadata,
    tensors: [],
    warnings: tolerated.warnings,
    unread: tolerated.losses,
    facts: factsOf(header),
    details: new AprnDetails(
      {
        image: source,
        sections: sectionsOf(header, payload, end),
        checksum: { offset: end, path: "crc32", certainty: "present" },
        faults: tolerated.faults,
      },
      header,
      payload,
    ),
  });
}

/** The unpacked payload. Refuses encrypted ones: nothing in the file says how they were made. */
export async function readAprnPayload(model: AprModel, context: OpenContext): Promise<Bytes> {
  const { header, payload, image } = model.details as AprnDetails;
  const at = { source: image.label, offset: payload.offset, path: "payload" };
  if (APRN_FLAGS.has(header.flags, "ENCRYPTED")) {
    const message = "Cannot unpack the APRN payload: it is encrypted";
    throw new UnsupportedError("unsupported/apr.aprn-encrypted", message, at, {
      hint: "Decrypt it with aprender, which made it",
    });
  }
  const limits = wildLimits(context.limits);
  checkLimit(payload.byteLength, limits.unpackedBytes, "APRN payload bytes", "limit/apr.unpacked-bytes", at);
  const bytes = await image.read(payload.offset, payload.byteLength, { signal: context.signal });
  const compression = COMPRESSIONS[header.compression];
  if (compression === "none") return bytes;
  if (compression === undefined) {
    const message = `Cannot unpack the APRN payload: compression must be 0 to 3, found ${header.compression}`;
    throw new FormatError("format/apr.packed", message, { ...at, offset: 20, path: "compression" });
  }
  return unpack(bytes, { compression, at, unpackedSize: header.unpackedSize }, { engine: context.engine, limits });
}

/** What the header says besides lengths, for a file that keeps the payload as bytes. */
export function aprnHeaderEntries(model: AprModel): readonly MetadataEntry[] {
  const { versionMajor, versionMinor, modelType, flags, quality, reserved } = (model.details as AprnDetails).header;
  const number = (key: string, value: number): MetadataEntry => ({ key, value: { type: "u32", value } });
  return [
    { key: "version", value: stringValue(`${versionMajor}.${versionMinor}`) },
    ...[number("model_type", modelType), number("flags", flags), number("quality", quality)],
    ...(reserved.some((byte) => byte !== 0) ? [{ key: "reserved", value: stringValue(encodeHex(reserved)) }] : []),
  ];
}

/** A user who converts the file must know that nothing of the model itself is kept. */
function tellPayload(source: string, { offset, byteLength }: Extent, tolerated: Tolerated): void {
  if (byteLength === 0) return;
  const message = `The payload of ${byteLength} bytes is a structure of aprender's: it is not read as tensors`;
  const hint = "Keep it as bytes: tare upgrade, with the option wrap";
  tolerated.lose("payload", "a structure of aprender's, which is not read as tensors");
  tolerated.warn("format/apr.aprn-payload", message, { source, offset, path: "payload" }, { hint });
}

interface Ending {
  readonly payload: Extent;
  readonly tolerated: Tolerated;
}

/** The offset where the checksum must be: after the payload and, if present, the signature. */
function findEnd(source: Source, header: AprnHeader, { payload, tolerated }: Ending): number {
  const signed = APRN_FLAGS.has(header.flags, "SIGNED") ? SIGNATURE_BYTES : 0;
  const end = payload.offset + payload.byteLength + signed;
  const at = { source: source.label, offset: Math.min(end, source.byteLength), path: "crc32" };
  if (end + CRC_BYTES > source.byteLength) {
    const message = `Cannot read APRN: the file must have ${end + CRC_BYTES} bytes, found ${source.byteLength}`;
    throw new FormatError("format/apr.truncated", message, at);
  }
  const trailing = source.byteLength - end - CRC_BYTES;
  if (trailing > 0) tolerated.fault("format/apr.trailing-bytes", `${trailing} bytes follow the checksum`, at);
  return end;
}

function decodeAprnMetadata(
  bytes: Bytes,
  place: { readonly source: string; readonly offset: number; readonly maxValues: number },
): Metadata {
  const { source, offset: base, maxValues } = place;
  const value = decodeMsgpack(bytes, { source, base, what: "APRN metadata", maxValues });
  if (value.type === "map") return new Metadata(entriesOf(value.entries));
  const message = `Cannot read APRN metadata: must be a map, found ${value.type}`;
  throw new FormatError("format/apr.metadata", message, { source, offset: base, path: "metadata" });
}

function entriesOf(entries: readonly (readonly [string, MsgpackValue])[]): MetadataEntry[] {
  return entries.map(([key, value]) => ({ key, value: metadataValue(value) }));
}

function metadataValue(value: MsgpackValue): MetadataValue {
  switch (value.type) {
    case "nil":
      return { type: "null" };
    case "bool":
    case "string":
      return value;
    case "integer":
      return { type: value.value < 0 ? "i64" : "u64", value: value.value };
    case "float":
      return { type: "f64", value: value.value };
    case "bin":
    case "ext":
      return { type: "bytes", value: value.value.slice() };
    case "array":
      return arrayValue(value.items.map(metadataValue));
    case "map":
      return { type: "map", entries: entriesOf(value.entries) };
  }
}

function factsOf(header: AprnHeader): (readonly [string, string])[] {
  const { modelType, compression, quality, flags, payloadSize, unpackedSize } = header;
  const facts: (readonly [string, string])[] = [
    ["model", MODEL_TYPES.get(modelType) ?? `type ${modelType}`],
    ["payload", `${payloadSize} bytes, ${unpackedSize} unpacked (${COMPRESSIONS[compression] ?? compression})`],
  ];
  if (quality > 0) facts.push(["quality", `${quality} of 100`]);
  const names = APRN_FLAGS.decode(flags);
  if (names.length > 0) facts.push(["flags", names.join(", ")]);
  return facts;
}

function sectionsOf(header: AprnHeader, payload: Extent, end: number): Section[] {
  const start = aprnHeader.byteLength;
  const signature = payload.offset + payload.byteLength;
  const sections: Section[] = [
    { name: "header", kind: "header", part: 0, offset: 0, byteLength: start },
    { name: "metadata", kind: "metadata", part: 0, offset: start, byteLength: header.metadataSize },
    { name: "payload", kind: "data", part: 0, ...payload },
    { name: "signature", kind: "integrity", part: 0, offset: signature, byteLength: end - signature },
    { name: "crc32", kind: "integrity", part: 0, offset: end, byteLength: CRC_BYTES },
  ];
  return sections.filter(({ byteLength }) => byteLength > 0);
}
