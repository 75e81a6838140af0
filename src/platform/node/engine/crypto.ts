import * as nodeCrypto from "node:crypto";
import { createCipheriv } from "node:crypto";
import type { Bytes } from "../../../base/bytes.ts";
import { type Aes, canBeWrapped, GCM_TAG_BYTES, type GcmKey } from "../../../primitives/cipher/aes.ts";
import type { GcmSiv } from "../../../primitives/cipher/gcm-siv.ts";
import { type BlockCipher, loadKernelGcmSiv } from "../../../primitives/cipher/gcm-siv-wasm.ts";
import { type Argon2id, checkArgon2 } from "../../../primitives/crypto/argon2.ts";
import { ED25519_PUBLIC_BYTES, type Ed25519, privateKeyDer, publicKeyDer } from "../../../primitives/crypto/ed25519.ts";
import type { DigestImplementation } from "../../../primitives/digest/implementation.ts";
import type { Tier } from "../../../primitives/tiers.ts";
import { requireHere } from "../own-script.ts";
import { addonBinary } from "./addons.ts";

/** RFC 3394 §2.2.3.1. */
const WRAP_CHECK = Buffer.alloc(8, 0xa6);

/** SHA-512 by OpenSSL. */
export const NODE_SHA512: Tier<DigestImplementation> = {
  tier: "native",
  implementation: "node:crypto",
  load: async () => ({
    create() {
      const hash = nodeCrypto.createHash("sha512");
      return {
        update(bytes) {
          hash.update(bytes);
        },
        digest: () => new Uint8Array(hash.digest()),
      };
    },
  }),
};

/** AES-256 by OpenSSL. */
export const NODE_AES: Tier<Aes> = { tier: "native", implementation: "node:crypto", load: async () => nodeAes };

/** Ed25519 by OpenSSL. */
export const NODE_ED25519: Tier<Ed25519> = {
  tier: "native",
  implementation: "node:crypto",
  load: async () => nodeEd25519,
};

/** The optional package, which uses every core; then Node's own, from version 24 on. */
export const NODE_ARGON2: readonly Tier<Argon2id>[] = [
  { tier: "native", implementation: "@node-rs/argon2", load: loadPackage },
  { tier: "native", implementation: "node:crypto", load: loadBuiltIn },
];

const nodeAes: Aes = {
  gcm: async (key) => nodeGcm(nodeCrypto.createSecretKey(key)),
  async wrapKey(wrappingKey, key) {
    const cipher = nodeCrypto.createCipheriv("id-aes256-wrap", wrappingKey, WRAP_CHECK);
    return join(cipher.update(key), cipher.final());
  },
  async unwrapKey(wrappingKey, wrapped) {
    if (!canBeWrapped(wrapped.byteLength)) return undefined;
    try {
      const cipher = nodeCrypto.createDecipheriv("id-aes256-wrap", wrappingKey, WRAP_CHECK);
      return join(cipher.update(wrapped), cipher.final());
    } catch {
      return undefined; // OpenSSL's error says only that the check value differs
    }
  },
};

function nodeGcm(key: nodeCrypto.KeyObject): GcmKey {
  return {
    async seal(nonce, plain, associated) {
      const cipher = nodeCrypto.createCipheriv("aes-256-gcm", key, nonce, { authTagLength: GCM_TAG_BYTES });
      cipher.setAAD(associated);
      return join(cipher.update(plain), cipher.final(), cipher.getAuthTag());
    },
    async open(nonce, sealed, associated) {
      const end = sealed.byteLength - GCM_TAG_BYTES;
      if (end < 0) return undefined;
      const cipher = nodeCrypto.createDecipheriv("aes-256-gcm", key, nonce, { authTagLength: GCM_TAG_BYTES });
      cipher.setAAD(associated);
      cipher.setAuthTag(sealed.subarray(end));
      const plain = cipher.update(sealed.subarray(0, end));
      try {
        cipher.final(); // checks the tag; a counter mode has no bytes left to return
        return new Uint8Array(plain.buffer as ArrayBuffer, plain.byteOffset, plain.byteLength);
      } catch {
        plain.fill(0);
        return undefined; // the tag differs
      }
    },
  };
}

