import { describe, expect, it } from "vitest";
import { encodeUtf8 } from "../../base/text.ts";
import { KnownKeys } from "./known-keys.ts";
import { MsgpackReader } from "./msgpack-reader.ts";

const NAMES = ["name", "shape", "data_off", "data_len"];

function find(keys: KnownKeys, name: string): number {
  const bytes = encodeUtf8(`..${name}..`);
  return keys.find(bytes, 2, bytes.byteLength - 4);
}

describe("KnownKeys", () => {
  it("gives numbers in any order, again and again", () => {
    const keys = new KnownKeys(NAMES);
    const orders = [NAMES, NAMES, [...NAMES].reverse(), [...NAMES].reverse(), ["shape", "shape", "name"]];
    for (const order of orders) {
      expect(order.map((name) => find(keys, name))).toEqual(order.map((name) => NAMES.indexOf(name)));
    }
  });

  it.each(["nam", "named", "", "data_of", "data_oft", "Name"])('knows no "%s"', (name) => {
    const keys = new KnownKeys(NAMES);
    expect([find(keys, "name"), find(keys, name), find(keys, "shape")]).toEqual([0, -1, 1]);
  });

  it("a reader leaves a key of no number where it is", () => {
    const reader = new MsgpackReader(Uint8Array.of(0xa1, 0x78, 0xa4, ...encodeUtf8("name")), { source: "test" });
    const keys = new KnownKeys(NAMES);
    expect([reader.readKnownKey(keys), reader.offset]).toEqual([-1, 0]);
    expect([reader.readKey(), reader.readKnownKey(keys), reader.remaining]).toEqual(["x", 0, 0]);
  });
});
