import { type Bytes, concatBytes, EMPTY_BYTES, equalBytes, startsWith } from "../../base/bytes.ts";
import { UnsupportedError, UsageError } from "../../base/errors.ts";
import { decodeBase64, decodeHex, encodeBase64 } from "../../base/text.ts";

export const ED25519_SEED_BYTES = 32;
export const ED25519_PUBLIC_BYTES = 32;
export const ED25519_SIGNATURE_BYTES = 64;

/** Ed25519 of RFC 8032, the plain form without context. A private key is its seed of 32 bytes. */
export interface Ed25519 {
  publicKey(seed: Bytes): Promise<Bytes>;
  sign(seed: Bytes, message: Bytes): Promise<Bytes>;
  /** False for anything that is not a signature of the message by the key, also for bytes that are not a point. */
  verify(publicKey: Bytes, message: Bytes, signature: Bytes): Promise<boolean>;
}

/** RFC 8032 §7.1, test 3. */
const SEED = "c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7";
const PUBLIC_KEY = "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025";
const MESSAGE = "af82";
const SIGNATURE =
  "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a";

/** True if the published signature comes out, is accepted, and is refused for another message. */
export async function provesEd25519(ed25519: Ed25519): Promise<boolean> {
  const [seed, publicKey, message, signature] = [SEED, PUBLIC_KEY, MESSAGE, SIGNATURE].map(
    (hex) => decodeHex(hex) ?? EMPTY_BYTES,
  ) as [Bytes, Bytes, Bytes, Bytes];
  return (
    equalBytes(await ed25519.publicKey(seed), publicKey) &&
    equalBytes(await ed25519.sign(seed, message), signature) &&
    (await ed25519.verify(publicKey, message, signature)) &&
    !(await ed25519.verify(publicKey, seed, signature))
  );
}

/** Ed25519 of the host's WebCrypto, if it has it. */
export async function loadEd25519WebCrypto(): Promise<Ed25519> {
  const { subtle } = globalThis.crypto;
  if (subtle === undefined) throw new Error("no WebCrypto here");
  const importSeed = (seed: Bytes): Promise<CryptoKey> =>
    subtle.importKey("pkcs8", privateKeyDer(seed), "Ed25519", true, ["sign"]);
  return {
    async publicKey(seed) {
      // WebCrypto exports the public half of a private key only as a JSON Web Key, in base64url.
      const { x = "" } = await subtle.exportKey("jwk", await importSeed(seed));
      const bytes = decodeBase64(x.replaceAll("-", "+").replaceAll("_", "/"));
      if (bytes === undefined) throw new Error("no public key in the exported one");
      return bytes;
    },
    async sign(seed, message) {
      return new Uint8Array(await subtle.sign("Ed25519", await importSeed(seed), message));
    },
    async verify(publicKey, message, signature) {
      try {
        const key = await subtle.importKey("raw", publicKey, "Ed25519", false, ["verify"]);
        return await subtle.verify("Ed25519", key, signature, message);
      } catch {
        return false; // the bytes are not a key of the curve
      }
    },
  };
}

/** RFC 8410 §7: a PKCS#8 PrivateKeyInfo of version 1 up to its seed, in DER. */
const PRIVATE_PREFIX = [0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20];
/** RFC 5958: the form with the public key at the end, which some tools write. */
const PAIR_PREFIX = [0x30, 0x51, 0x02, 0x01, 0x01, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20];
/** RFC 8410 §4: a SubjectPublicKeyInfo up to its key. */
const PUBLIC_PREFIX = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

/** A key file has a few lines. Longer text is not read as a key. */
export const MAX_KEY_TEXT = 16 << 10;

/** Base64 columns of a PEM line (RFC 7468 §2). */
const LINE = 64;

/** PKCS#8 in PEM, as OpenSSL writes and reads it. */
export function encodePrivateKey(seed: Bytes): string {
  return encodePem("PRIVATE KEY", concatBytes([Uint8Array.from(PRIVATE_PREFIX), seed]));
}

/** SPKI in PEM. */
export function encodePublicKey(publicKey: Bytes): string {
  return encodePem("PUBLIC KEY", concatBytes([Uint8Array.from(PUBLIC_PREFIX), publicKey]));
}

/** The PKCS#8 form in DER, as WebCrypto takes it. */
export function privateKeyDer(seed: Bytes): Bytes {
  return concatBytes([Uint8Array.from(PRIVATE_PREFIX), seed]);
}

