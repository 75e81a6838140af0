import type { Bytes } from "../../base/bytes.ts";
import { FormatError, type Location, UnsupportedError } from "../../base/errors.ts";
import type { ReadOptions, Source } from "../../bytes/source.ts";
import {
  CASCADE_FLAG,
  HEADER_BYTES,
  MAX_CHUNK_BYTES,
  MIN_CHUNK_BYTES,
  PREFIX_BYTES,
  REVISIONS,
  type Vault2Header,
  vault2Header,
} from "./layout.ts";

/** The stored header, and its values. */
export interface StoredHeader2 {
  readonly bytes: Bytes;
  readonly values: Vault2Header;
  readonly manifestLength: number;
}

/** Reads and checks the header and the length after it: everything that can be refused before the password is used. */
export async function readHeader2(source: Source, options: ReadOptions = {}): Promise<StoredHeader2> {
  const at = { source: source.label, offset: 0 };
  const needed = HEADER_BYTES + PREFIX_BYTES;
  if (source.byteLength < needed) {
    const message = `Cannot read AeroVault v2 header: must have ${needed} bytes, found ${source.byteLength}`;
    throw new FormatError("format/aerovault2.header", message, at, { hint: "The file is cut short; get it again" });
  }
  const bytes = await source.read(0, needed, options);
  const values = vault2Header.decode(bytes, at, { code: "format/aerovault2.header" });
  checkHeader(values, at);
  const manifestLength = new DataView(bytes.buffer, bytes.byteOffset).getUint32(HEADER_BYTES, true);
  if (manifestLength > source.byteLength - needed) {
    const message = `Cannot open AeroVault v2: manifest_len must be at most the ${source.byteLength - needed} bytes that follow, found ${manifestLength}`;
    const place = { ...at, offset: HEADER_BYTES, path: "manifest_len" };
    throw new FormatError("format/aerovault2.manifest", message, place, {
      hint: "The file is cut short or damaged; get it again",
    });
  }
  return { bytes: bytes.slice(0, HEADER_BYTES), values, manifestLength };
}

function checkHeader({ revision, flags, chunkSize, reserved }: Vault2Header, at: Location): void {
  const unsupported = (code: `unsupported/aerovault2.${string}`, problem: string, offset: number): UnsupportedError => {
    const hint = "A newer program wrote the vault, or its header is damaged";
    return new UnsupportedError(code, `Cannot open AeroVault v2: ${problem}`, { ...at, offset }, { hint });
  };
  if (!REVISIONS.includes(revision)) {
    throw unsupported("unsupported/aerovault2.version", `byte 10 must be 2 or 3, found ${revision}`, 10);
  }
  if ((flags & ~CASCADE_FLAG) !== 0) {
    // The reference masks them before its MAC, so a flipped flag would go unnoticed.
    const found = `0x${flags.toString(16).padStart(2, "0")}`;
    throw unsupported("unsupported/aerovault2.flags", `flags must be 0 or 1, found ${found}`, 11);
  }
  const stray = reserved.findIndex((byte) => byte !== 0);
  if (stray >= 0) throw unsupported("unsupported/aerovault2.reserved", "reserved bytes must be zero", 128 + stray);
  if (chunkSize >= MIN_CHUNK_BYTES && chunkSize <= MAX_CHUNK_BYTES) return;
  const message = `Cannot open AeroVault v2: chunk_size must be ${MIN_CHUNK_BYTES} to ${MAX_CHUNK_BYTES}, found ${chunkSize}`;
  throw new FormatError("format/aerovault2.header", message, { ...at, offset: 124, path: "chunk_size" });
}
