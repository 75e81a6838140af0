import type { Bytes } from "../../base/bytes.ts";
import type { Location } from "../../base/errors.ts";
import { encodeUtf8 } from "../../base/text.ts";
import { type AesSivKey, aesSiv, SIV_KEY_BYTES } from "../../primitives/cipher/aes-siv.ts";
import { CHACHA_KEY_BYTES } from "../../primitives/cipher/chacha20-poly1305.ts";
import { equalSecrets, hkdfSha256, hmacSha512 } from "../../primitives/crypto/hmac.ts";
import { wipe } from "../../primitives/crypto/secrets.ts";
import type { Engine } from "../../primitives/engine.ts";
import type { WrappingLabels } from "../aerovault/keys.ts";
import { damagedHeader, type UnlockContext, unlockSlots } from "../aerovault/keys.ts";
import { ChunkCipher } from "./chunks.ts";
import type { StoredHeader2 } from "./header.ts";
import { CASCADE_FLAG, MAC_OFFSET, withoutMac } from "./layout.ts";

/** Labels of HKDF; Argon2id's cost and the wrapping are the same as in version 3 (docs/formats/aerovault2.md#keys). */
export const V2_LABELS: WrappingLabels = {
  master: encodeUtf8("AeroVault v2 KEK for master key"),
  mac: encodeUtf8("AeroVault v2 KEK for MAC key"),
};
const NAME_INFO = encodeUtf8("AeroVault v2 AES-SIV filename encryption");
const CASCADE_INFO = encodeUtf8("AeroVault v2 ChaCha20-Poly1305 cascade");

/** The keys that open a vault of version 2. Their holder wipes them. */
export interface Vault2Keys {
  /** For names and the manifest. */
  readonly names: AesSivKey;
  readonly chunks: ChunkCipher;
}

/** The keys of a vault, after proof that its header is the one that was written; errors are those of version 3. */
export async function unlock2(header: StoredHeader2, context: UnlockContext, at: Location): Promise<Vault2Keys> {
  const { engine } = context;
  const { master, mac } = await unlockSlots(header.values, context, at, V2_LABELS);
  try {
    if (!equalSecrets(await headerMac2(engine, mac, header.bytes), header.values.mac)) {
      throw damagedHeader("its HMAC must match, and does not although the password is right", at, MAC_OFFSET);
    }
    return await deriveKeys2(engine, master, header.values.flags);
  } finally {
    wipe(master, mac);
  }
}

/** HMAC-SHA512 of a header; the content of its MAC field does not matter. */
export function headerMac2(engine: Engine, macKey: Bytes, header: Bytes): Promise<Bytes> {
  return hmacSha512(engine, macKey, [withoutMac(header)]);
}

/** Derives the keys from the master key, which the caller still owns. */
export async function deriveKeys2(engine: Engine, master: Bytes, flags: number): Promise<Vault2Keys> {
  const nameKey = await nameKey2(engine, master);
  const cascadeKey = (flags & CASCADE_FLAG) === 0 ? undefined : await cascadeKey2(engine, master);
  try {
    const names = await aesSiv(engine, nameKey);
    return { names, chunks: await ChunkCipher.create(engine, { content: master, cascade: cascadeKey }) };
  } finally {
    wipe(nameKey, cascadeKey);
  }
}

/** The key of names and manifest. */
export function nameKey2(engine: Engine, master: Bytes): Promise<Bytes> {
  return hkdfSha256(engine, master, { info: NAME_INFO, byteLength: SIV_KEY_BYTES });
}

/** The key of the outer layer. */
export function cascadeKey2(engine: Engine, master: Bytes): Promise<Bytes> {
  return hkdfSha256(engine, master, { info: CASCADE_INFO, byteLength: CHACHA_KEY_BYTES });
}

export function wipeKeys2({ names, chunks }: Vault2Keys): void {
  names.wipe();
  chunks.wipe();
}
