import type { Bytes } from "../../src/base/bytes.ts";
import { decodeUtf8 } from "../../src/base/text.ts";
import { sniffFormat } from "../../src/formats/registry.ts";
import type { Archive, EntryStorage } from "../../src/model/archive.ts";

export interface EntryRow {
  readonly path: string;
  readonly type: "file" | "directory";
  readonly size: number;
  readonly modified?: number | undefined;
  /** Its share of the archive, if that is known. */
  readonly storage?: EntryStorage | undefined;
}

/** A preview of a vault's file before it is downloaded. */
export type Preview =
  | { readonly kind: "text"; readonly text: string; readonly rest: number }
  | { readonly kind: "image"; readonly image: Blob }
  /** Content that opens in place. */
  | { readonly kind: "container"; readonly formatName: string }
  | { readonly kind: "bytes"; readonly bytes: Bytes };

const TEXT_BYTES = 64 << 10;
const IMAGE_BYTES = 32 << 20;
const SHOWN_BYTES = 256;

/** Image types that browsers draw, by first bytes; never SVG, which can run scripts. */
const IMAGES: readonly (readonly [type: string, offset: number, magic: readonly number[]])[] = [
  ["image/png", 0, [0x89, 0x50, 0x4e, 0x47]],
  ["image/jpeg", 0, [0xff, 0xd8, 0xff]],
  ["image/gif", 0, [0x47, 0x49, 0x46, 0x38]],
  ["image/webp", 8, [0x57, 0x45, 0x42, 0x50]],
];

export async function entryRows(archive: Archive): Promise<readonly EntryRow[]> {
  const storage = await archive.entryStorage?.();
  return archive.entries.map(({ path, type, size, modified }, i) => {
    return { path, type, size, modified, storage: storage?.[i] };
  });
}

export async function preview(archive: Archive, path: string, signal: AbortSignal): Promise<Preview> {
  const entry = archive.entry(path);
  const source = entry.source();
  const bytes = await source.read(0, Math.min(TEXT_BYTES, source.byteLength), { signal });
  const format = await sniffFormat({ bytes, byteLength: source.byteLength, name: path });
  if (format !== undefined) return { kind: "container", formatName: format.name };
  const image = IMAGES.find(([, offset, magic]) => magic.every((byte, i) => bytes[offset + i] === byte));
  if (image !== undefined && source.byteLength <= IMAGE_BYTES) {
    const whole = await source.read(0, source.byteLength, { signal });
    return { kind: "image", image: new Blob([whole], { type: image[0] }) };
  }
  const text = textOf(bytes);
  if (text !== undefined) return { kind: "text", text, rest: source.byteLength - bytes.byteLength };
  return { kind: "bytes", bytes: bytes.slice(0, SHOWN_BYTES) };
}

/** Undefined if the bytes are not text; drops a character that the end cuts in two. */
function textOf(bytes: Bytes): string | undefined {
  for (let cut = 0; cut < 4; cut++) {
    const text = decodeUtf8(bytes.subarray(0, bytes.byteLength - cut));
    // biome-ignore lint/suspicious/noControlCharactersInRegex: text with control characters is not readable
    if (text !== undefined) return /[\u0000-\u0008\u000e-\u001f]/.test(text) ? undefined : text;
  }
  return undefined;
}
