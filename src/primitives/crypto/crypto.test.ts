import { describe, expect, it } from "vitest";
import { type Bytes, equalBytes } from "../../base/bytes.ts";
import { decodeHex, encodeHex, encodeUtf8 } from "../../base/text.ts";
import { NODE_AES, NODE_ARGON2, NODE_ED25519, NODE_SHA512 } from "../../platform/node/engine/crypto.ts";
import { provesAes } from "../cipher/aes.ts";
import { aesJavascript } from "../cipher/aes-javascript.ts";
import { loadAesWebCrypto } from "../cipher/aes-webcrypto.ts";
import { blake2b } from "../digest/blake2b.ts";
import { patternBytes } from "../digest/implementation.ts";
import { sha512Javascript } from "../digest/sha512-javascript.ts";
import { portableEngine } from "../portable.ts";
import { provesArgon2 } from "./argon2.ts";
import { argon2Javascript } from "./argon2-javascript.ts";
import { loadArgon2Wasm } from "./argon2-wasm.ts";
import {
  encodePrivateKey,
  encodePublicKey,
  loadEd25519WebCrypto,
  parsePrivateKey,
  parsePublicKey,
  provesEd25519,
} from "./ed25519.ts";
import { ed25519Javascript } from "./ed25519-javascript.ts";
import { equalSecrets, hkdfSha256, hmacSha256, hmacSha512 } from "./hmac.ts";
import { wipe } from "./secrets.ts";

const hex = (text: string): Bytes => decodeHex(text.replaceAll(/\s/g, "")) ?? new Uint8Array(0);
const engine = portableEngine({ tier: "javascript" });

describe("sha512Javascript", () => {
  const digest = (...pieces: Bytes[]): string => {
    const hasher = sha512Javascript.create();
    for (const piece of pieces) hasher.update(piece);
    return encodeHex(hasher.digest());
  };

  it("gives the digest of FIPS 180-2 for abc", () => {
    expect(digest(encodeUtf8("abc"))).toBe(
      "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f",
    );
  });

  it("agrees with Node for every length around two blocks, in pieces", async () => {
    const node = await NODE_SHA512.load();
    for (let length = 100; length < 260; length += 3) {
      const input = patternBytes(length);
      const hasher = node.create();
      hasher.update(input);
      expect(digest(input.subarray(0, 61), input.subarray(61)), `${length}`).toBe(encodeHex(hasher.digest()));
    }
  });
});

