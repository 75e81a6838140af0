import { describe, expect, it } from "vitest";
import { encodeHex, encodeUtf8 } from "../../../base/text.ts";
import { nativeEngine } from "../../../platform/node/engine/native.ts";
import { portableEngine } from "../../../primitives/portable.ts";
import { deriveBase } from "../keys.ts";
import { encodeDirectory } from "./rows.ts";
import {
  keyBase,
  keyOfFile,
  newRecoveryKey,
  readSlot,
  recoveryKeyIn,
  recoveryText,
  slotRow,
  slotsToTry,
  unwrapSlot,
  wrapSlot,
} from "./slots.ts";

const engine = portableEngine();
const filled = (value: number, length = 32): Uint8Array<ArrayBuffer> => new Uint8Array(length).fill(value);
const KEYS = { master: filled(0x11), mac: filled(0x22) };
const ID = "0a1b2c3d";
/** Computed with Python's cryptography: docs/formats/aerovault.md#key-slots. */
const PASSWORD_ROW =
  "AQEzMzMzMzMzMzMzMzMzMzMzMzMzMzMzMzMzMzMzMzMzM914kZe0O9RRyVS1-EN8suwoieu94Ge9xYcddckn0nU-kE4mO1QxBWIpxPyXnrTY_caM3Y1oU_WzcfbkmveQVPbBXxp3FQizDf-QSY5L4cd2";
const KEY_ROW =
  "AQJERERERERERERERERERERERERERERERERERERERERERCwnbt3TI5gvBmxS8ag50phV2C9Uedr2mr37rCrDn-MheeBoyi9_WNmUbtAoHWRmX-hAmAjAqMkADnAaTY_8TTVUbidXbtF5YoiXgXej16Cc";
const RECOVERY = "0123456789ABCDEFGHJKMNPQRSTV";

describe("key slots", () => {
  it("of a password has the known bytes, in a row without a payload", async () => {
    const slot = await wrapSlot(engine, KEYS, filled(0x2a), { id: ID, kind: "password", salt: filled(0x33) });
    const row = slotRow(slot);
    expect(new TextDecoder().decode(encodeDirectory([row]))).toBe(
      `[{"extension_id":"tare.key.${ID}","algorithm_id":"tare-key-slot-1:${PASSWORD_ROW}","algorithm_version":1,"critical":false,"offset":0,"length":0}]`,
    );
    expect(readSlot(row)).toEqual(slot);
    expect(await unwrapSlot(engine, slot, filled(0x2a))).toEqual(KEYS);
    expect(await unwrapSlot(engine, slot, filled(0x2b))).toBeUndefined();
    expect(await unwrapSlot(engine, { ...slot, id: "0a1b2c3e" }, filled(0x2a))).toBeUndefined();
  });

  it("of a password take the same Argon2id as the header", async () => {
    const base = await deriveBase(await nativeEngine(), encodeUtf8("Tr0ub4dor & 3"), { salt: filled(0x33) });
    expect(encodeHex(base)).toBe("687f8c5848fe72787a7fd6d3d06895c8ff4fea4318f02b5e2c65b1e28504db62");
  });

  it("of a key takes HKDF of its bytes, and has the known bytes", async () => {
    const base = await keyBase(engine, encodeUtf8(RECOVERY), filled(0x44));
    expect(encodeHex(base)).toBe("9caf099b3db91d674b6f01be904526cf4ec6684e395cca809ca5110728505cf5");
    const slot = await wrapSlot(engine, KEYS, base, { id: ID, kind: "key", salt: filled(0x44) });
    expect(slotRow(slot).algorithmId).toBe(`tare-key-slot-1:${KEY_ROW}`);
  });

  it.each([
    ["another id", { extensionId: "tare.key.0A1B2C3D" }],
    ["a longer id", { extensionId: "tare.key.0a1b2c3d4" }],
    ["another extension", { extensionId: "demo.key.0a1b2c3d" }],
    ["a later version of the row", { algorithmVersion: 2 }],
    ["a payload", { length: 1 }],
    ["another algorithm", { algorithmId: `tare-key-slot-2:${KEY_ROW}` }],
    ["a cut end", { algorithmId: `tare-key-slot-1:${KEY_ROW.slice(0, -4)}` }],
    ["more bytes", { algorithmId: `tare-key-slot-1:${KEY_ROW}AAAA` }],
    ["no base64url", { algorithmId: `tare-key-slot-1:${KEY_ROW.slice(0, -1)}+` }],
    ["a later version of the bytes", { algorithmId: `tare-key-slot-1:Ag${KEY_ROW.slice(2)}` }],
    ["another kind", { algorithmId: `tare-key-slot-1:AQN${KEY_ROW.slice(3)}` }],
  ])("are not read from a row with %s", async (_, change) => {
    const slot = await wrapSlot(engine, KEYS, filled(1), { id: ID, kind: "key", salt: filled(0x44) });
    expect(readSlot({ ...slotRow(slot), ...change })).toBeUndefined();
  });

  it("are tried up to the sixteenth, and passwords only with the salt of the first", () => {
    const row = (i: number, kind: "password" | "key", salt: number) =>
      slotRow({
        id: i.toString(16).padStart(8, "0"),
        kind,
        salt: filled(salt),
        wrappedMasterKey: filled(5, 40),
        wrappedMacKey: filled(6, 40),
      });
    const many = Array.from({ length: 1000 }, (_, i) => row(i, i % 2 === 0 ? "password" : "key", i < 4 ? 9 : i % 256));
    const broken = { ...row(5000, "key", 1), algorithmId: "tare-key-slot-1:" };
    const tried = slotsToTry([broken, ...many]);
    expect(tried.filter(({ kind }) => kind === "key")).toHaveLength(8);
    expect(tried.filter(({ kind }) => kind === "password").map(({ id }) => id)).toEqual(["00000000", "00000002"]);
  });
});

