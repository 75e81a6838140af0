import { createCipheriv, createHash, createHmac as nodeHmac, randomBytes } from "node:crypto";
import { deflateRawSync } from "node:zlib";
import { describe, expect, it } from "vitest";
import { type Bytes, concatBytes, EMPTY_BYTES } from "../../src/base/bytes.ts";
import { decodeHex, encodeHex, encodeUtf8 } from "../../src/base/text.ts";
import { atOnce } from "../../src/base/turns.ts";
import { applyCounter, countFromEnd, countFromStart } from "../../src/primitives/cipher/aes.ts";
import { aesSiv } from "../../src/primitives/cipher/aes-siv.ts";
import { createHmac } from "../../src/primitives/crypto/hmac.ts";
import { patternBytes } from "../../src/primitives/digest/implementation.ts";
import type { Engine } from "../../src/primitives/engine.ts";
import { SIV_VECTORS } from "../vectors/aes-siv.ts";
import { CHACHA_FORGERIES, CHACHA_VECTORS } from "../vectors/chacha20-poly1305.ts";
import { xorshiftBytes } from "../vectors/xorshift.ts";

const hex = (text: string): Bytes => decodeHex(text) ?? EMPTY_BYTES;
const AT = { source: "test", offset: 7 };

/** What vaults of versions 1 and 2 are read with, the same in every engine. */
export function legacyPrimitives(engine: () => Engine): void {
  describe("AES-SIV over aesBlocks()", () => {
    it("opens long messages in steps as it opens them at once", async () => {
      const siv = await aesSiv(engine(), new Uint8Array(64).fill(7));
      for (const byteLength of [0, 15, 16, 65_535, 65_536, 65_537, 131_072, 200_001]) {
        const plain = Uint8Array.from({ length: byteLength }, (_, i) => (i * 7 + (i >> 8)) & 255);
        const sealed = siv.seal(plain, [EMPTY_BYTES]);
        expect(atOnce(siv.opening(sealed, [EMPTY_BYTES]))).toEqual(plain);
        sealed[sealed.byteLength - 1] = (sealed.at(-1) ?? 0) ^ 1;
        expect(atOnce(siv.opening(sealed, [EMPTY_BYTES]))).toBeUndefined();
      }
      expect(atOnce(siv.opening(new Uint8Array(15), [EMPTY_BYTES]))).toBeUndefined();
    });
    it.each(SIV_VECTORS)("Wycheproof $number", async ({ key, component, plain, sealed }) => {
      const siv = await aesSiv(engine(), hex(key));
      expect(encodeHex(siv.seal(hex(plain), [hex(component)]))).toBe(sealed);
      const opened = siv.open(hex(sealed), [hex(component)]);
      expect(opened === undefined ? undefined : encodeHex(opened)).toBe(plain);
      for (const at of [0, 15, sealed.length / 2 - 1]) {
        const forged = hex(sealed);
        forged[at] = (forged[at] as number) ^ 1;
        expect(siv.open(forged, [hex(component)])).toBeUndefined();
      }
      expect(siv.open(hex(sealed), [hex(component), EMPTY_BYTES])).toBeUndefined();
      expect(siv.open(hex(sealed).subarray(0, 15), [hex(component)])).toBeUndefined();
    });

    it("refuses keys of other lengths", async () => {
      await expect(aesSiv(engine(), new Uint8Array(32))).rejects.toMatchObject({ code: "usage/aes.siv" });
    });
  });

  it("aesBlocks() counts as OpenSSL does, and from the other end, at any length", async () => {
    const key = patternBytes(32);
    const blocks = await engine().aesBlocks(key);
    for (const byteLength of [0, 1, 16, 4097, 70_001]) {
      const bytes = xorshiftBytes(byteLength, 5n);
      const first = hex("fffffffffffffffffffffffffffffffe");
      const expected = new Uint8Array(createCipheriv("aes-256-ctr", key, first).update(bytes));
      expect(applyCounter(blocks, bytes, first, countFromEnd)).toEqual(expected);
    }
    // The key stream is the encipherment of the counter blocks, whichever end they count at.
    const stream = applyCounter(blocks, new Uint8Array(48), hex(`ff${"00".repeat(15)}`), countFromStart);
    const counters = hex(`ff${"00".repeat(15)}0001${"00".repeat(14)}0101${"00".repeat(14)}`);
    expect(stream).toEqual(blocks.encrypt(counters));
    blocks.wipe();
    expect(() => blocks.encrypt(counters)).toThrow(expect.objectContaining({ code: "usage/aes.blocks" }));
    expect(() => blocks.chain(counters)).toThrow(expect.objectContaining({ code: "usage/aes.blocks" }));
    await expect(engine().aesBlocks(new Uint8Array(16))).rejects.toMatchObject({ code: "usage/aes.blocks" });
    const odd = await engine().aesBlocks(key);
    expect(() => odd.encrypt(new Uint8Array(17))).toThrow(expect.objectContaining({ code: "usage/aes.blocks" }));
    expect(() => odd.chain(new Uint8Array(15))).toThrow(expect.objectContaining({ code: "usage/aes.blocks" }));
  });

  describe("chacha20Poly1305()", () => {
    it.each(CHACHA_VECTORS)("$name", async ({ key, nonce, associated, plain, sealed }) => {
      const ready = await engine().chacha20Poly1305(hex(key));
      expect(encodeHex(ready.seal(hex(nonce), hex(plain), hex(associated)))).toBe(sealed);
      const opened = ready.open(hex(nonce), hex(sealed), hex(associated));
      expect(opened === undefined ? undefined : encodeHex(opened)).toBe(plain);
    });

    it("opens no forgery of Wycheproof's", async () => {
      const { key, nonce, associated, right, sealed } = CHACHA_FORGERIES;
      const ready = await engine().chacha20Poly1305(hex(key));
      expect(ready.open(hex(nonce), hex(right), hex(associated))).toEqual(EMPTY_BYTES);
      for (const forged of [...sealed, "", right.slice(2)]) {
        expect(ready.open(hex(nonce), hex(forged), hex(associated)), forged).toBeUndefined();
      }
    });

    it("agrees with OpenSSL at any length, and refuses other keys and nonces", async () => {
      const ready = await engine().chacha20Poly1305(patternBytes(32));
      for (const byteLength of [15, 63, 64, 65, 1000, 70_000]) {
        const bytes = xorshiftBytes(byteLength, 9n);
        const nonce = new Uint8Array(randomBytes(12));
        const cipher = createCipheriv("chacha20-poly1305", patternBytes(32), nonce, { authTagLength: 16 });
        cipher.setAAD(nonce, { plaintextLength: byteLength });
        const expected = concatBytes(
          [cipher.update(bytes), cipher.final(), cipher.getAuthTag()].map((b) => new Uint8Array(b)),
        );
        expect(Buffer.compare(ready.seal(nonce, bytes, nonce), expected)).toBe(0);
      }
      await expect(engine().chacha20Poly1305(new Uint8Array(31))).rejects.toMatchObject({
        code: "usage/chacha20-poly1305",
      });
      const seal = (nonce: Bytes) => (): Bytes => ready.seal(nonce, EMPTY_BYTES, EMPTY_BYTES);
      expect(seal(new Uint8Array(8))).toThrow(expect.objectContaining({ code: "usage/chacha20-poly1305" }));
      ready.wipe();
      expect(seal(new Uint8Array(12))).toThrow(expect.objectContaining({ code: "usage/chacha20-poly1305" }));
    });
  });

  it("hasher() gives SHA-1, and HMAC over it what RFC 2202 has", async () => {
    for (const byteLength of [0, 3, 55, 56, 64, 1000]) {
      const hasher = await engine().hasher("sha1");
      hasher.update(patternBytes(byteLength));
      expect(encodeHex(hasher.digest())).toBe(createHash("sha1").update(patternBytes(byteLength)).digest("hex"));
    }
    const hmac = await createHmac(engine(), "sha1", hex("0b".repeat(20)));
    for (const piece of ["Hi ", "There"]) hmac.update(encodeUtf8(piece));
    expect(encodeHex(hmac.digest())).toBe("b617318655057264e28bc0b6fb378c8ef146be00");
    const long = await createHmac(engine(), "sha1", hex("aa".repeat(80)));
    long.update(encodeUtf8("Test Using Larger Than Block-Size Key - Hash Key First"));
    expect(encodeHex(long.digest())).toBe(
      nodeHmac("sha1", hex("aa".repeat(80)))
        .update("Test Using Larger Than Block-Size Key - Hash Key First")
        .digest("hex"),
    );
  });

  it("pbkdf2Sha1() gives the answers of RFC 6070", async () => {
    const derive = (password: string, salt: string, iterations: number, byteLength: number): Promise<Bytes> =>
      engine().pbkdf2Sha1(encodeUtf8(password), { salt: encodeUtf8(salt), iterations, byteLength });
    expect(encodeHex(await derive("password", "salt", 1, 20))).toBe("0c60c80f961f0e71f3a9b524af6012062fe037a6");
    expect(encodeHex(await derive("password", "salt", 4096, 20))).toBe("4b007901b765489abead49d926f721d065a429c1");
    expect(encodeHex(await derive("pass\0word", "sa\0lt", 4096, 16))).toBe("56fa6aa75548099dcc37d7f03425e0c3");
    const long = await derive("k".repeat(70), "salt", 1000, 66);
    expect(long.byteLength).toBe(66);
  });

  describe("inflater()", () => {
    it.each([0, 1, 5, 9])("gives back what zlib compressed at level %i, however it is cut", async (level) => {
      for (const content of [
        EMPTY_BYTES,
        encodeUtf8("a"),
        patternBytes(200_000),
        xorshiftBytes(100_000, 3n),
        words(300_000),
      ]) {
        const stream = new Uint8Array(deflateRawSync(content, { level }));
        for (const step of [stream.byteLength, 4093]) {
          const found = await inflateAll(engine(), stream, { step, maxBytes: content.byteLength });
          expect(Buffer.compare(found, content)).toBe(0);
        }
      }
    });

    it("takes the one distance code that zlib writes where there is one, and single bytes", async () => {
      const content = new Uint8Array(70_000).fill(7);
      const stream = new Uint8Array(deflateRawSync(content, { level: 9 }));
      expect(Buffer.compare(await inflateAll(engine(), stream, { step: 1, maxBytes: 70_000 }), content)).toBe(0);
    });

    it("refuses what is cut short, damaged, or has something after it", async () => {
      const stream = new Uint8Array(deflateRawSync(words(5000)));
      const bad = [
        EMPTY_BYTES,
        stream.subarray(0, -1),
        stream.subarray(0, 1),
        concatBytes([stream, Uint8Array.of(0)]),
        Uint8Array.of(0x07), // a block of type 3
        hex("000300ff00616263"), // a stored length that contradicts itself
        hex("4b4c0203"), // a match from before the start
        hex("fdffffffffffffffffff"), // more codes than there are symbols
      ];
      for (const bytes of bad) {
        const run = inflateAll(engine(), bytes, { step: 1000, maxBytes: 10_000 });
        await expect(run, encodeHex(bytes)).rejects.toMatchObject({ code: "format/deflate.stream", at: AT });
      }
    });

    it("stops at the limit, whatever the stream would give", async () => {
      const bomb = new Uint8Array(deflateRawSync(new Uint8Array(20_000_000), { level: 9 }));
      const run = inflateAll(engine(), bomb, { step: 1000, maxBytes: 100_000 });
      await expect(run).rejects.toMatchObject({ code: "limit/deflate.output" });
    });

    it("lets through what the pieces throw", async () => {
      const reason = new Error("the disk is gone");
      const inflate = await engine().inflater();
      const pieces = async function* (): AsyncGenerator<Bytes> {
        yield new Uint8Array(deflateRawSync(words(5000))).slice(0, 100);
        throw Object.assign(reason, { name: "AbortError" });
      };
      const run = async (): Promise<void> => {
        for await (const _ of inflate(pieces(), { maxBytes: 10_000, at: AT }));
      };
      await expect(run()).rejects.toBe(reason);
    });

    it("can be left early", async () => {
      const inflate = await engine().inflater();
      const stream = new Uint8Array(deflateRawSync(words(1_000_000)));
      let ended = false;
      const pieces = async function* (): AsyncGenerator<Bytes> {
        try {
          for (let at = 0; at < stream.byteLength; at += 1000) yield stream.slice(at, at + 1000);
        } finally {
          ended = true;
        }
      };
      for await (const piece of inflate(pieces(), { maxBytes: 1_000_000, at: AT })) {
        expect(piece.byteLength).toBeGreaterThan(0);
        break;
      }
      await expect.poll(() => ended).toBe(true);
    });
  });
}

function words(byteLength: number): Bytes {
  const noise = xorshiftBytes(byteLength, 11n);
  return noise.map((byte) => 97 + (byte & (byte >> 4) & 15));
}

async function inflateAll(
  engine: Engine,
  stream: Bytes,
  { step, maxBytes }: { readonly step: number; readonly maxBytes: number },
): Promise<Bytes> {
  const inflate = await engine.inflater();
  const pieces = async function* (): AsyncGenerator<Bytes> {
    for (let at = 0; at < stream.byteLength; at += step) yield stream.slice(at, at + step);
  };
  const found: Bytes[] = [];
  for await (const piece of inflate(pieces(), { maxBytes, at: AT })) found.push(piece.slice());
  return concatBytes(found);
}
