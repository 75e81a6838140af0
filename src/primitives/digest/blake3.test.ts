import { describe, expect, it } from "vitest";
import { BLAKE3_VECTOR_KEY, BLAKE3_VECTORS } from "../../../test/vectors/blake3.ts";
import type { Bytes } from "../../base/bytes.ts";
import { encodeHex, encodeUtf8 } from "../../base/text.ts";
import { blake3, cutBlake3 } from "./blake3.ts";
import { blake3Javascript } from "./blake3-javascript.ts";
import { loadBlake3Wasm } from "./blake3-wasm.ts";
import { type Blake3Core, type Blake3Domain, patternBytes } from "./implementation.ts";

const CORES: readonly (readonly [string, () => Promise<Blake3Core>])[] = [
  ["plain TypeScript", async () => blake3Javascript],
  ["WebAssembly", loadBlake3Wasm],
];

/** The IV as the key of the plain hash, little-endian. */
const IV = "67e6096a85ae67bb72f36e3c3af54fa57f520e518c68059babd9831f19cde05b";

describe.each(CORES)("BLAKE3 in %s", (_name, load) => {
  const domain = { key: Uint8Array.from(IV.match(/../g) ?? [], (pair) => Number.parseInt(pair, 16)), flags: 0 };

  it("blake3() wipes its copy of a key, and the one that its core keeps", async () => {
    const core = await load();
    const key = encodeUtf8(BLAKE3_VECTOR_KEY);
    const keys: Bytes[] = [];
    const watched = new Proxy(core, {
      get(target, name) {
        const value: unknown = Reflect.get(target, name);
        if (typeof value !== "function") return value;
        return (keyed: Blake3Domain, ...rest: readonly unknown[]) => {
          keys.push(keyed.key.slice());
          return value.call(target, keyed, ...rest);
        };
      },
    });
    const keyed = blake3(watched).keyed(key);
    keyed.create().digest();
    expect(keys.at(-1)).toEqual(key);
    keyed.wipe();
    expect(keys.at(-1)).toEqual(new Uint8Array(key.byteLength));
    expect(key).toEqual(encodeUtf8(BLAKE3_VECTOR_KEY));
  });

  it("blake3() with a key gives the official keyed values", async () => {
    const implementation = blake3(await load()).keyed(encodeUtf8(BLAKE3_VECTOR_KEY));
    const digests = BLAKE3_VECTORS.map(({ byteLength }) => {
      const hasher = implementation.create();
      hasher.update(patternBytes(byteLength));
      return encodeHex(hasher.digest());
    });
    expect(digests).toEqual(BLAKE3_VECTORS.map((vector) => vector.keyed));
  });

  // Computed with a separate implementation in Python, which was checked against the official vectors.
  it("chunk() counts beyond 32 bits", async () => {
    const out = { bytes: new Uint8Array(32), offset: 0 };
    (await load()).chunk(domain, patternBytes(1024), 2 ** 32 + 5, 0, out);
    expect(encodeHex(out.bytes)).toBe("3b6a21cad863fac350d7af2115f754e9070e8eda06593bbd62368792809433f2");
  });

  it("subtree() and parent() of four chunks beyond 32 bits give one chaining value", async () => {
    const core = await load();
    const input = patternBytes(4096);
    const counter = 2 ** 33 + 8;
    const cvs = new Uint8Array(128);
    for (let i = 0; i < 4; i++) {
      const single = input.subarray(1024 * i, 1024 * (i + 1));
      core.subtree(domain, single, counter + i, { bytes: cvs, offset: 32 * i });
    }
    core.parent(domain, { bytes: cvs, offset: 64 }, 0);
    core.parent(domain, { bytes: cvs, offset: 0 }, 0);
    cvs.copyWithin(32, 64, 96);
    core.parent(domain, { bytes: cvs, offset: 0 }, 0);
    expect(encodeHex(cvs.slice(0, 32))).toBe("52120b0f34df522eda10a50add2dd8f4e4e71134db00b51f9dd4e8b7f113fa9e");
    if (core.maxChunks < 4) return;
    core.subtree(domain, input, counter, { bytes: cvs, offset: 96 });
    expect(encodeHex(cvs.slice(96))).toBe("52120b0f34df522eda10a50add2dd8f4e4e71134db00b51f9dd4e8b7f113fa9e");
  });

  it("hashes any number of chunks around the widest subtree", async () => {
    const core = await load();
    const chunks = [127, 128, 129, 257];
    const lengths = chunks.flatMap((count) => [count * 1024 - 1, count * 1024, count * 1024 + 1]);
    const digestOf = (implementation: ReturnType<typeof blake3>, byteLength: number, first: number): string => {
      const hasher = implementation.create();
      const input = patternBytes(byteLength);
      hasher.update(input.subarray(0, first));
      hasher.update(input.subarray(first));
      return encodeHex(hasher.digest());
    };
    // One chunk at a time is the simplest way through the tree.
    const single = blake3({ ...blake3Javascript, maxChunks: 1 });
    for (const byteLength of lengths) {
      const expected = digestOf(single, byteLength, 0);
      for (const first of [0, 1, 1024, 3 * 1024 + 1]) expect(digestOf(blake3(core), byteLength, first)).toBe(expected);
    }
  });
});

/** The digest of an input in subtrees of `chunks` chunks; each comes in two pieces. */
function cutDigest(core: Blake3Core, input: Bytes, chunks: number): string {
  const { subtree, join } = cutBlake3(core);
  const values: Bytes[] = [];
  for (let start = 0; start < input.byteLength; start += chunks * 1024) {
    const hasher = subtree(start);
    const end = Math.min(input.byteLength, start + chunks * 1024);
    const middle = start + Math.floor((end - start) / 3);
    hasher.update(input.subarray(start, middle));
    hasher.update(input.subarray(middle, end));
    values.push(hasher.digest());
  }
  return encodeHex(join(values));
}

describe.each(CORES)("cutBlake3() in %s", (_name, load) => {
  it.each([1, 2, 4, 64, 256])("gives the digest of the whole, in subtrees of %i chunks", async (chunks) => {
    const core = await load();
    const lengths = [1.001, 2, 2.5, 3, 4, 4.001, 5, 7.999, 8].map((times) => Math.ceil(times * chunks * 1024));
    for (const byteLength of lengths) {
      const input = patternBytes(byteLength);
      const whole = blake3(core).create();
      whole.update(input);
      const expected = encodeHex(whole.digest());
      expect(cutDigest(core, input, chunks), String(byteLength)).toBe(expected);
      const own = cutBlake3(core).whole();
      own.update(input);
      expect(encodeHex(own.digest())).toBe(expected);
    }
  });
});
