import type { Bytes } from "../../../base/bytes.ts";
import { FormatError, isTareError, type TareError, UnsupportedError } from "../../../base/errors.ts";
import { printable } from "../../../base/text.ts";
import { Turns } from "../../../base/turns.ts";
import { failingSource } from "../../../bytes/derived.ts";
import type { Extent } from "../../../bytes/extents.ts";
import { sliceSource } from "../../../bytes/slice.ts";
import type { Source } from "../../../bytes/source.ts";
import type { Loss } from "../../../model/finding.ts";
import { type Finding, findingFromError } from "../../../model/finding.ts";
import type { OpenContext } from "../../../model/format.ts";
import { Metadata } from "../../../model/metadata.ts";
import { MAX_CARRIED_TEXT } from "../../../model/origin/origin.ts";
import { Tensor, type TensorReader } from "../../../model/tensor.ts";
import type { Engine } from "../../../primitives/engine.ts";
import { aprLimits } from "../limits.ts";
import { decodeMetadata, shadowedLosses } from "../metadata.ts";
import { AprModel, type SpecDetails, specDetails } from "../model.ts";
import { BlockSource, BlockTable } from "./blocks.ts";
import { crcError, decodeFooter, type FileChecksums, readFront } from "./header.ts";
import { FILE_FLAGS, fileFooter, VERSION } from "./layout.ts";
import { lintOnOpen } from "./lint.ts";
import { decodeIndex, placeEntries, type SpecEntry } from "./tensors.ts";

/** Opens a file of the specification's layout, encrypted or not. Needs no password: only reading tensors needs one. */
export async function openSealable(source: Source, opening: Bytes, context: OpenContext): Promise<AprModel> {
  const loadUnseal = async (): Promise<Unseal> => (await import("../seal/read.ts")).unsealer(source, opening, context);
  const model = await openSpec(source, opening, context, { loadUnseal });
  if (!isSealed(model)) return model;
  const details = specDetails(model);
  const open = details.entries.find(({ sealing, size }) => sealing === "plain" && size > 0);
  if (open !== undefined && model.metadata.get(ENCRYPTION_KEY) !== undefined) {
    // Otherwise an attacker without the password could add a plain tensor to the encrypted ones.
    const message = `Cannot read APR: every tensor of an encrypted file must be encrypted, found "${printable(open.name)}" in clear`;
    throw new FormatError("format/apr.unsealed-tensor", message, { source: source.label, offset: open.at });
  }
  const { layout, version, parts, metadata, tensors, warnings, unread, facts } = model;
  const told = [...facts.slice(1), ["encryption", "AES-256-GCM, Argon2id"] as const];
  return new AprModel({
    ...{ layout, version, parts, tensors, warnings, unread, details },
    // How the file is encrypted is not part of the model: a converted file must not say that it is encrypted.
    metadata: metadata.without(ENCRYPTION_KEY),
    facts: told,
  });
}

/** True if the header says that tensors are encrypted. */
export function isSealed(model: AprModel): boolean {
  return model.layout === "spec" && FILE_FLAGS.has(specDetails(model).header.flags, "ENCRYPTED");
}

/** The decrypted bytes of a tensor, which may still be compressed. Throws if decryption is refused. */
export type Unseal = (entry: SpecEntry, stored: Source) => Source;

interface OpenSpecOptions {
  /** Label of the file in a set; tensors name it as theirs. */
  readonly file?: string | undefined;
  /** Loads what opens encrypted tensors, if there are any. Without it only their bytes are refused. */
  readonly loadUnseal?: (() => Promise<Unseal>) | undefined;
}

/** Opens a file of the specification's layout. Reads no tensor data. */
export async function openSpec(
  source: Source,
  opening: Bytes,
  context: OpenContext,
  options: OpenSpecOptions = {},
): Promise<AprModel> {
  const limits = aprLimits(context.limits);
  const front = await readFront(source, opening, { limits, signal: context.signal });
  const { header, dataEnd } = front;
  const { label } = source;
  const metadata = decodeMetadata(front.metadata, {
    source: label,
    offset: header.metadataOffset,
    maxValues: limits.metadataValues,
  });
  const indexPlace = { source: label, offset: header.indexOffset, limits };
  const index = await decodeIndex(front.index, indexPlace, new Turns(context.signal));
  const places = placeEntries(index.entries, header.dataOffset, dataEnd, label);
  const signing = FILE_FLAGS.has(header.flags, "SIGNED") ? "signed" : "unsigned";
  const { checksums, warnings } = await lookAtFooter(source, opening, context);
  const details: SpecDetails = {
    source,
    header,
    metadata,
    index: { reserved: index.reserved, byteLength: index.byteLength },
    entries: index.entries,
    places,
    signing,
    dataEnd,
    checksums,
  };
  const isSealed = index.entries.some(({ sealing }) => sealing !== "plain");
  const unseal = isSealed ? await options.loadUnseal?.() : undefined;
  return new AprModel({
    layout: "spec",
    version: `${VERSION.major}.${header.versionMinor}`,
    parts: [{ label: options.file ?? label, byteLength: source.byteLength, source }],
    metadata: new Metadata(metadata.entries),
    tensors: specTensors(details, new SpecReader(details, context.engine, unseal), options.file),
    warnings: [...index.warnings, ...lintOnOpen(details), ...warnings],
    unread: unkeptKeys(details),
    facts: specFacts(details),
    details,
  });
}

