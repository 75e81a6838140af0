import { describe, expect, it } from "vitest";
import { encodeHex, encodeUtf8 } from "../../base/text.ts";
import { hkdfSha256 } from "../../primitives/crypto/hmac.ts";
import { portableEngine } from "../../primitives/portable.ts";
import { blockAad, VaultCipher } from "./cipher.ts";
import { completeKeys, expandWrappingKeys, headerMac, plainKeys } from "./keys.ts";
import { vaultHeader, withMac, withoutMac } from "./layout.ts";

const engine = portableEngine();
const filled = (value: number, length = 32): Uint8Array<ArrayBuffer> => new Uint8Array(length).fill(value);

/** Known answers of the format: docs/formats/aerovault.md#known-answers. */
describe("key schedule", () => {
  it("wrapping keys come from Argon2id's output by HKDF", async () => {
    const { master, mac } = await expandWrappingKeys(engine, filled(0x2a));
    expect(encodeHex(master)).toBe("f9acc8a12aec92fc3db9453e76fc0c44949b84f4864da775b5896703f3e5234d");
    expect(encodeHex(mac)).toBe("6ff7195d1f9d9b19ef1681a238b563640221ed98d5c0e1ea72eac90adec22329");
  });

  it("chunk ids are keyed BLAKE3, cut to 128 bits", async () => {
    const keys = await completeKeys(engine, { lane: "encrypted", master: filled(0x11), mac: filled(0) });
    expect(encodeHex(keys.chunkId)).toBe("7773bb7d76fa136062ea5d1a8c3747700298bb19a386edb12dd3db30520f4414");
    const cipher = await VaultCipher.create(engine, { ...keys, chunkId: filled(0x11) });
    expect(cipher.chunkId(encodeUtf8("the quick brown fox"))).toBe("a1dfa5b146fe5f3a3264b05a167f181b");
  });

  it("the keys of the plaintext lane are public", async () => {
    const keys = plainKeys();
    const info = encodeUtf8("AeroVault v3 aerovz header integrity key");
    const secret = encodeUtf8("AeroVault v3 aerovz public container");
    expect(keys.mac).toEqual(await hkdfSha256(engine, secret, { info, byteLength: 32 }));
    expect(keys).toEqual(await completeKeys(engine, { lane: "plain", master: filled(0), mac: keys.mac }));
    keys.mac.fill(0);
    expect(plainKeys().mac).not.toEqual(keys.mac);
  });
});

describe("header", () => {
  const values = {
    flags: 0,
    salt: filled(1),
    wrappedMasterKey: filled(2, 40),
    wrappedMacKey: filled(3, 40),
    dataLength: 4096,
    manifestOffset: 5120,
    manifestLength: 256,
    extensionDirectoryOffset: 5376,
    extensionDirectoryLength: 2,
    extensionPayloadOffset: 5378,
    extensionPayloadLength: 0,
  };

  it("has the frozen bytes", async () => {
    const digest = await engine.digest("blake3", vaultHeader.encode(values));
    expect(encodeHex(digest)).toBe("77cecd7ba9f74fe3683e99d2ff7774915d00914e55bdf059d63df0915d92e9d3");
  });

  it("its MAC covers every byte but its own field", async () => {
    const header = vaultHeader.encode(values);
    const mac = await headerMac(engine, filled(9), header);
    expect(await headerMac(engine, filled(9), withMac(header, mac))).toEqual(mac);
    expect(withoutMac(withMac(header, mac))).toEqual(header);
    for (const offset of [11, 136, 500, 959]) {
      const changed = header.map((byte, i) => (i === offset ? byte ^ 1 : byte));
      expect(await headerMac(engine, filled(9), changed)).not.toEqual(mac);
    }
  });
});

describe("VaultCipher", () => {
  it("binds a block to its index and its id", async () => {
    const keys = await completeKeys(engine, { lane: "encrypted", master: filled(7), mac: filled(8) });
    const cipher = await VaultCipher.create(engine, keys);
    const name = { blockIndex: 258, id: "a1dfa5b146fe5f3a3264b05a167f181b" };
    const block = cipher.sealBlock(encodeUtf8("content"), name, () => filled(5, 12));
    expect(block.byteLength).toBe(7 + 28);
    expect(block.subarray(0, 12)).toEqual(filled(5, 12));
    expect(cipher.openBlock(block, name)).toEqual(encodeUtf8("content"));
    expect(cipher.openBlock(block, { ...name, blockIndex: 2 })).toBeUndefined();
    expect(cipher.openBlock(block, { ...name, id: name.id.replace("a", "b") })).toBeUndefined();
    expect(cipher.openManifest(block)).toBeUndefined();
    expect(cipher.openBlock(block.subarray(0, 27), name)).toBeUndefined();
  });

  it("writes the associated data as label, index and hex digits", () => {
    const aad = blockAad({ blockIndex: 258, id: "a1dfa5b146fe5f3a3264b05a167f181b" });
    const text = new TextDecoder("latin1").decode(aad);
    expect(text).toBe("AeroVault v3 block\u0002\u0001\0\0\0\0\0\0a1dfa5b146fe5f3a3264b05a167f181b");
    expect(aad.byteLength).toBe(58);
  });

  it("leaves bytes as they are in the plaintext lane", async () => {
    const cipher = await VaultCipher.create(engine, plainKeys());
    const bytes = encodeUtf8("open");
    const name = { blockIndex: 0, id: "0".repeat(32) };
    expect(cipher.sealBlock(bytes, name, () => filled(1, 12))).toBe(bytes);
    expect(cipher.openBlock(bytes, name)).toBe(bytes);
    expect([cipher.sealBytes, cipher.plainOffset]).toEqual([0, 0]);
  });
});
