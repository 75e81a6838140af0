/** As in bytes.ts, which reports errors and so cannot be imported here. */
type Bytes = Uint8Array<ArrayBuffer>;

const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
const encoder = new TextEncoder();

export function encodeUtf8(text: string): Bytes {
  return encoder.encode(text);
}

/** Strict: undefined if the bytes are not UTF-8. Keeps a byte order mark, as it is part of the text. */
export function decodeUtf8(bytes: Bytes): string | undefined {
  try {
    return decoder.decode(bytes);
  } catch {
    return undefined; // the decoder's TypeError says nothing a caller could use
  }
}

/** Offset of the first byte that is not part of well-formed UTF-8, or -1. */
export function findInvalidUtf8(bytes: Bytes): number {
  let low = 0;
  let high = bytes.byteLength;
  if (decodeUtf8(bytes) !== undefined) return -1;
  // Find the longest prefix that decodes, its last character possibly cut off. Halving is cheap even on 100 MB headers.
  const prefixIsFine = (length: number): boolean => {
    try {
      new TextDecoder("utf-8", { fatal: true }).decode(bytes.subarray(0, length), { stream: true });
      return true;
    } catch {
      return false;
    }
  };
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (prefixIsFine(middle)) low = middle;
    else high = middle - 1;
  }
  return low;
}

/** Eight lower-case digits, the usual form of checksums. */
export function hex32(value: number): string {
  return value.toString(16).padStart(8, "0");
}

/** For showing names of unknown origin on a terminal: control characters become visible escapes. */
export function printable(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are exactly what is looked for
  return text.replace(/[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g, (character) => {
    return `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
  });
}

/** Parameters of an address that grant access to any reader: signatures of every store, ids of keys, tokens. */
const SECRET_PARAMETER =
  /([?&][^=&\s"'#]*(?:signature|credential|token|secret|accesskeyid|accessid|password|sig|key)[^=&\s"'#]*=)[^&\s"'#]+/gi;

/**
 * The user part of an address (RFC 3986, 3.2.1), also of an address that was turned into a path and has one slash. A
 * password may contain unencoded slashes. Digits after a host's colon are a port; an @ after that belongs to the path.
 */
const USER_PART = /\b([a-z][a-z0-9+.-]{1,20}:\/{1,2})(?:[^\s"/?#]*|[^\s"/?#:@[]*:(?!\d*[/?#])[^\s"]*)@/gi;

/**
 * The same where no scheme and no colon come before the slashes, as after a typing error. Only with a password, and only
 * where a word begins: paths can have two slashes and an @ inside.
 */
const BARE_USER_PART = /((?<![^\s"'(=])\/\/|\b(?:https?|s3)\/\/)[^\s"'/?#:@]*:[^\s"/?#]*@/gi;

/** For messages: hides the user part of every address in the text, and the secret parameters of its query. */
export function hideSecrets(text: string): string {
  return text.replace(USER_PART, "$1…@").replace(BARE_USER_PART, "$1…@").replace(SECRET_PARAMETER, "$1…");
}

/** Whether bytes are well-formed UTF-8 (RFC 3629). Makes no text of them, because text cannot be wiped from memory. */
export function isUtf8(bytes: Bytes): boolean {
  for (let i = 0; i < bytes.byteLength; ) {
    const first = bytes[i++] as number;
    if (first < 0x80) continue;
    const more =
      first >= 0xc2 && first < 0xe0 ? 1 : first >= 0xe0 && first < 0xf0 ? 2 : first >= 0xf0 && first < 0xf5 ? 3 : 0;
    if (more === 0) return false;
    const second = bytes[i] ?? 0;
    // Refuse overlong forms, halves of surrogate pairs, and characters above U+10FFFF.
    if ((first === 0xe0 && second < 0xa0) || (first === 0xed && second > 0x9f)) return false;
    if ((first === 0xf0 && second < 0x90) || (first === 0xf4 && second > 0x8f)) return false;
    for (let left = more; left > 0; left--) if (((bytes[i++] ?? 0) & 0xc0) !== 0x80) return false;
  }
  return true;
}

const PAIRS: readonly string[] = Array.from({ length: 256 }, (_, value) => value.toString(16).padStart(2, "0"));

export function encodeHex(bytes: Bytes): string {
  let text = "";
  for (const value of bytes) text += PAIRS[value];
  return text;
}

/** Undefined if the text is not an even number of hex digits. */
export function decodeHex(text: string): Bytes | undefined {
  if (text.length % 2 !== 0 || !/^[0-9a-fA-F]*$/.test(text)) return undefined;
  const bytes = new Uint8Array(text.length / 2);
  for (let i = 0; i < bytes.length; i++) bytes[i] = Number.parseInt(text.slice(2 * i, 2 * i + 2), 16);
  return bytes;
}

/** Large inputs go through btoa in pieces: an argument list has a length limit. */
const PIECE = 0x8000 - (0x8000 % 3);

export function encodeBase64(bytes: Bytes): string {
  let text = "";
  for (let i = 0; i < bytes.byteLength; i += PIECE) {
    text += btoa(String.fromCharCode(...bytes.subarray(i, i + PIECE)));
  }
  return text;
}

/** Undefined if the text is not base64. */
export function decodeBase64(text: string): Bytes | undefined {
  let binary: string;
  try {
    binary = atob(text);
  } catch {
    return undefined; // a DOMException that names no position
  }
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i);
  return bytes;
}

/** base64url without padding (RFC 4648 §5). */
export function encodeBase64Url(bytes: Bytes): string {
  return encodeBase64(bytes).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}

/** Undefined if the text is not base64url without padding, in its only valid spelling: unused bits must be zero. */
export function decodeBase64Url(text: string): Bytes | undefined {
  if (!/^[\w-]*$/.test(text) || text.length % 4 === 1) return undefined;
  const bytes = decodeBase64(text.replaceAll("-", "+").replaceAll("_", "/"));
  if (bytes === undefined) return undefined;
  const last = text.slice(text.length - (text.length % 4));
  return encodeBase64Url(bytes.subarray(bytes.byteLength - (bytes.byteLength % 3))) === last ? bytes : undefined;
}

/** Whether UTF-8 can hold a text: it can unless half of a surrogate pair is alone. */
export function isWellFormed(text: string): boolean {
  // The first test nearly always decides, and does not decode pairs.
  return !/[\ud800-\udfff]/.test(text) || !/\p{Surrogate}/u.test(text);
}
