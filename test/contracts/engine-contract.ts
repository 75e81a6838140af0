import { createHash } from "node:crypto";
import { crc32 } from "node:zlib";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Bytes } from "../../src/base/bytes.ts";
import { encodeHex, encodeUtf8 } from "../../src/base/text.ts";
import { memorySource } from "../../src/bytes/memory.ts";
import type { Source } from "../../src/bytes/source.ts";
import { provesAes } from "../../src/primitives/cipher/aes.ts";
import { provesArgon2 } from "../../src/primitives/crypto/argon2.ts";
import { provesEd25519 } from "../../src/primitives/crypto/ed25519.ts";
import { patternBytes } from "../../src/primitives/digest/implementation.ts";
import { DIGEST_ALGORITHMS, type DigestAlgorithm, type Engine } from "../../src/primitives/engine.ts";
import { portableEngine } from "../../src/primitives/portable.ts";
import { BLAKE3_VECTORS } from "../vectors/blake3.ts";
import { CRC32_VECTORS } from "../vectors/crc32.ts";
import { SHA256_VECTORS } from "../vectors/sha256.ts";
import { legacyPrimitives } from "./legacy-primitives-contract.ts";
import { vaultPrimitives } from "./vault-primitives-contract.ts";
import { zstdContract } from "./zstd-contract.ts";

export interface EngineUnderTest {
  readonly engine: Engine;
  /** Ranges are hashed from what this gives; bytes in memory where absent. */
  openRange?(bytes: Bytes): Promise<Source>;
}

/** Two pieces and a bit of what an engine reads at a time. */
const RANGE_BYTES = (2 << 20) + 4321;

/** The suite every Engine must pass, whatever stands behind it. */
export function engineContract(name: string, make: () => Promise<EngineUnderTest>): void {
  describe(`engine contract: ${name}`, () => {
    let subject: EngineUnderTest;
    beforeAll(async () => {
      subject = await make();
    });
    afterAll(() => subject.engine.close());

    const engine = (): Engine => subject.engine;
    const openRange = async (bytes: Bytes): Promise<Source> =>
      (await subject.openRange?.(bytes)) ?? memorySource(bytes);
    knownAnswers(engine);
    agreement(engine);
    ranges(engine, openRange);
    vaultPrimitives(engine);
    legacyPrimitives(engine);
    zstdContract(engine);
  });
}

function knownAnswers(engine: () => Engine): void {
  it.each(BLAKE3_VECTORS)("digest() gives the official BLAKE3 value for $byteLength bytes", async (vector) => {
    expect(encodeHex(await engine().digest("blake3", patternBytes(vector.byteLength)))).toBe(vector.hash);
  });

  it("lz4() decodes a block written by hand from the block format", async () => {
    const codec = await engine().lz4();
    // One literal "a", a match of 19 at offset 1, five literals.
    const block = Uint8Array.from([0x1f, 0x61, 1, 0, 0, 0x50, 0x62, 0x63, 0x64, 0x65, 0x66]);
    const into = new Uint8Array(25);
    codec.decode(block, into, { source: "test" });
    expect(new TextDecoder().decode(into)).toBe(`${"a".repeat(20)}bcdef`);
    const short = (): void => codec.decode(block, new Uint8Array(24), { source: "test" });
    expect(short).toThrow(expect.objectContaining({ code: "format/lz4.block" }));
  });

  it.each(SHA256_VECTORS)("digest() gives NIST's SHA-256 value $hash", async ({ text, hash }) => {
    expect(encodeHex(await engine().digest("sha256", encodeUtf8(text)))).toBe(hash);
  });

  it.each(CRC32_VECTORS)('crc32() of "$text" is known', async ({ text, crc }) => {
    expect(await engine().crc32(encodeUtf8(text))).toBe(crc);
  });

  it("entries name an implementation for every primitive", () => {
    expect(engine().entries.map((entry) => entry.primitive)).toEqual([
      "sha256",
      "blake3",
      "crc32",
      "zstd",
      "lz4",
      "quantizer",
      "sha512",
      "aes",
      "ed25519",
      "argon2id",
      "aes-gcm-siv",
      "gear",
      "reed-solomon",
      "sha1",
      "aes-blocks",
      "chacha20-poly1305",
      "pbkdf2-sha1",
      "inflate",
    ]);
    for (const entry of engine().entries) expect(entry.implementation).toMatch(/\w/);
  });
}

