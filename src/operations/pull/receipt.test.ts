import { expect, it } from "vitest";
import { encodeReceipt, parseReceipt, type Receipt } from "./receipt.ts";

it("parseReceipt() gives back what was kept, and nothing for what is damaged", () => {
  const receipt: Receipt = new Map([
    ["a.aero", { from: "http://h/a.aero", byteLength: 3, stamp: "3:1", etag: '"x"' }],
    ["__proto__", { from: "http://h/b", byteLength: 4, stamp: "4:1", sha256: "00".repeat(32) }],
  ]);
  const bytes = encodeReceipt(receipt);
  expect(parseReceipt(bytes).get("a.aero")).toEqual(receipt.get("a.aero"));
  expect(parseReceipt(bytes.slice(0, -5)).size).toBe(0);
  expect(parseReceipt(undefined).size).toBe(0);
  const odd = new TextEncoder().encode('{"version":1,"files":{"x":3,"y":{"from":1}}}');
  expect(parseReceipt(odd).size).toBe(0);
});
