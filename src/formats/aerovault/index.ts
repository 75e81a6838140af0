import { type Bytes, startsWith } from "../../base/bytes.ts";
import type { Format, Head, SniffResult } from "../../model/format.ts";

/** Where the data section begins, in every vault: the length of the header. */
export const HEADER_BYTES = 1024;

/** AeroVault v3: the facts to recognise a file by, and the loaders of the rest. */
export const aerovault: Format = {
  id: "aerovault",
  name: "AeroVault",
  kind: "archive",
  extensions: [".aerovault", ".aerovz", ".aerozip", ".av3"],
  // Blocks begin after the header: a longer first read would gain nothing.
  openingBytes: HEADER_BYTES,
  sniff: sniffAerovault,
  read: async () => (await import("./read.ts")).reader,
  verify: async () => (await import("./verify.ts")).verifier,
};

/** The common start of the magics of all versions since 2. */
const FAMILY = [..."AEROVAULT"].map((character) => character.charCodeAt(0));

/** Checks only the magic: this reader gives the better message for newer versions too. */
function sniffAerovault({ bytes }: Head): SniffResult {
  if (legacyVersion(bytes) !== undefined) return "no";
  if (startsWith(bytes, FAMILY)) return "yes";
  // Damage in the first bytes of a vault must not make it look like an unknown file.
  return "possible";
}

/** The first bytes of a vault of version 2. */
export const V2_MAGIC = "AEROVAULT2";
/** The entry that marks a ZIP as a vault of version 1. */
export const V1_META_NAME = "__aerovault_meta.json";

const V2_BYTES = asciiOf(V2_MAGIC);
const META_BYTES = asciiOf(V1_META_NAME);
/**
 * Signatures of a ZIP's local header and of a row of its directory, with the offsets of the name's length and the name.
 */
const LOCAL = { signature: [0x50, 0x4b, 0x03, 0x04], nameLength: 26, name: 30 } as const;
const CENTRAL = { signature: [0x50, 0x4b, 0x01, 0x02], nameLength: 28, name: 46 } as const;

/** The older AeroVault version that the first bytes of a file show; undefined for everything else. */
export function legacyVersion(head: Bytes): 1 | 2 | undefined {
  if (startsWith(head, V2_BYTES)) return 2;
  return startsWith(head, LOCAL.signature) && hasMetaEntry(head) ? 1 : undefined;
}

/** In every known vault this is the first entry. We accept it anywhere in the first bytes. */
function hasMetaEntry(head: Bytes): boolean {
  for (let at = head.indexOf(META_BYTES[0] as number); at >= 0; at = head.indexOf(META_BYTES[0] as number, at + 1)) {
    if (startsWith(head, META_BYTES, at) && (isNameOf(head, at, LOCAL) || isNameOf(head, at, CENTRAL))) return true;
  }
  return false;
}

function isNameOf(head: Bytes, at: number, record: typeof LOCAL | typeof CENTRAL): boolean {
  const start = at - record.name;
  if (start < 0 || !startsWith(head, record.signature, start)) return false;
  return startsWith(head, [META_BYTES.length, 0], start + record.nameLength);
}

function asciiOf(text: string): readonly number[] {
  return [...text].map((character) => character.charCodeAt(0));
}