function agreement(engine: () => Engine): void {
  const reference = portableEngine({ tier: "javascript" });
  const bytes = fc.uint8Array({ maxLength: 5000, size: "max" }) as fc.Arbitrary<Bytes>;

  it("digest() and crc32() agree with Node and with the plain TypeScript form at any length", async () => {
    const property = fc.asyncProperty(bytes, async (input) => {
      const sha256 = createHash("sha256").update(input).digest("hex");
      expect(encodeHex(await engine().digest("sha256", input))).toBe(sha256);
      expect(await engine().digest("blake3", input)).toEqual(await reference.digest("blake3", input));
      expect(await engine().crc32(input)).toBe(crc32(input));
    });
    await fc.assert(property, { numRuns: 60, seed: 1 });
  });

  it("crc32() continues from the CRC of the bytes before", async () => {
    const input = patternBytes(3000);
    for (const split of [0, 1, 15, 16, 17, 1024, 2999, 3000]) {
      const first = await engine().crc32(input.subarray(0, split));
      expect(await engine().crc32(input.subarray(split), first)).toBe(crc32(input));
    }
  });

  it.each(DIGEST_ALGORITHMS)("hasher() in odd pieces equals digest(): %s", async (algorithm) => {
    const input = patternBytes(150_001);
    const whole = await engine().digest(algorithm, input);
    for (const piece of [1023, 1024, 1025, 4097, 65_537, 149_999]) {
      const hasher = await engine().hasher(algorithm);
      for (let at = 0; at < input.byteLength; at += piece) hasher.update(input.subarray(at, at + piece));
      hasher.update(new Uint8Array(0));
      expect(encodeHex(hasher.digest())).toBe(encodeHex(whole));
    }
  });

  it.each(DIGEST_ALGORITHMS)("hashers that take turns do not disturb each other: %s", async (algorithm) => {
    const inputs = [patternBytes(9000), patternBytes(7000).fill(7)];
    const hashers = await Promise.all(inputs.map(() => engine().hasher(algorithm)));
    for (let at = 0; at < 9000; at += 700) {
      inputs.forEach((input, i) => {
        hashers[i]?.update(input.subarray(at, at + 700));
      });
    }
    const whole = await Promise.all(inputs.map((input) => engine().digest(algorithm, input)));
    expect(hashers.map((hasher) => encodeHex(hasher.digest()))).toEqual(whole.map(encodeHex));
  });

  it("gives the published answers of SHA-512, AES-256, Ed25519 and Argon2id", async () => {
    const hasher = await engine().hasher("sha512");
    hasher.update(patternBytes(1000));
    expect(encodeHex(hasher.digest())).toBe(createHash("sha512").update(patternBytes(1000)).digest("hex"));
    expect(await provesAes(await engine().aes())).toBe(true);
    expect(await provesEd25519(await engine().ed25519())).toBe(true);
    expect(await provesArgon2((password, parameters) => engine().argon2id(password, parameters))).toBe(true);
  });

  it("digest() reads a view that starts inside its buffer", async () => {
    const view = patternBytes(5003).subarray(3);
    expect(await engine().digest("blake3", view)).toEqual(await reference.digest("blake3", view.slice()));
    expect(encodeHex(await engine().digest("sha256", view))).toBe(createHash("sha256").update(view).digest("hex"));
    expect(await engine().crc32(view)).toBe(crc32(view));
  });
}

function ranges(engine: () => Engine, openRange: (bytes: Bytes) => Promise<Source>): void {
  const whole = patternBytes(RANGE_BYTES);

  it.each<readonly [DigestAlgorithm, number, number]>([
    ["sha256", 0, RANGE_BYTES],
    ["blake3", 0, RANGE_BYTES],
    ["blake3", 17, 1 << 20],
    ["sha256", 1000, 0],
    ["blake3", RANGE_BYTES - 5, 5],
  ])(
    "digestRange() equals digest(), and progress adds up: %s at %i, %i bytes",
    async (algorithm, offset, byteLength) => {
      const source = await openRange(whole);
      let progress = 0;
      const onProgress = (step: number): void => {
        progress += step;
      };
      const digest = await engine().digestRange(algorithm, source, { offset, byteLength, onProgress });
      await source.close();
      expect(digest).toEqual(await engine().digest(algorithm, whole.slice(offset, offset + byteLength)));
      expect(progress).toBe(byteLength);
    },
  );

  it("digestRange() runs several ranges at once", async () => {
    const source = await openRange(whole);
    const offsets = [0, 1, 100_000, 1 << 20];
    const run = (offset: number) => engine().digestRange("blake3", source, { offset, byteLength: 1 << 20 });
    const digests = await Promise.all(offsets.map(run));
    await source.close();
    const expected = await Promise.all(
      offsets.map((offset) => engine().digest("blake3", whole.slice(offset, offset + (1 << 20)))),
    );
    expect(digests.map(encodeHex)).toEqual(expected.map(encodeHex));
  });

  it("digestRange() rejects outside the source, as its read does", async () => {
    const source = await openRange(whole);
    const options = { offset: 1, byteLength: RANGE_BYTES };
    await expect(engine().digestRange("sha256", source, options)).rejects.toMatchObject({
      code: "source/out-of-range",
    });
    await source.close();
  });

  it.each([-1, 0.5, Number.NaN])("digestRange() refuses a length of %d", async (byteLength) => {
    const source = await openRange(whole);
    const run = engine().digestRange("sha256", source, { offset: 0, byteLength });
    await expect(run).rejects.toMatchObject({ code: "usage/engine.range" });
    await source.close();
  });

  it("digestRange() rejects with the reason of its signal, before and after the start", async () => {
    const source = await openRange(whole);
    const options = { offset: 0, byteLength: RANGE_BYTES };
    const reason = new Error("enough");
    const early = engine().digestRange("sha256", source, { ...options, signal: AbortSignal.abort(reason) });
    await expect(early).rejects.toBe(reason);
    const controller = new AbortController();
    const late = engine().digestRange("sha256", source, { ...options, signal: controller.signal });
    controller.abort(reason);
    await expect(late).rejects.toBe(reason);
    const after = await engine().digestRange("sha256", source, options);
    await source.close();
    expect(after).toEqual(await engine().digest("sha256", whole));
  });
}
