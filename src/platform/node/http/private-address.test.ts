import { describe, expect, test } from "vitest";
import { addressesOf, isPrivateAddress } from "./private-address.ts";

describe("isPrivateAddress()", () => {
  test.each([
    ["127.0.0.1", true],
    ["10.1.2.3", true],
    ["172.31.0.1", true],
    ["172.32.0.1", false],
    ["192.168.1.1", true],
    ["169.254.169.254", true],
    ["100.64.0.1", true],
    ["100.128.0.1", false],
    ["0.0.0.0", true],
    ["0.1.2.3", true],
    ["192.0.0.8", true],
    ["192.0.1.8", false],
    ["198.18.0.1", true],
    ["198.19.255.255", true],
    ["198.20.0.1", false],
    ["224.0.0.1", true],
    ["239.1.2.3", true],
    ["240.0.0.1", true],
    ["255.255.255.255", true],
    ["223.255.255.1", false],
    ["93.184.216.34", false],
    ["::", true],
    ["::1", true],
    ["::10.0.0.1", true],
    ["fe80::1", true],
    ["fe80::1%eth0", true],
    ["fec0::1", true],
    ["fd00::1", true],
    ["ff02::1", true],
    ["::ffff:10.0.0.1", true],
    ["::ffff:a00:1", true],
    ["0:0:0:0:0:ffff:7f00:1", true],
    ["::ffff:93.184.216.34", false],
    ["64:ff9b::10.0.0.1", true],
    ["64:ff9b::7f00:1", true],
    ["64:ff9b::5db8:d822", false],
    ["64:ff9b:1::5db8:d822", true],
    ["2002:a00:1::", true],
    ["2002:7f00:1:1::2", true],
    ["2002:5db8:d822::1", false],
    ["2001:0:4136:e378:8000:63bf:3fff:fdd2", true],
    ["2606:2800:220:1::1", false],
    ["2a00:1450:4001:81b::200e", false],
  ])("%s: %s", (address, expected) => {
    expect(isPrivateAddress(address)).toBe(expected);
  });
});

describe("addressesOf()", () => {
  test("looks up names, takes addresses as they are, and returns none for an unknown name", async () => {
    expect(await addressesOf("a.test", async () => ["93.184.216.34", "10.0.0.1"])).toEqual([
      "93.184.216.34",
      "10.0.0.1",
    ]);
    expect(await addressesOf("[::1]", () => Promise.reject(new Error("not asked")))).toEqual(["::1"]);
    expect(await addressesOf("a.test", () => Promise.reject(new Error("unknown")))).toEqual([]);
  });
});
