import { createCipheriv, createDecipheriv, createHash, pbkdf2 } from "node:crypto";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { createInflateRaw, type InflateRaw } from "node:zlib";
import { type Bytes, concatBytes } from "../../../base/bytes.ts";
import {
  AES_BLOCK_BYTES,
  type AesBlocks,
  checkAesKey,
  checkBlocks,
  type MakeAesBlocks,
  wipedBlocks,
} from "../../../primitives/cipher/aes.ts";
import {
  CHACHA_TAG_BYTES,
  type ChachaKey,
  type ChachaPoly,
  checkChacha,
  wipedChacha,
} from "../../../primitives/cipher/chacha20-poly1305.ts";
import { boundedInflate, type Inflate } from "../../../primitives/compress/inflate.ts";
import type { Pbkdf2Sha1 } from "../../../primitives/crypto/pbkdf2.ts";
import type { DigestImplementation } from "../../../primitives/digest/implementation.ts";
import type { Tier } from "../../../primitives/tiers.ts";

/** SHA-1 by OpenSSL, for reading older vaults. */
export const NODE_SHA1: Tier<DigestImplementation> = {
  tier: "native",
  implementation: "node:crypto",
  load: async () => ({
    create() {
      const hash = createHash("sha1");
      return {
        update: (bytes) => void hash.update(bytes),
        digest: () => new Uint8Array(hash.digest()),
      };
    },
  }),
};

export const NODE_AES_BLOCKS: Tier<MakeAesBlocks> = {
  tier: "native",
  implementation: "node:crypto",
  load: async () => (key) => {
    checkAesKey(key);
    return new NodeBlocks(key.slice());
  },
};

export const NODE_CHACHA: Tier<ChachaPoly> = {
  tier: "native",
  implementation: "node:crypto",
  load: async () => (key) => {
    checkChacha("key", key);
    return new NodeChacha(key.slice());
  },
};

export const NODE_PBKDF2: Tier<Pbkdf2Sha1> = {
  tier: "native",
  implementation: "node:crypto",
  load: async () => nodePbkdf2,
};

export const NODE_INFLATE: Tier<Inflate> = {
  tier: "native",
  implementation: "node:zlib",
  load: async () => (pieces, options) => boundedInflate(inflate(pieces), options),
};

class NodeBlocks implements AesBlocks {
  readonly #key: Bytes;
  #isWiped = false;

  constructor(key: Bytes) {
    this.#key = key;
  }

  encrypt(blocks: Bytes): Bytes {
    this.#check(blocks);
    return new Uint8Array(createCipheriv("aes-256-ecb", this.#key, null).setAutoPadding(false).update(blocks));
  }

  chain(blocks: Bytes): Bytes {
    this.#check(blocks);
    if (blocks.byteLength === 0) return new Uint8Array(AES_BLOCK_BYTES);
    const cipher = createCipheriv("aes-256-cbc", this.#key, new Uint8Array(AES_BLOCK_BYTES)).setAutoPadding(false);
    return new Uint8Array(cipher.update(blocks).subarray(-AES_BLOCK_BYTES));
  }

  wipe(): void {
    this.#key.fill(0);
    this.#isWiped = true;
  }

  #check(blocks: Bytes): void {
    checkBlocks(blocks);
    if (this.#isWiped) throw wipedBlocks();
  }
}

class NodeChacha implements ChachaKey {
  readonly #key: Bytes;
  #isWiped = false;

  constructor(key: Bytes) {
    this.#key = key;
  }

  seal(nonce: Bytes, plain: Bytes, associated: Bytes): Bytes {
    this.#check(nonce);
    const options = { authTagLength: CHACHA_TAG_BYTES };
    const cipher = createCipheriv("chacha20-poly1305", this.#key, nonce, options);
    cipher.setAAD(associated, { plaintextLength: plain.byteLength });
    const text = cipher.update(plain);
    cipher.final(); // a stream cipher has no bytes left to return
    return concatBytes([new Uint8Array(text), new Uint8Array(cipher.getAuthTag())]);
  }

  open(nonce: Bytes, sealed: Bytes, associated: Bytes): Bytes | undefined {
    this.#check(nonce);
    const end = sealed.byteLength - CHACHA_TAG_BYTES;
    if (end < 0) return undefined;
    const options = { authTagLength: CHACHA_TAG_BYTES };
    const cipher = createDecipheriv("chacha20-poly1305", this.#key, nonce, options);
    cipher.setAAD(associated, { plaintextLength: end });
    cipher.setAuthTag(sealed.subarray(end));
    const plain = cipher.update(sealed.subarray(0, end));
    try {
      cipher.final(); // checks the tag
      return new Uint8Array(plain.buffer as ArrayBuffer, plain.byteOffset, plain.byteLength);
    } catch {
      plain.fill(0);
      return undefined; // the tag differs
    }
  }

  wipe(): void {
    this.#key.fill(0);
    this.#isWiped = true;
  }

  #check(nonce: Bytes): void {
    checkChacha("nonce", nonce);
    if (this.#isWiped) throw wipedChacha();
  }
}

const nodePbkdf2: Pbkdf2Sha1 = (password, { salt, iterations, byteLength }) =>
  new Promise((resolve, reject) => {
    pbkdf2(password, salt, iterations, byteLength, "sha1", (error, key) => {
      if (error === null) resolve(new Uint8Array(key));
      else reject(error);
    });
  });

/** zlib ignores bytes after the end of a stream; the count of bytes that it took shows whether there are any. */
async function* inflate(pieces: AsyncIterable<Bytes>): AsyncGenerator<Bytes> {
  const inflater = createInflateRaw({ chunkSize: 1 << 16 });
  let given = 0;
  const counted = async function* (): AsyncGenerator<Bytes> {
    for await (const piece of pieces) {
      given += piece.byteLength;
      yield piece;
    }
  };
  const feeding = pipeline(Readable.from(counted()), inflater);
  feeding.catch(() => undefined); // reading the result rejects with the same error
  for await (const piece of inflater as AsyncIterable<Buffer>) yield new Uint8Array(piece);
  await feeding;
  checkAllTaken(inflater, given);
}

function checkAllTaken(inflater: InflateRaw, given: number): void {
  if (inflater.bytesWritten !== given) throw new Error("something follows the end of the stream");
}
