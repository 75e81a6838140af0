import { describe, expect, it } from "vitest";
import { quickEngine } from "../../../test/builders/sealed-apr.ts";
import { sealText } from "../../../test/builders/vault2.ts";
import { type Bytes, EMPTY_BYTES } from "../../base/bytes.ts";
import { decodeHex, encodeHex, encodeUtf8 } from "../../base/text.ts";
import { aesSiv } from "../../primitives/cipher/aes-siv.ts";
import { expandWrappingKeys } from "../aerovault/keys.ts";
import { ChunkCipher, chunkAad } from "./chunks.ts";
import { cascadeKey2, nameKey2, V2_LABELS } from "./keys.ts";
import { openText } from "./manifest.ts";

const engine = quickEngine();
const filled = (byte: number, length = 32): Bytes => new Uint8Array(length).fill(byte);
const NONCE = decodeHex("000102030405060708090a0b") ?? EMPTY_BYTES;

/** Values computed by other implementations and confirmed by vaults of the reference. */
describe("keys, names and chunks of version 2", () => {
  it("derives the wrapping keys, the key of names and that of the cascade", async () => {
    const wrapping = await expandWrappingKeys(engine, filled(0x2a), V2_LABELS);
    expect(encodeHex(wrapping.master)).toBe("be10267a6e18a8041b5b105f07560fae22ff2e6786af784c7450ec22105fb585");
    expect(encodeHex(wrapping.mac)).toBe("336f478733a9ba69ff1aeafdf061a14522a0acf1fc0a31818297cd4531ec673a");
    expect(encodeHex(await nameKey2(engine, filled(7)))).toBe(
      "b5cc3dcb2af5bf52d87566f3e540a9aa724a4053c897e1ea28b66165ec26525555bbc887f77fdaefdd22afa6a3ce6e74abdafb137f4da9a50a3967e7debea55c",
    );
    expect(encodeHex(await cascadeKey2(engine, filled(8)))).toBe(
      "c13ca39bfe70d14ca4bf48a4af4b0985c7e26ffdf724a218ce815fbf9457a371",
    );
  });

  it("encrypts names with the empty component first: without it the result differs", async () => {
    const names = await aesSiv(engine, await nameKey2(engine, filled(7)));
    expect(sealText(names, encodeUtf8("test.txt"))).toBe("0xiSEmRtyLLwLAm9shFWOjXQlyxxAoOs");
    expect(openText(names, "0xiSEmRtyLLwLAm9shFWOjXQlyxxAoOs")).toEqual(encodeUtf8("test.txt"));
    for (const bad of ["0xiSEmRtyLLwLAm9shFWOjXQlyxxAoOt", "0xiSEmRtyLLwLAm9shFWOjXQlyxxAoOs=", "+/", "", "a"]) {
      expect(openText(names, bad), bad).toBeUndefined();
    }
    expect(names.seal(encodeUtf8("test.txt"), [filled(0, 16)])).not.toEqual(
      names.seal(encodeUtf8("test.txt"), [EMPTY_BYTES, filled(0, 16)]),
    );
  });

  it("binds a chunk to its index, or to file, count and index", async () => {
    const cipher = await ChunkCipher.create(engine, { content: filled(5), cascade: undefined });
    const seal = (fileId: Bytes | undefined): string =>
      encodeHex(cipher.seal(encodeUtf8("data"), { index: 0, count: 1, fileId }, () => NONCE));
    expect(seal(undefined)).toBe("000102030405060708090a0b6d5b5ee94a41407e1a197948338c32b3b49e5f79");
    expect(seal(filled(1, 16))).toBe("000102030405060708090a0b2da4a38408b40ac0851f94eb28fc4cf3f5cf6638");
    expect(chunkAad({ index: 1, count: 2, fileId: filled(1, 16) })).toHaveLength(49);
  });

  it.each(["one", "two"] as const)("opens no chunk under another name, in layers: %s", async (layers) => {
    const cascade = layers === "two" ? filled(6) : undefined;
    const cipher = await ChunkCipher.create(engine, { content: filled(5), cascade });
    const name = { index: 3, count: 9, fileId: filled(1, 16) };
    const blob = cipher.seal(encodeUtf8("data"), name, () => NONCE);
    expect(blob.byteLength).toBe(4 + (layers === "two" ? 56 : 28));
    expect(cipher.open(blob, name)).toEqual(encodeUtf8("data"));
    const others = [{ index: 2 }, { count: 8 }, { fileId: filled(2, 16) }, { fileId: undefined }];
    for (const other of others) expect(cipher.open(blob, { ...name, ...other })).toBeUndefined();
    expect(cipher.open(blob.subarray(0, 20), name)).toBeUndefined();
  });
});
