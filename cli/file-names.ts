import { createHash } from "node:crypto";

/** Names of devices on Windows, with or without an extension, in any case. */
const RESERVED = /^(con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³])(\.|$)/i;
/** File systems allow 255 bytes; the rest is room for an extension and a temporary name. */
const MAX_BYTES = 180;

/**
 * A file name for each tensor name: letters, digits, dots, dashes and underscores only, so never a separator,
 * a hidden file or a way out of the folder; distinct also where a file system ignores case.
 */
export function fileNamesFor(names: readonly string[], extension: string): ReadonlyMap<string, string> {
  const files = new Map<string, string>();
  const taken = new Set<string>();
  // Where the last search for a base ended: names that all become one must not make the search quadratic.
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
  if (Buffer.byteLength(named) <= MAX_BYTES) return named;
  // What is cut off still tells two long names apart.
  const digest = createHash("sha256").update(name).digest("hex").slice(0, 12);
  let cut = named;
  while (Buffer.byteLength(cut) > MAX_BYTES - digest.length - 1) cut = [...cut].slice(0, -1).join("");
  return `${cut}~${digest}`;
}

/** What case-insensitive, normalising file systems compare. */
function fold(name: string): string {
  return name.normalize("NFKC").toUpperCase().toLowerCase();
}