/** The SPKI form in DER. */
export function publicKeyDer(publicKey: Bytes): Bytes {
  return concatBytes([Uint8Array.from(PUBLIC_PREFIX), publicKey]);
}

/** The seed of an Ed25519 key in PKCS#8, PEM or DER. `source` names the key in errors, which never show its content. */
export function parsePrivateKey(key: string | Uint8Array, source: string): Bytes {
  const text = keyText(key);
  if (typeof text === "string" && /-----BEGIN (ENCRYPTED |OPENSSH )/.test(text)) {
    const message = "Cannot use the key: must be an unencrypted PKCS#8 PEM, found another form";
    throw new UnsupportedError(
      "unsupported/key.form",
      message,
      { source },
      {
        hint: "Convert it with: openssl pkey -in OLD -out NEW, or make one with: tare keygen",
      },
    );
  }
  const der = typeof text === "string" ? decodePem(text, "PRIVATE KEY", source) : text;
  if (startsWith(der, PRIVATE_PREFIX) && der.byteLength === PRIVATE_PREFIX.length + ED25519_SEED_BYTES) {
    return der.slice(PRIVATE_PREFIX.length);
  }
  // The seed, then [1] IMPLICIT BIT STRING: 81 21 00 and the public key.
  const pairBytes = PAIR_PREFIX.length + ED25519_SEED_BYTES + 3 + ED25519_PUBLIC_BYTES;
  if (startsWith(der, PAIR_PREFIX) && der.byteLength === pairBytes) {
    return der.slice(PAIR_PREFIX.length, PAIR_PREFIX.length + ED25519_SEED_BYTES);
  }
  throw otherKey("private", source);
}

/** The 32 bytes of an Ed25519 key in SPKI, PEM or DER. */
export function parsePublicKey(key: string | Uint8Array, source: string): Bytes {
  const text = keyText(key);
  const der = typeof text === "string" ? decodePem(text, "PUBLIC KEY", source) : text;
  const fits = startsWith(der, PUBLIC_PREFIX) && der.byteLength === PUBLIC_PREFIX.length + ED25519_PUBLIC_BYTES;
  if (!fits) throw otherKey("public", source);
  return der.slice(PUBLIC_PREFIX.length);
}

/** The first byte of both forms in DER: a sequence. PEM begins with a dash, or with remarks. */
const DER_SEQUENCE = 0x30;

/** PEM text as it is, and DER as bytes. Longer ones are not looked at: they are no key. */
function keyText(key: string | Uint8Array): string | Bytes {
  if (typeof key === "string") return key.slice(0, MAX_KEY_TEXT);
  const bytes = new Uint8Array(key.subarray(0, MAX_KEY_TEXT));
  return bytes[0] === DER_SEQUENCE ? bytes : new TextDecoder("latin1").decode(bytes);
}

function otherKey(kind: "private" | "public", source: string): UnsupportedError {
  const message = `Cannot use the key: must be a ${kind} key of Ed25519, found another kind`;
  return new UnsupportedError(
    "unsupported/key.algorithm",
    message,
    { source },
    {
      hint: "Make a pair with: tare keygen",
    },
  );
}

function encodePem(label: string, der: Bytes): string {
  const lines = encodeBase64(der).match(new RegExp(`.{1,${LINE}}`, "g")) ?? [];
  return [`-----BEGIN ${label}-----`, ...lines, `-----END ${label}-----`, ""].join("\n");
}

function decodePem(text: string, label: string, source: string): Bytes {
  const found = new RegExp(`-----BEGIN ${label}-----([A-Za-z0-9+/=\\s]{1,${MAX_KEY_TEXT}})-----END ${label}-----`).exec(
    text,
  );
  const der = found?.[1] === undefined ? undefined : decodeBase64(found[1].replace(/\s+/g, ""));
  if (der !== undefined) return der;
  const other = /-----BEGIN (PRIVATE|PUBLIC) KEY-----/.exec(text)?.[1];
  const seen = other === undefined || other === label.split(" ")[0] ? "something else" : `a ${other.toLowerCase()} key`;
  const message = `Cannot use the key: must be PEM with "BEGIN ${label}", found ${seen}`;
  throw new UsageError(
    "usage/key.pem",
    message,
    { source },
    {
      hint: "tare keygen writes NAME.key, the private key that signs, and NAME.pub, the public one that verifies",
    },
  );
}
