import type { Bytes } from "../../base/bytes.ts";
import { FormatError, type Location, UnsupportedError } from "../../base/errors.ts";
import { checkLimit } from "../../base/limits.ts";
import { printable } from "../../base/text.ts";
import { type Extent, findOverlap } from "../../bytes/extents.ts";
import type { ReadOptions, Source } from "../../bytes/source.ts";
import { legacyVersion } from "./index.ts";
import {
  FORMAT_MAJOR,
  HEADER_BYTES,
  PLAINTEXT_FLAG,
  VAULT_MAGIC,
  type VaultHeader,
  vaultHeader,
  WRAPPER_HEADER_VERSION,
} from "./layout.ts";
import type { AerovaultLimits } from "./limits.ts";

const FIELDS = vaultHeader.fields;

/** The header as stored in the file, and its decoded values. */
export interface StoredHeader {
  readonly bytes: Bytes;
  readonly values: VaultHeader;
}

/** Reads and checks the header: everything that can be refused without the password is refused here. */
export async function readHeader(source: Source, options: ReadOptions = {}): Promise<StoredHeader> {
  const at = { source: source.label, offset: 0 };
  if (source.byteLength < HEADER_BYTES) {
    checkFamily(await source.read(0, source.byteLength, options), at);
    const message = `Cannot read AeroVault header: must have ${HEADER_BYTES} bytes, found ${source.byteLength}`;
    throw new FormatError("format/aerovault.header", message, at, { hint: "The file is cut short; get it again" });
  }
  const bytes = await source.read(0, HEADER_BYTES, options);
  return { bytes, values: decodeHeader(bytes, at) };
}

/** Older vaults come here only to be changed. This reports their version before any other check. */
function checkFamily(head: Bytes, at: Location): void {
  const older = legacyVersion(head);
  if (older !== undefined) {
    const message = `Cannot change "${at.source}": vaults of version ${older} are only read`;
    const hint = `Make a vault of version 3 from it with: tare upgrade OLD NEW`;
    throw new UnsupportedError("unsupported/aerovault.older", message, at, { hint });
  }
  const text = String.fromCharCode(...head.subarray(0, VAULT_MAGIC.length));
  // A magic that mostly matches is a damaged vault. Anything else is another kind of file, even if the user calls it a
  // vault.
  const agreeing = [...VAULT_MAGIC].filter((letter, i) => text[i] === letter).length;
  if (head.byteLength > 0 && 2 * agreeing < Math.min(VAULT_MAGIC.length, head.byteLength)) {
    const message = `Cannot use "${at.source}" as a vault: it must begin with "${VAULT_MAGIC}", found "${printable(text)}"`;
    throw new UnsupportedError("unsupported/unknown", message, at);
  }
  if (text === VAULT_MAGIC || !/^AEROVAULT\d$/.test(text)) return;
  const message = `Cannot open AeroVault: version must be ${FORMAT_MAJOR}, found ${text.at(-1)}`;
  throw new UnsupportedError("unsupported/aerovault.version", message, at);
}

/** The checks that do not need the file: magic, version, length, flags, reserved bytes. */
export function decodeHeader(bytes: Bytes, at: Location): VaultHeader {
  checkFamily(bytes, at);
  const header = vaultHeader.decode(bytes, at, { code: "format/aerovault.header" });
  const { formatMajor, flags, wrapperHeaderVersion, reserved } = header;
  if (formatMajor !== FORMAT_MAJOR) {
    throw unsupported(
      "unsupported/aerovault.version",
      `version must be ${FORMAT_MAJOR}, found ${formatMajor}`,
      at,
      FIELDS.formatMajor.offset,
    );
  }
  const unknownFlags = flags & ~PLAINTEXT_FLAG;
  if (unknownFlags !== 0) {
    throw unsupported(
      "unsupported/aerovault.flags",
      `flags must be 0 or 1, found 0x${flags.toString(16).padStart(2, "0")}`,
      at,
      FIELDS.flags.offset,
    );
  }
  if (wrapperHeaderVersion !== WRAPPER_HEADER_VERSION) {
    const problem = `wrapper_header_version must be ${WRAPPER_HEADER_VERSION}, found ${wrapperHeaderVersion}`;
    throw unsupported("unsupported/aerovault.version", problem, at, FIELDS.wrapperHeaderVersion.offset);
  }
  const stray = reserved.findIndex((byte) => byte !== 0);
  if (stray >= 0)
    throw unsupported(
      "unsupported/aerovault.reserved",
      "reserved bytes must be zero",
      at,
      FIELDS.reserved.offset + stray,
    );
  return header;
}