/** Reports a bad footer on opening if that is free: a small file is in memory whole, and a local file's end is near. */
async function lookAtFooter(source: Source, opening: Bytes, context: OpenContext): Promise<FooterLook> {
  const isWhole = opening.byteLength === source.byteLength;
  if (!isWhole && source.descriptor === undefined) return { warnings: [] };
  const end = source.byteLength - fileFooter.byteLength;
  const bytes = isWhole
    ? opening.subarray(end)
    : await source.read(end, fileFooter.byteLength, { signal: context.signal });
  const footer = decodeFooter(bytes, source.byteLength, source.label);
  if (footer.problem !== undefined) return { warnings: [findingFromError(footer.problem, "warning")] };
  const found = isWhole ? await context.engine.crc32(opening.subarray(0, end)) : footer.crc32;
  if (found !== footer.crc32) {
    return { warnings: [findingFromError(crcError(footer.crc32, found, source.label, source.byteLength), "warning")] };
  }
  return { checksums: { crc: found, fileCrc: await context.engine.crc32(bytes, found) }, warnings: [] };
}

interface FooterLook {
  readonly checksums?: FileChecksums;
  readonly warnings: readonly Finding[];
}

function specTensors(details: SpecDetails, reader: TensorReader, file: string | undefined): Tensor[] {
  return details.entries.map(({ name, dtype, shape, byteLength }, i) => {
    const { offset, byteLength: storedByteLength } = details.places[i] as Extent;
    return new Tensor({ name, dtype, shape, byteLength, offset, storedByteLength, file }, reader);
  });
}

/** Hands out the bytes of every tensor of a file, decrypted and decompressed. */
class SpecReader implements TensorReader {
  readonly #details: SpecDetails;
  readonly #engine: Engine;
  readonly #unseal: Unseal | undefined;
  readonly #tables = new Map<string, BlockTable>();
  #entries: ReadonlyMap<string, SpecEntry> | undefined;

  constructor(details: SpecDetails, engine: Engine, unseal: Unseal | undefined) {
    this.#details = details;
    this.#engine = engine;
    this.#unseal = unseal;
  }

  source({ name, byteLength, offset }: Tensor): Source {
    this.#entries ??= new Map(this.#details.entries.map((entry) => [entry.name, entry]));
    const entry = this.#entries.get(name) as SpecEntry;
    const { source } = this.#details;
    const stored = storedSource(source, entry, { offset, unseal: this.#unseal });
    if (!isSource(stored)) return failingSource(source.label, byteLength, stored);
    if (entry.storage === "raw") return stored;
    let table = this.#tables.get(name);
    if (table === undefined) {
      table = new BlockTable();
      this.#tables.set(name, table);
    }
    return new BlockSource({ name, stored, offset, byteLength, engine: this.#engine, table });
  }
}

interface StoredPlace {
  readonly unseal: Unseal | undefined;
  /** The offset of the stored bytes in the file. */
  readonly offset: number;
}

/** The bytes before they were encrypted, or the error that explains why there are none: every tensor can be listed. */
function storedSource(source: Source, entry: SpecEntry, { offset, unseal }: StoredPlace): Source | TareError {
  const stored = sliceSource(source, offset, entry.size);
  if (entry.sealing === "plain") return stored;
  if (unseal === undefined) return sealedError(entry, source, offset);
  try {
    return unseal(entry, stored);
  } catch (error) {
    if (isTareError(error)) return error;
    throw error;
  }
}

function isSource(stored: Source | TareError): stored is Source {
  return "read" in stored;
}

function sealedError({ name }: SpecEntry, source: Source, offset: number): UnsupportedError {
  const message = `Cannot read tensor "${printable(name)}": it is encrypted, and no password was given`;
  return new UnsupportedError(
    "unsupported/apr.encrypted",
    message,
    { source: source.label, offset, path: name },
    { hint: "Give the password with the option password" },
  );
}

/** The metadata text keeps the first value of a key that appears twice, unless the text is too long. */
function unkeptKeys({ header, metadata: { shadowed, text } }: SpecDetails): Loss[] {
  const isKept = text.length <= MAX_CARRIED_TEXT && !FILE_FLAGS.has(header.flags, "ENCRYPTED");
  return isKept ? [] : shadowedLosses(shadowed);
}

function specFacts({ header, entries }: SpecDetails): (readonly [string, string])[] {
  const names = FILE_FLAGS.decode(header.flags);
  const packed = entries.filter(({ storage }) => storage === "lz4").length;
  return [
    ["flags", names.length === 0 ? "none" : names.join(" ")],
    ...(packed === 0 ? [] : [["compressed", `${packed} of ${entries.length} tensors, LZ4`] as const]),
  ];
}

/** The metadata key that says how a file is encrypted: an extension, since the specification only has a flag for it. */
export const ENCRYPTION_KEY = "encryption";
