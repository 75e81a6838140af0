import { expect, it } from "vitest";
import { decodeBase64Url, encodeBase64Url } from "./base64.ts";
import { encodeUtf8 } from "./text.ts";

it("encodeBase64Url() and decodeBase64Url() go there and back, without padding (RFC 4648 §10)", () => {
  for (const [text, encoded] of [
    ["", ""],
    ["f", "Zg"],
    ["fo", "Zm8"],
    ["foo", "Zm9v"],
    ["foobar", "Zm9vYmFy"],
  ] as const) {
    expect(encodeBase64Url(encodeUtf8(text))).toBe(encoded);
    expect(decodeBase64Url(encoded)).toEqual(encodeUtf8(text));
  }
  expect(encodeBase64Url(Uint8Array.of(0xfb, 0xff))).toBe("-_8");
  expect(decodeBase64Url("-_8")).toEqual(Uint8Array.of(0xfb, 0xff));
});

it("decodeBase64Url() takes one spelling of each value and no other", () => {
  for (const bad of ["Zg==", "Zh", "Zm9", "+/8", "a", "Zg ", "Z\n8", "Zm9vYg="]) {
    expect(decodeBase64Url(bad), bad).toBeUndefined();
  }
});
