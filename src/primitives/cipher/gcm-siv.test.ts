import { beforeAll, describe, expect, it } from "vitest";
import { GCM_SIV_VECTORS } from "../../../test/vectors/gcm-siv.ts";
import { xorshiftBytes } from "../../../test/vectors/xorshift.ts";
import type { Bytes } from "../../base/bytes.ts";
import { decodeHex, encodeHex } from "../../base/text.ts";
import { NODE_GCM_SIV } from "../../platform/node/engine/crypto.ts";
import { patternBytes } from "../digest/implementation.ts";
import { type GcmSiv, type GcmSivKey, provesGcmSiv } from "./gcm-siv.ts";
import { gcmSivJavascript } from "./gcm-siv-javascript.ts";
import { loadGcmSivWasm } from "./gcm-siv-wasm.ts";

const TIERS: readonly (readonly [string, () => Promise<GcmSiv>])[] = [
  ["plain TypeScript", async () => gcmSivJavascript],
  ["WebAssembly", loadGcmSivWasm],
  ["node:crypto", () => NODE_GCM_SIV.load()],
];

const KEY = patternBytes(32);
const NONCE = patternBytes(12);
/** Around blocks, groups of sixteen and the kernel's window of 64 KiB. */
const LENGTHS = [0, 1, 15, 16, 17, 240, 255, 256, 257, 4095, 65_535, 65_536, 65_537, 131_072 + 33];

describe.each(TIERS)("AES-256-GCM-SIV in %s", (_name, load) => {
  let gcmSiv: GcmSiv;
  let key: GcmSivKey;
  beforeAll(async () => {
    gcmSiv = await load();
    key = gcmSiv(KEY);
  });

  it("proves itself", () => {
    expect(provesGcmSiv(gcmSiv)).toBe(true);
  });

  it("agrees with plain TypeScript around every block and window length, and opens what it sealed", () => {
    const reference = gcmSivJavascript(KEY);
    for (const length of LENGTHS) {
      const plain = xorshiftBytes(length, BigInt(length));
      const associated = patternBytes((length * 7) % 600);
      const sealed = key.seal(NONCE, plain, associated);
      expect(Buffer.compare(sealed, reference.seal(NONCE, plain, associated)), `${length}`).toBe(0);
      expect(Buffer.compare(key.open(NONCE, sealed, associated) ?? Buffer.of(1), plain), `${length}`).toBe(0);
    }
  });

  it("seals and opens in place", () => {
    const plain = xorshiftBytes(70_000, 5n);
    const room = new Uint8Array(70_020);
    room.set(plain);
    const sealed = key.seal(NONCE, room.subarray(0, 70_000), NONCE, room);
    expect(sealed.byteLength).toBe(70_016);
    expect(sealed.buffer).toBe(room.buffer);
    expect(Buffer.compare(sealed, key.seal(NONCE, plain, NONCE))).toBe(0);
    const opened = key.open(NONCE, sealed, NONCE, sealed);
    expect(Buffer.compare(opened ?? Buffer.of(1), plain)).toBe(0);
  });

  it.each([0, 300, 66_000, 70_000 + 15])("returns nothing if byte %i is changed", (at) => {
    const sealed = key.seal(NONCE, patternBytes(70_000), NONCE);
    sealed[at] = (sealed[at] as number) ^ 0x10;
    const into = new Uint8Array(70_000).fill(7);
    expect(key.open(NONCE, sealed, NONCE, into)).toBeUndefined();
    expect(into.every((byte) => byte === 0)).toBe(true);
  });

  it("opens nothing with another nonce, other associated bytes, another key, or too few bytes", () => {
    const sealed = key.seal(NONCE, KEY, NONCE);
    expect(key.open(patternBytes(13).subarray(1), sealed, NONCE)).toBeUndefined();
    expect(key.open(NONCE, sealed, KEY)).toBeUndefined();
    expect(gcmSiv(new Uint8Array(32)).open(NONCE, sealed, NONCE)).toBeUndefined();
    expect(key.open(NONCE, sealed.subarray(0, 15), NONCE)).toBeUndefined();
  });

  it("refuses an output without room", () => {
    const seal = (): Bytes => key.seal(NONCE, KEY, NONCE, new Uint8Array(47));
    expect(seal).toThrow(expect.objectContaining({ code: "usage/gcm-siv" }));
  });

  it("keys used in turns do not disturb each other, nor does wiping one", () => {
    const other = gcmSiv(patternBytes(64).subarray(32));
    const expected = encodeHex(gcmSivJavascript(KEY).seal(NONCE, KEY, NONCE));
    other.seal(NONCE, patternBytes(999), KEY);
    expect(encodeHex(key.seal(NONCE, KEY, NONCE))).toBe(expected);
    other.wipe();
    other.wipe();
    expect(encodeHex(key.seal(NONCE, KEY, NONCE))).toBe(expected);
    const seal = (): Bytes => other.seal(NONCE, KEY, NONCE);
    expect(seal).toThrow(expect.objectContaining({ code: "usage/gcm-siv" }));
  });

  it("does not keep the caller's key", () => {
    const [vector] = GCM_SIV_VECTORS.slice(3);
    const bytes = (hex = ""): Bytes => decodeHex(hex) ?? new Uint8Array(0);
    const own = bytes(vector?.key);
    const ready = gcmSiv(own);
    own.fill(0);
    expect(encodeHex(ready.seal(bytes(vector?.nonce), bytes(vector?.plain), bytes(vector?.associated)))).toBe(
      vector?.sealed,
    );
  });
});
