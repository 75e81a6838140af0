import type { Location } from "../../../base/errors.ts";
import { printable } from "../../../base/text.ts";
import type { Extent } from "../../../bytes/extents.ts";
import type { Finding } from "../../../model/finding.ts";
import type { SpecDetails } from "../model.ts";
import { DATA_ALIGNMENT, dtypeId, FILE_FLAGS, FIRST_QUANTIZED_ID, VERSION } from "./layout.ts";

/** What a reader tolerates and should report; all of it is known once a file is open. */
export function* lintOnOpen(details: SpecDetails): Generator<Finding> {
  const { header, metadata } = details;
  if (header.versionMinor !== VERSION.minor) {
    yield warning("format/apr.minor-version", at(details, 6, "version_minor"), {
      message: `The file is of version ${VERSION.major}.${header.versionMinor}: what is new in it is not known here`,
    });
  }
  const unknown = FILE_FLAGS.unknown(header.flags);
  if (unknown !== 0n) {
    const message = `The header has flags without a meaning here: 0x${unknown.toString(16)}`;
    yield warning("format/apr.unknown-flags", at(details, 8, "flags"), { message });
  }
  yield* lintFlags(details);
  if (metadata.padding !== "") {
    const message = `metadata_size counts ${metadata.padding.length} bytes of padding after the JSON`;
    yield warning("format/apr.metadata-padding", at(details, 16, "metadata_size"), { message });
  }
  yield* lintVersion(details);
  yield* lintDuplicates(details, "warning");
  yield* lintPlaces(details, "warning");
}

/** The same as errors if the specification makes a rule of it, and what only `verify` needs to say. */
export function* lintOnVerify(details: SpecDetails): Generator<Finding> {
  yield* lintDuplicates(details, "error");
  yield* lintPlaces(details, "error");
  yield* lintRequired(details);
  yield* lintAlignment(details);
}

function* lintFlags(details: SpecDetails): Generator<Finding> {
  const { header, entries } = details;
  const rows: readonly (readonly ["COMPRESSED" | "QUANTIZED" | "ENCRYPTED", boolean])[] = [
    ["COMPRESSED", entries.some(({ storage }) => storage === "lz4")],
    ["QUANTIZED", entries.some(({ dtype }) => (dtypeId(dtype) ?? 0) >= FIRST_QUANTIZED_ID)],
    ["ENCRYPTED", entries.some(({ sealing }) => sealing === "encrypted")],
  ];
  for (const [flag, isTrue] of rows) {
    if (FILE_FLAGS.has(header.flags, flag) === isTrue) continue;
    // An encrypted file without tensors has nothing to encrypt.
    if (flag === "ENCRYPTED" && entries.length === 0) continue;
    const message = isTrue
      ? `The flag ${flag} is clear, but it is true of some tensors`
      : `The flag ${flag} is set, but it is true of no tensor`;
    yield warning("format/apr.flags", at(details, 8, "flags"), { message });
  }
}

function* lintVersion(details: SpecDetails): Generator<Finding> {
  const entry = details.metadata.entries.find(({ key }) => key === "apr_version");
  if (entry?.value.type !== "string") return;
  if (entry.value.value.split(".")[0] === String(VERSION.major)) return;
  const message = `apr_version is "${printable(entry.value.value)}", but the header says ${VERSION.major}`;
  yield warning("format/apr.metadata-version", metadataAt(details, "apr_version"), { message });
}

function* lintDuplicates(details: SpecDetails, severity: "warning" | "error"): Generator<Finding> {
  for (const key of details.metadata.duplicates) {
    const message = `The metadata has the key ${JSON.stringify(key)} twice: the last one counts`;
    yield { severity, code: "format/apr.duplicate-key", message, at: metadataAt(details, JSON.stringify(key)) };
  }
}

