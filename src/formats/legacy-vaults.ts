import { type Bytes, startsWith } from "../base/bytes.ts";

/** What a vault of version 2 begins with. */
export const V2_MAGIC = "AEROVAULT2";
/** The entry by which a ZIP is known to be a vault of version 1. */
export const V1_META_NAME = "__aerovault_meta.json";

const V2_BYTES = asciiOf(V2_MAGIC);
const META_BYTES = asciiOf(V1_META_NAME);
/** Signatures of a ZIP's local header and of a row of its directory, with where the name stands behind them. */
const LOCAL = { signature: [0x50, 0x4b, 0x03, 0x04], nameLength: 26, name: 30 } as const;
const CENTRAL = { signature: [0x50, 0x4b, 0x01, 0x02], nameLength: 28, name: 46 } as const;

/** Which older version of AeroVault the first bytes of a file show; undefined for everything else. */
export function legacyVersion(head: Bytes): 1 | 2 | undefined {
  if (startsWith(head, V2_BYTES)) return 2;
  return startsWith(head, LOCAL.signature) && hasMetaEntry(head) ? 1 : undefined;
}

/** The first entry of every such vault that is known; anywhere else in the first bytes it counts too. */
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