const nodeEd25519: Ed25519 = {
  async publicKey(seed) {
    const spki = nodeCrypto.createPublicKey(privateKey(seed)).export({ type: "spki", format: "der" });
    return new Uint8Array(spki.subarray(spki.byteLength - ED25519_PUBLIC_BYTES));
  },
  sign: async (seed, message) => new Uint8Array(nodeCrypto.sign(null, message, privateKey(seed))),
  async verify(publicKey, message, signature) {
    try {
      const key = nodeCrypto.createPublicKey({
        key: Buffer.from(publicKeyDer(publicKey)),
        type: "spki",
        format: "der",
      });
      return nodeCrypto.verify(null, message, key, signature);
    } catch {
      return false; // the bytes are not a key
    }
  },
};

function privateKey(seed: Bytes): nodeCrypto.KeyObject {
  return nodeCrypto.createPrivateKey({ key: Buffer.from(privateKeyDer(seed)), type: "pkcs8", format: "der" });
}

/** The part of the package that we use. It is not installed everywhere. */
interface Argon2Package {
  hashRaw(
    password: Uint8Array,
    options: {
      readonly algorithm: number;
      readonly salt: Uint8Array;
      readonly memoryCost: number;
      readonly timeCost: number;
      readonly parallelism: number;
      readonly outputLen: number;
    },
  ): Promise<Uint8Array>;
}

/** Argon2id in the numbering of the package. */
const PACKAGE_ARGON2ID = 2;

async function loadPackage(): Promise<Argon2id> {
  const name = "@node-rs/argon2";
  // Neither the compiler nor a bundler follows this: the package and its types are optional.
  const { hashRaw } = (addonBinary(name) ?? requireHere()(name)) as Argon2Package;
  return async (password, parameters) => {
    checkArgon2(parameters);
    const { salt, memoryKib: memoryCost, passes: timeCost, lanes: parallelism, byteLength: outputLen } = parameters;
    const options = { algorithm: PACKAGE_ARGON2ID, salt, memoryCost, timeCost, parallelism, outputLen };
    return new Uint8Array(await hashRaw(password, options));
  };
}

/** crypto.argon2 of Node 24, which is missing in the types of Node 20. */
type BuiltIn = (
  algorithm: "argon2id",
  parameters: {
    readonly message: Uint8Array;
    readonly nonce: Uint8Array;
    readonly parallelism: number;
    readonly tagLength: number;
    readonly memory: number;
    readonly passes: number;
  },
  callback: (error: Error | null, key: Uint8Array) => void,
) => void;

async function loadBuiltIn(): Promise<Argon2id> {
  const builtIn = (nodeCrypto as { readonly argon2?: BuiltIn }).argon2;
  if (builtIn === undefined) throw new Error("this Node has no Argon2");
  return (message, parameters) => {
    checkArgon2(parameters);
    const { salt: nonce, memoryKib: memory, passes, lanes: parallelism, byteLength: tagLength } = parameters;
    return new Promise((resolve, reject) => {
      builtIn("argon2id", { message, nonce, parallelism, tagLength, memory, passes }, (error, key) => {
        if (error === null) resolve(new Uint8Array(key));
        else reject(error);
      });
    });
  };
}

function join(...pieces: Buffer[]): Bytes {
  const whole = new Uint8Array(pieces.reduce((sum, piece) => sum + piece.byteLength, 0));
  let at = 0;
  for (const piece of pieces) {
    whole.set(piece, at);
    at += piece.byteLength;
  }
  return whole;
}

/**
 * AES by OpenSSL, POLYVAL by our kernel. Node has AES-256-GCM-SIV from version 26 on, at a third of this speed. GCM's
 * GHASH uses the same processor instructions but cannot replace POLYVAL: its key is always the encryption of zeros,
 * while GCM-SIV has another key for each message.
 */
export const NODE_GCM_SIV: Tier<GcmSiv> = {
  tier: "native",
  implementation: "node:crypto and wasm simd",
  load: () => loadKernelGcmSiv(makeCipher, [relaxedBuild]),
};

/**
 * A quarter faster from Node 22 on. Not for browsers, where AES takes most of the time and this build adds bytes to
 * load.
 */
async function relaxedBuild(): Promise<string> {
  return (await import("../../../kernels/generated/polyval-relaxed.ts")).WASM;
}

function makeCipher(key: Bytes): BlockCipher {
  const cipher = createCipheriv("aes-256-ecb", key, null).setAutoPadding(false);
  return {
    encrypt(blocks) {
      const result = cipher.update(blocks);
      return new Uint8Array(result.buffer as ArrayBuffer, result.byteOffset, result.byteLength);
    },
    wipe() {
      cipher.final(); // OpenSSL clears the key with its context
    },
  };
}
