import { describe, expect, it } from "vitest";
import { type Bytes, EMPTY_BYTES } from "../../src/base/bytes.ts";
import { decodeHex, encodeHex, encodeUtf8 } from "../../src/base/text.ts";
import { chunkLengths } from "../../src/primitives/chunking/gear.ts";
import { hkdfSha256, hmacSha512 } from "../../src/primitives/crypto/hmac.ts";
import { patternBytes } from "../../src/primitives/digest/implementation.ts";
import type { Engine } from "../../src/primitives/engine.ts";
import { KEY_WRAP_FORGERIES, KEY_WRAP_VECTORS } from "../vectors/aes-key-wrap.ts";
import { BLAKE3_VECTOR_KEY, BLAKE3_VECTORS } from "../vectors/blake3.ts";
import { GCM_SIV_FORGERIES, GCM_SIV_VECTORS } from "../vectors/gcm-siv.ts";
import { xorshiftBytes } from "../vectors/xorshift.ts";

const hex = (text: string): Bytes => decodeHex(text) ?? EMPTY_BYTES;

/** What vaults are made of, the same in every engine. */
export function vaultPrimitives(engine: () => Engine): void {
  describe("aesGcmSiv()", () => {
    it.each(GCM_SIV_VECTORS)("$name", async ({ key, nonce, associated, plain, sealed }) => {
      const ready = await engine().aesGcmSiv(hex(key));
      expect(encodeHex(ready.seal(hex(nonce), hex(plain), hex(associated)))).toBe(sealed);
      const opened = ready.open(hex(nonce), hex(sealed), hex(associated));
      expect(opened === undefined ? undefined : encodeHex(opened)).toBe(plain);
    });

    it.each(GCM_SIV_FORGERIES.messages)("opens no forgery: Wycheproof $number", async ({ associated, sealed }) => {
      const ready = await engine().aesGcmSiv(hex(GCM_SIV_FORGERIES.key));
      expect(ready.open(hex(GCM_SIV_FORGERIES.nonce), hex(sealed), hex(associated))).toBeUndefined();
    });

    it("refuses keys and nonces of other lengths", async () => {
      await expect(engine().aesGcmSiv(new Uint8Array(16))).rejects.toMatchObject({ code: "usage/gcm-siv" });
      const ready = await engine().aesGcmSiv(new Uint8Array(32));
      const seal = (): Bytes => ready.seal(new Uint8Array(16), EMPTY_BYTES, EMPTY_BYTES);
      expect(seal).toThrow(expect.objectContaining({ code: "usage/gcm-siv" }));
    });
  });

  describe("aes()", () => {
    it.each(KEY_WRAP_VECTORS)("wraps and unwraps $key", async ({ wrappingKey, key, wrapped }) => {
      const aes = await engine().aes();
      expect(encodeHex(await aes.wrapKey(hex(wrappingKey), hex(key)))).toBe(wrapped);
      expect(await aes.unwrapKey(hex(wrappingKey), hex(wrapped))).toEqual(hex(key));
    });

    it("unwraps no forgery, and nothing too short or of half a word", async () => {
      const aes = await engine().aes();
      const lengths = ["", "a6".repeat(8), "a6".repeat(16), "a6".repeat(12), "a6".repeat(28)];
      for (const wrapped of [...KEY_WRAP_FORGERIES.wrapped, ...lengths]) {
        expect(await aes.unwrapKey(hex(KEY_WRAP_FORGERIES.wrappingKey), hex(wrapped)), wrapped).toBeUndefined();
      }
    });
  });

  it("blake3Keyed() gives the official keyed values, whole and in pieces", async () => {
    const keyed = await engine().blake3Keyed(encodeUtf8(BLAKE3_VECTOR_KEY));
    for (const { byteLength, keyed: expected } of BLAKE3_VECTORS.filter((one) => one.byteLength < 9000)) {
      const bytes = patternBytes(byteLength);
      expect(encodeHex(keyed.digest(bytes))).toBe(expected);
      const hasher = keyed.create();
      hasher.update(bytes.subarray(0, 700));
      hasher.update(bytes.subarray(700));
      expect(encodeHex(hasher.digest())).toBe(expected);
    }
    await expect(engine().blake3Keyed(new Uint8Array(31))).rejects.toMatchObject({ code: "usage/blake3.key" });
  });

  it("HKDF and HMAC-SHA-512 over hasher() give the answers of RFC 5869 and RFC 4231", async () => {
    const okm = await hkdfSha256(engine(), hex("0b".repeat(22)), { info: EMPTY_BYTES, byteLength: 42 });
    expect(encodeHex(okm)).toBe("8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8");
    const mac = await hmacSha512(engine(), hex("0b".repeat(20)), [encodeUtf8("Hi "), encodeUtf8("There")]);
    expect(encodeHex(mac)).toBe(
      "87aa7cdea5ef619d4ff0b4241a1d6cb02379f4e2ce4ec2787ad0b30545e17cdedaa833b7d6b8a702038b274eaea3f4e4be9d914eeb61f1702e696c203a126854",
    );
  });

  it("gear() cuts where big integers say, by either step", async () => {
    const table = BigUint64Array.from({ length: 256 }, (_, i) =>
      BigInt.asUintN(64, BigInt(i + 1) ** 9n * 0x9e3779b97f4a7c15n),
    );
    const bytes = xorshiftBytes(50_000, 77n);
    for (const step of ["shift", "rotate"] as const) {
      const rule = { table, step, minBytes: 700, averageBytes: 2048, maxBytes: 5000 };
      expect(chunkLengths(await engine().gear(rule), bytes)).toEqual(cutWithBigIntegers(rule, bytes));
    }
    const rule = { table, step: "shift", minBytes: 700, averageBytes: 1000, maxBytes: 5000 } as const;
    await expect(engine().gear(rule)).rejects.toMatchObject({ code: "usage/gear.rule" });
  });

  it("reedSolomon() gives parity from which any two lost shards come back", async () => {
    const code = await engine().reedSolomon(13, 2);
    const data = Array.from({ length: 13 }, (_, i) => xorshiftBytes(9001, BigInt(i)));
    const parity = [new Uint8Array(9001), new Uint8Array(9001)];
    code.encode(data, parity);
    for (const pair of [
      [0, 1],
      [4, 12],
      [7, 13],
    ] as const) {
      const left = [...data, ...parity].map((shard, i) => (pair.some((lost) => lost === i) ? undefined : shard));
      const lost = new Map(pair.filter((index) => index < 13).map((index) => [index, new Uint8Array(9001)]));
      expect(code.reconstruct(left, lost)).toBe(true);
      for (const [index, shard] of lost) expect(Buffer.compare(shard, data[index] as Bytes)).toBe(0);
    }
    await expect(engine().reedSolomon(250, 7)).rejects.toMatchObject({ code: "usage/reed-solomon" });
  });
}

interface Rule {
  readonly table: BigUint64Array;
  readonly step: "shift" | "rotate";
  readonly minBytes: number;
  readonly averageBytes: number;
  readonly maxBytes: number;
}

/** The rule as it is written down, one byte after the other. */
export function cutWithBigIntegers({ table, step, minBytes, averageBytes, maxBytes }: Rule, bytes: Bytes): number[] {
  const lengths: number[] = [];
  const bits = BigInt(Math.log2(averageBytes));
  let [hash, length] = [0n, 0];
  for (const byte of bytes) {
    const carried = step === "rotate" ? hash >> 63n : 0n;
    hash = BigInt.asUintN(64, (hash << 1n) + carried + (table[byte] as bigint));
    length++;
    const tested = step === "shift" ? hash >> (64n - bits) : hash & (2n ** bits - 1n);
    if (length < minBytes || (tested !== 0n && length < maxBytes)) continue;
    lengths.push(length);
    [hash, length] = [0n, 0];
  }
  return length === 0 ? lengths : [...lengths, length];
}
