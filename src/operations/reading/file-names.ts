import { encodeHex, encodeUtf8 } from "../../base/text.ts";
import type { Format } from "../../model/format.ts";
import { sha256 } from "../../primitives/digest/sha256.ts";
import { sha256Javascript } from "../../primitives/digest/sha256-javascript.ts";

/** Names of devices on Windows, with or without an extension, in any case. */
const RESERVED = /^(con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³])(\.|$)/i;
/** File systems allow 255 bytes; the rest is room for an extension and a temporary name. */
const MAX_BYTES = 180;

/**
 * A file name for each tensor name: letters, digits, dots, dashes and underscores only, so never a separator, a hidden
 * file or a way out of the folder. The names also differ on file systems that ignore case.
 */
export function fileNamesFor(names: readonly string[], extension: string): ReadonlyMap<string, string> {
  const files = new Map<string, string>();
  const taken = new Set<string>();
  // Where the last search for a base ended, so that many names with the same base do not make the search quadratic.
  const next = new Map<string, number>();
  for (const name of names) {
    const base = safeBase(name);
    const key = fold(base);
    let file = `${base}${extension}`;
    let i = next.get(key) ?? 2;
    for (; taken.has(fold(file)); i++) file = `${base}~${i}${extension}`;
    next.set(key, i);
    taken.add(fold(file));
    files.set(name, file);
  }
  return files;
}

function safeBase(name: string): string {
  const plain = name.normalize("NFC").replace(/[^\p{L}\p{N}._-]/gu, "_");
  const visible = plain.replace(/^\.+/, "_").replace(/\.+$/, "_");
  const named = visible === "" || RESERVED.test(visible) || visible.startsWith("-") ? `_${visible}` : visible;
  if (encodeUtf8(named).byteLength <= MAX_BYTES) return named;
  // A digest keeps two long names distinct after cutting.
  const hasher = sha256(sha256Javascript).create();
  hasher.update(encodeUtf8(name));
  const digest = encodeHex(hasher.digest()).slice(0, 12);
  let cut = named;
  while (encodeUtf8(cut).byteLength > MAX_BYTES - digest.length - 1) cut = [...cut].slice(0, -1).join("");
  return `${cut}~${digest}`;
}

/** What case-insensitive, normalising file systems compare; some ignore invisible characters. */
function fold(name: string): string {
  return name
    .normalize("NFKC")
    .replace(/\p{Default_Ignorable_Code_Point}/gu, "")
    .toUpperCase()
    .toLowerCase();
}

/** The name for files made from an input such as "a/b/model-00001-of-00003.gguf", with the format's extension. */
export function nameAfter(label: string, format: Format): string {
  const last =
    label
      .replace(/[?#].*$/s, "")
      .split(/[\\/]/)
      .filter((part) => part !== "")
      .at(-1) ?? "";
  const stem = last
    .replace(/\.(index|aeroset)\.json$/i, "")
    .replace(/\.[A-Za-z][A-Za-z0-9]{1,15}$/, "")
    .replace(/-\d{5}-of-\d{5}$/, "");
  // A label such as "standard input" or "-" names no file.
  const usable = /^[\p{L}\p{N}_][\p{L}\p{N}._+-]*$/u.test(stem) ? stem : "model";
  return `${usable}${format.extensions[0] ?? ""}`;
}