/** One section, and the place of its offset field in the header. */
interface Region extends Extent {
  readonly name: string;
  readonly fieldOffset: number;
}

/** The sections with the header's names, in the order of the format. */
function sectionsOf(header: VaultHeader): readonly Region[] {
  const { dataOffset, dataLength, manifestOffset, manifestLength } = header;
  const { extensionDirectoryOffset, extensionDirectoryLength, extensionPayloadOffset, extensionPayloadLength } = header;
  const region = (name: string, fieldOffset: number, offset: number, byteLength: number): Region => {
    return { name, fieldOffset, offset, byteLength };
  };
  return [
    region("header", FIELDS.headerLength.offset, 0, HEADER_BYTES),
    region("data", FIELDS.dataOffset.offset, dataOffset, dataLength),
    region("manifest", FIELDS.manifestOffset.offset, manifestOffset, manifestLength),
    region(
      "extension_directory",
      FIELDS.extensionDirectoryOffset.offset,
      extensionDirectoryOffset,
      extensionDirectoryLength,
    ),
    region("extension_payload", FIELDS.extensionPayloadOffset.offset, extensionPayloadOffset, extensionPayloadLength),
  ];
}

/** Where the last section ends. Bytes after it belong to no section. */
export function sectionsEnd(header: VaultHeader): number {
  return Math.max(...sectionsOf(header).map(({ offset, byteLength }) => offset + byteLength));
}

/** Refuses sections that reach beyond the file, overlap, or exceed the memory limits. */
export function checkSections(header: VaultHeader, fileLength: number, limits: AerovaultLimits, at: Location): void {
  const sections = sectionsOf(header);
  const fault = ({ name, fieldOffset }: Region, problem: string, hint?: string): FormatError => {
    const place = { ...at, offset: fieldOffset, path: `${name}_offset` };
    return new FormatError("format/aerovault.section", `Cannot open AeroVault: ${problem}`, place, { hint });
  };
  for (const section of sections) {
    const { name, offset, byteLength } = section;
    if (name === "data" && offset !== HEADER_BYTES) {
      throw fault(section, `data_offset must be ${HEADER_BYTES}, found ${offset}`);
    }
    // Both are at most 2^53 - 1, so the difference is exact even if the sum is not.
    if (offset <= fileLength && byteLength <= fileLength - offset) continue;
    const problem = `${name} must end within the file's ${fileLength} bytes, found ${byteLength} bytes at ${offset}`;
    throw fault(section, problem, "The file is cut short or its header is damaged; get it again");
  }
  checkLengths(header, limits, at);
  const pair = findOverlap(sections);
  if (pair === undefined) return;
  const [before, after] = pair;
  const problem = `sections must not overlap, found ${before.name} ending at ${before.offset + before.byteLength} and ${after.name} beginning at ${after.offset}`;
  throw fault(after, problem);
}

function checkLengths(header: VaultHeader, { manifestBytes, directoryBytes }: AerovaultLimits, at: Location): void {
  const { manifestLength, extensionDirectoryLength } = header;
  const manifest = { ...at, offset: FIELDS.manifestLength.offset, path: "manifest_length" };
  checkLimit(manifestLength, manifestBytes, "bytes of manifest", "limit/aerovault.manifest-bytes", manifest);
  const directory = { ...at, offset: FIELDS.extensionDirectoryLength.offset, path: "extension_directory_length" };
  const code = "limit/aerovault.directory-bytes";
  checkLimit(extensionDirectoryLength, directoryBytes, "bytes of extension directory", code, directory);
}

function unsupported(
  code: `unsupported/aerovault.${string}`,
  problem: string,
  at: Location,
  offset: number,
): UnsupportedError {
  const message = `Cannot open AeroVault: ${problem}`;
  const where = { ...at, offset: (at.offset ?? 0) + offset };
  const hint = "A newer program wrote the vault, or its header is damaged";
  return new UnsupportedError(code, message, where, { hint });
}