describe("key files", () => {
  it("are their bytes without one newline at the end", () => {
    const key = (text: string): string => new TextDecoder().decode(keyOfFile(encodeUtf8(text), { source: "key" }));
    expect(key("0123456789abcdef\n")).toBe("0123456789abcdef");
    expect(key("0123456789abcdef\r\n")).toBe("0123456789abcdef");
    expect(key("0123456789abcdef\n\n")).toBe("0123456789abcdef\n");
    expect(key("\n0123456789abcdef ")).toBe("\n0123456789abcdef ");
  });

  it.each(["", "\n", "0123456789abcde", "0123456789abcde\n"])("are refused with fewer than 16 bytes: %j", (text) => {
    const refusal = expect.objectContaining({ code: "usage/vault.key-file" });
    expect(() => keyOfFile(encodeUtf8(text), { source: "key" })).toThrow(refusal);
  });
});

describe("recovery keys", () => {
  const read = (text: string): string | undefined => {
    const key = recoveryKeyIn(encodeUtf8(text));
    return key && new TextDecoder().decode(key);
  };

  it("have 28 letters in groups, which are read back", () => {
    const key = newRecoveryKey((length) => new Uint8Array(length).map((_, i) => 255 - i));
    const text = recoveryText(key);
    expect(text).toBe("ZYXW-VTSR-QPNM-KJHG-FEDC-BA98-7654");
    expect(recoveryKeyIn(encodeUtf8(text))).toEqual(key);
  });

  it("are read in any case, with O as 0, I and L as 1", () => {
    const text = "0123-4567-89AB-CDEF-GHJK-MNPQ-RSTV";
    expect(read(text)).toBe(RECOVERY);
    expect(read(text.toLowerCase().replaceAll("-", " "))).toBe(RECOVERY);
    expect(read(text.replace("01", "oI"))).toBe(RECOVERY);
    expect(read(text.replace("01", "Ol"))).toBe(RECOVERY);
  });

  it.each([
    "correct horse",
    "0123-4567-89AB-CDEF-GHJK-MNPQ-RST",
    "0123-4567-89AB-CDEF-GHJK-MNPQ-RSTVW",
    "0123-4567-89AB-CDEF-GHJK-MNPQ-RSTU",
    "0123-4567-89AB-CDEF-GHJK-MNPQ-RST\n",
    "",
  ])("are not %j", (text) => {
    expect(read(text)).toBeUndefined();
  });
});