describe("hmacSha256() and hkdfSha256()", () => {
  it("give the answers of RFC 4231 and RFC 5869", async () => {
    const long = await hmacSha256(engine, new Uint8Array(131).fill(0xaa), [
      encodeUtf8("Test Using Larger Than Block-Size Key"),
      encodeUtf8(" - Hash Key First"),
    ]);
    expect(encodeHex(long)).toBe("60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
    const okm = await hkdfSha256(engine, new Uint8Array(22).fill(0x0b), {
      salt: hex("000102030405060708090a0b0c"),
      info: hex("f0f1f2f3f4f5f6f7f8f9"),
      byteLength: 42,
    });
    expect(encodeHex(okm)).toBe("3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865");
  });

  it("give the answers of RFC 5869 A.2 and RFC 4231 case 6 for SHA-512", async () => {
    const run = (from: number): Bytes => Uint8Array.from({ length: 80 }, (_, i) => from + i);
    const okm = await hkdfSha256(engine, run(0), { salt: run(0x60), info: run(0xb0), byteLength: 82 });
    expect(encodeHex(okm)).toBe(
      "b11e398dc80327a1c8e7f78c596a49344f012eda2d4efad8a050cc4c19afa97c59045a99cac7827271cb41c65e590e09da3275600c2f09b8367793a9aca3db71cc30c58179ec3e87c14c01d5c1f3434f1d87",
    );
    const mac = await hmacSha512(engine, new Uint8Array(131).fill(0xaa), [
      encodeUtf8("Test Using Larger Than Block-Size Key - Hash Key First"),
    ]);
    expect(encodeHex(mac)).toBe(
      "80b24263c7c1a3ebb71493c1dd7be8b49b46d1f41b4aeec1121b013783f8f3526b56d037e05f2598bd0fd2215d6a1e5295e64f73f63f0aec8b915a985d786598",
    );
  });

  it("wipe() leaves zeros", () => {
    const [a, b] = [patternBytes(9), patternBytes(9)];
    wipe(a, undefined, b);
    expect([a, b].flatMap((secret) => [...secret]).every((byte) => byte === 0)).toBe(true);
  });

  it("equalSecrets() compares length and every byte", () => {
    expect(equalSecrets(hex("0102"), hex("0102"))).toBe(true);
    expect(equalSecrets(hex("0102"), hex("0103"))).toBe(false);
    expect(equalSecrets(hex("01"), hex("0102"))).toBe(false);
  });
});

describe("AES-256", () => {
  it("every implementation gives the published answers", async () => {
    expect(await provesAes(aesJavascript)).toBe(true);
    expect(await provesAes(await loadAesWebCrypto())).toBe(true);
    expect(await provesAes(await NODE_AES.load())).toBe(true);
  });

  it("the tiers agree for lengths around the block", async () => {
    const tiers = [aesJavascript, await loadAesWebCrypto(), await NODE_AES.load()];
    const key = patternBytes(32);
    const nonce = patternBytes(12);
    for (const length of [0, 1, 15, 16, 17, 4097]) {
      const plain = patternBytes(length);
      const sealed = await Promise.all(
        tiers.map(async (aes) => (await aes.gcm(key)).seal(nonce, plain, patternBytes(length % 40))),
      );
      expect(
        sealed.every((one) => equalBytes(one, sealed[0] as Bytes)),
        `${length}`,
      ).toBe(true);
      for (const aes of tiers) {
        const gcm = await aes.gcm(key);
        expect(await gcm.open(nonce, sealed[0] as Bytes, patternBytes(length % 40))).toEqual(plain);
        expect(await gcm.open(nonce, sealed[0] as Bytes, patternBytes((length % 40) + 1))).toBeUndefined();
      }
    }
    for (const aes of tiers) expect(await (await aes.gcm(key)).open(nonce, patternBytes(7), key)).toBeUndefined();
  });
});

describe("Ed25519", () => {
  it("every implementation gives the published answers", async () => {
    expect(await provesEd25519(ed25519Javascript)).toBe(true);
    expect(await provesEd25519(await loadEd25519WebCrypto())).toBe(true);
    expect(await provesEd25519(await NODE_ED25519.load())).toBe(true);
  });

  it("no implementation accepts a changed signature, a scalar beyond the order, or a key off the curve", async () => {
    const seed = patternBytes(32);
    const message = patternBytes(100);
    const publicKey = await ed25519Javascript.publicKey(seed);
    const signature = await ed25519Javascript.sign(seed, message);
    // s + L is the same number modulo L (RFC 8032 §8.4).
    const order = 2n ** 252n + 27742317777372353535851937790883648493n;
    const malleable = signature.slice();
    let carry = order;
    for (let i = 32; i < 64; i++) {
      const sum = BigInt(malleable[i] as number) + (carry & 0xffn);
      malleable[i] = Number(sum & 0xffn);
      carry = (carry >> 8n) + (sum >> 8n);
    }
    const noPoint = hex("0200000000000000000000000000000000000000000000000000000000000000");
    for (const tier of [ed25519Javascript, await loadEd25519WebCrypto(), await NODE_ED25519.load()]) {
      expect(await tier.verify(publicKey, message, signature)).toBe(true);
      expect(await tier.verify(publicKey, message, malleable)).toBe(false);
      expect(
        await tier.verify(
          publicKey,
          message,
          signature.map((byte, i) => (i === 40 ? byte ^ 4 : byte)),
        ),
      ).toBe(false);
      expect(await tier.verify(noPoint, message, signature)).toBe(false);
      expect(await tier.verify(publicKey, message, signature.subarray(0, 63))).toBe(false);
    }
  });
});

describe("key files", () => {
  const seed = hex("d4ee72dbf913584ad5b6d8f1f769f8ad3afe7c28cbf1d4fbe097a88f44755842");
  // RFC 8410 §10.3 and §10.1.
  const PRIVATE = `-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC
-----END PRIVATE KEY-----
`;
  const PUBLIC = `-----BEGIN PUBLIC KEY-----
MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=
-----END PUBLIC KEY-----
`;

  it("encodePrivateKey() and encodePublicKey() write the examples of RFC 8410", async () => {
    expect(encodePrivateKey(seed)).toBe(PRIVATE);
    expect(encodePublicKey(await ed25519Javascript.publicKey(seed))).toBe(PUBLIC);
    expect(parsePrivateKey(PRIVATE, "k")).toEqual(seed);
    expect(encodeHex(parsePublicKey(PUBLIC, "k"))).toMatch(/^19bf44096984cdfe/);
  });

  it("refuse the other half of a pair, other forms and other algorithms, and name what they found", () => {
    expect(() => parsePrivateKey(PUBLIC, "k")).toThrow(expect.objectContaining({ code: "usage/key.pem" }));
    expect(() => parsePublicKey(PRIVATE, "k")).toThrow(/found a private key/);
    expect(() => parsePublicKey("", "k")).toThrow(expect.objectContaining({ code: "usage/key.pem" }));
    expect(() => parsePrivateKey("-----BEGIN OPENSSH PRIVATE KEY-----", "k")).toThrow(
      expect.objectContaining({ code: "unsupported/key.form" }),
    );
    // An X25519 key differs by one byte of its object identifier.
    expect(() => parsePrivateKey(PRIVATE.replace("BQYDK2Vw", "BQYDK2Vu"), "k")).toThrow(
      expect.objectContaining({ code: "unsupported/key.algorithm" }),
    );
  });
});

describe("Argon2id", () => {
  it("blake2b() gives the answer of RFC 7693 appendix A", () => {
    expect(encodeHex(blake2b(encodeUtf8("abc"), 64))).toBe(
      "ba80a53f981c4d0d6a2797b69f12f6e94c212f14685ac4b74b12bb6fdbffa2d17d87c5392aab792dc252d5de4533cc9518d38aa8dbf1925ab92386edd4009923",
    );
  });

  it("argon2Javascript() gives the answer of RFC 9106 §5.3", async () => {
    const tag = await argon2Javascript(
      new Uint8Array(32).fill(1),
      { salt: new Uint8Array(16).fill(2), memoryKib: 32, passes: 3, lanes: 4, byteLength: 32 },
      { secret: new Uint8Array(8).fill(3), data: new Uint8Array(12).fill(4) },
    );
    expect(encodeHex(tag)).toBe("0d640df58d78766c08c037a34a8b53c9d01ef0452d75b65eb52520e96b01e659");
  });

  it("gives the reference program's test values", async () => {
    expect(await provesArgon2(argon2Javascript)).toBe(true);
    const parameters = { salt: encodeUtf8("somesalt"), memoryKib: 256, passes: 2, lanes: 1, byteLength: 32 };
    expect(encodeHex(await argon2Javascript(encodeUtf8("password"), parameters))).toBe(
      "9dfeb910e80bad0311fee20f9c0e2b12c17987b4cac90c2ef54d5b3021c68bfe",
    );
  });

  it("loadArgon2Wasm() agrees for odd sizes, lanes and passes", async () => {
    const wasm = await loadArgon2Wasm();
    expect(await provesArgon2(wasm)).toBe(true);
    for (const [memoryKib, passes, lanes, byteLength] of [
      [8, 1, 1, 4],
      [33, 3, 4, 65],
      [1100, 2, 1, 32],
      [600, 4, 3, 100],
    ] as const) {
      const parameters = { salt: patternBytes(20), memoryKib, passes, lanes, byteLength };
      const expected = await argon2Javascript(patternBytes(40), parameters);
      expect(encodeHex(await wasm(patternBytes(40), parameters)), `${memoryKib}`).toBe(encodeHex(expected));
    }
  });

  it("derives the key of a vault by the AeroVault reference: 128 MiB, four passes, four lanes", async () => {
    const salt = hex("10c901bf6a339b612489e66c7764483835063c3918e061158e1278cf5d3f50de");
    const parameters = { salt, memoryKib: 131_072, passes: 4, lanes: 4, byteLength: 32 };
    const password = encodeUtf8("aerovault-fixture-pw");
    const expected = "8fd1f730a2f7fb1b4777a86a0a0841e92159bfa60dd83b0b21f54a22184af85f";
    expect(encodeHex(await (await loadArgon2Wasm())(password, parameters))).toBe(expected);
    const native = await NODE_ARGON2[0]?.load().catch(() => undefined);
    expect(native === undefined || encodeHex(await native(password, parameters)) === expected).toBe(true);
  });

  it("throws a LimitError if the host lacks the memory", async () => {
    const wasm = await loadArgon2Wasm();
    const parameters = { salt: patternBytes(16), memoryKib: 4 << 20, passes: 1, lanes: 4, byteLength: 32 };
    await expect(wasm(patternBytes(4), parameters)).rejects.toMatchObject({ code: "limit/argon2.memory" });
  });

  it("the native implementations on this machine agree", async () => {
    for (const candidate of NODE_ARGON2) {
      const native = await candidate.load().catch(() => undefined);
      expect(native === undefined || (await provesArgon2(native)), candidate.implementation).toBe(true);
    }
  });

  it("refuses parameters that make no sense", async () => {
    const parameters = { salt: new Uint8Array(16), memoryKib: 31, passes: 1, lanes: 4, byteLength: 32 };
    await expect(argon2Javascript(new Uint8Array(1), parameters)).rejects.toMatchObject({ code: "usage/argon2" });
    const huge = { ...parameters, memoryKib: 2 ** 40 };
    await expect(argon2Javascript(new Uint8Array(1), huge)).rejects.toMatchObject({ code: "usage/argon2" });
  });
});