/** Tensors must not overlap and must come after the index; the data must begin on a multiple of 64. */
function* lintPlaces(details: SpecDetails, severity: "warning" | "error"): Generator<Finding> {
  const { header, places, entries } = details;
  const frontEnd = Math.max(header.metadataOffset + header.metadataSize, header.indexOffset + header.indexSize);
  if (header.dataOffset % DATA_ALIGNMENT !== 0) {
    const message = `data_offset must be a multiple of ${DATA_ALIGNMENT}, found ${header.dataOffset}`;
    yield { severity, code: "format/apr.data-offset", message, at: at(details, 28, "data_offset") };
  }
  if (header.dataOffset < frontEnd) {
    const message = `data_offset must be at least ${frontEnd}, the end of metadata and index, found ${header.dataOffset}`;
    yield { severity, code: "format/apr.data-offset", message, at: at(details, 28, "data_offset") };
  }
  const pair = firstOverlap(places);
  if (pair === undefined) return;
  const [a, b] = pair.map((index) => ({ name: entries[index]?.name ?? "", place: places[index] as Extent }));
  if (a === undefined || b === undefined) return;
  const message = `Tensor "${printable(a.name)}" ends at ${a.place.offset + a.place.byteLength}, past the beginning of "${printable(b.name)}" at ${b.place.offset}`;
  yield { severity, code: "format/apr.overlap", message, at: at(details, b.place.offset, "index"), name: b.name };
}

/** Numbers of the first two places that share a byte, by offset. Most files have their tensors in order already. */
function firstOverlap(places: readonly Extent[]): readonly [number, number] | undefined {
  const used: number[] = [];
  for (let i = 0; i < places.length; i++) if ((places[i] as Extent).byteLength > 0) used.push(i);
  const offsetOf = (index: number | undefined): number => places[index ?? 0]?.offset ?? 0;
  const isSorted = used.every((index, i) => i === 0 || offsetOf(used[i - 1]) <= offsetOf(index));
  if (!isSorted) used.sort((a, b) => offsetOf(a) - offsetOf(b));
  for (let i = 1; i < used.length; i++) {
    const [before, after] = [used[i - 1] as number, used[i] as number];
    if (offsetOf(before) + (places[before]?.byteLength ?? 0) > offsetOf(after)) return [before, after];
  }
  return undefined;
}

/** Keys that the specification requires, with the types it shows. */
const REQUIRED = [
  ["apr_version", "string"],
  ["model_type", "string"],
  ["architecture", "map"],
] as const;

function* lintRequired(details: SpecDetails): Generator<Finding> {
  const { metadata } = details;
  for (const [key, type] of REQUIRED) {
    const found = metadata.entries.find((entry) => entry.key === key)?.value.type;
    if (found === type) continue;
    const wanted = type === "map" ? "an object" : "a string";
    const message = `The metadata must have "${key}", ${wanted}; found ${found ?? "no such key"}`;
    yield { severity: "error", code: "format/apr.required-key", message, at: metadataAt(details, key) };
  }
}

function* lintAlignment(details: SpecDetails): Generator<Finding> {
  const { header, places, entries } = details;
  const align = alignmentOf(header.flags);
  if (align === undefined) {
    const message = "Neither ALIGNED_64 nor ALIGNED_32 is set: tensors may begin anywhere";
    yield warning("format/apr.no-alignment", at(details, 8, "flags"), { message });
    return;
  }
  for (const [i, { offset, byteLength }] of places.entries()) {
    if (byteLength === 0 || offset % align === 0) continue;
    const name = entries[i]?.name ?? "";
    const message = `Tensor "${printable(name)}" must begin at a multiple of ${align}, found ${offset}`;
    const where = at(details, entries[i]?.at ?? 0, `index[${i}].offset`);
    yield { severity: "error", code: "format/apr.alignment", message, at: where, name };
  }
}

/** The alignment that the flags promise; 64 wins if both are set. */
export function alignmentOf(flags: number): 64 | 32 | undefined {
  if (FILE_FLAGS.has(flags, "ALIGNED_64")) return 64;
  return FILE_FLAGS.has(flags, "ALIGNED_32") ? 32 : undefined;
}

function at({ source }: SpecDetails, offset: number, path: string): Location {
  return { source: source.label, offset, path };
}

function metadataAt(details: SpecDetails, key: string): Location {
  return at(details, details.header.metadataOffset, `metadata.${key}`);
}

function warning(code: Finding["code"], where: Location, { message }: { readonly message: string }): Finding {
  return { severity: "warning", code, message, at: where };
}
