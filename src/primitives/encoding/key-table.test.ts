import { describe, expect, it } from "vitest";
import { encodeUtf8 } from "../../base/text.ts";
import { KeyTable } from "./key-table.ts";
import { MsgpackReader } from "./msgpack-reader.ts";

const NAMES = ["name", "shape", "data_off", "data_len"];

function find(keys: KeyTable, name: string): number {
  const bytes = encodeUtf8(`..${name}..`);
  return keys.find(bytes, 2, bytes.byteLength - 4);
}

describe("KnownKeys", () => {
  it("gives numbers in any order, again and again", () => {
    const keys = new KeyTable(NAMES);
    const orders = [NAMES, NAMES, [...NAMES].reverse(), [...NAMES].reverse(), ["shape", "shape", "name"]];
    for (const order of orders) {
      expect(order.map((name) => find(keys, name))).toEqual(order.map((name) => NAMES.indexOf(name)));
    }
  });

  it.each(["nam", "named", "", "data_of", "data_oft", "Name"])('does not know "%s"', (name) => {
    const keys = new KeyTable(NAMES);
    expect([find(keys, "name"), find(keys, name), find(keys, "shape")]).toEqual([0, -1, 1]);
  });

  it("learns keys, up to 32 short ones", () => {
    const keys = new KeyTable();
    const names = Array.from({ length: 40 }, (_, i) => `key ${i}`);
    keys.learn(encodeUtf8("x".repeat(33)), "x".repeat(33));
    for (const name of names) keys.learn(encodeUtf8(name), name);
    expect(find(keys, "x".repeat(33))).toBe(-1);
    expect(names.map((name) => find(keys, name))).toEqual(names.map((_, i) => (i < 32 ? i : -1)));
    expect([keys.text(0), keys.text(31), keys.text(32)]).toEqual(["key 0", "key 31", ""]);
  });

  it("a reader does not consume an unknown key", () => {
    const reader = new MsgpackReader(Uint8Array.of(0xa1, 0x78, 0xa4, ...encodeUtf8("name")), { source: "test" });
    const keys = new KeyTable(NAMES);
    expect([reader.readKnownKey(keys), reader.offset]).toEqual([-1, 0]);
    expect([reader.readKey(), reader.readKnownKey(keys), reader.remaining]).toEqual(["x", 0, 0]);
  });
});
