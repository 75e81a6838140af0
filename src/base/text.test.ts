import { describe, expect, it } from "vitest";
import { UsageError } from "./errors.ts";
import { decodeBase64Url, decodeUtf8, encodeBase64Url, encodeUtf8, hideSecrets, isUtf8 } from "./text.ts";

describe("hideSecrets()", () => {
  it.each([
    ["htps://s/m.gguf?X-Amz-Signature=f00d&x=1", "htps://s/m.gguf?X-Amz-Signature=…&x=1"],
    ["s/m?a=b&X-Amz-Credential=AKIA%2F2026", "s/m?a=b&X-Amz-Credential=…"],
    ["m?X-Goog-Signature=1&GoogleAccessId=me", "m?X-Goog-Signature=…&GoogleAccessId=…"],
    ["m?sv=2020&sig=abc%3D", "m?sv=2020&sig=…"],
    ["m?AWSAccessKeyId=A&Expires=1&Signature=b", "m?AWSAccessKeyId=…&Expires=1&Signature=…"],
    ['Cannot open "m?token=abc": no', 'Cannot open "m?token=…": no'],
    ['Cannot use "https://AKIA:abc@bucket/x": no', 'Cannot use "https://…@bucket/x": no'],
    ["http:/u:a@b@h/v.key", "http:/…@h/v.key"],
    ["https://u:a/b@h/x and ftp://token@h", "https://…@h/x and ftp://…@h"],
    ["//u:PASS@h/x", "//…@h/x"],
    ["open '//u:P@SS@h/x' and http//u:PASS@h", "open '//…@h/x' and http//…@h"],
  ])("hides the secrets in %s", (text, shown) => expect(hideSecrets(text)).toBe(shown));

  it.each([
    "model.gguf",
    "what? key=1",
    "https://h/x?revision=main",
    "https://h:8080/x@1.gguf",
    "http://[::1]:80/a@b",
    "out//v:1@2.gguf",
    "s3://b/a:b@c",
    "//server/share/a:b@c",
  ])("leaves %s alone", (text) => {
    expect(hideSecrets(text)).toBe(text);
  });

  it("is applied to every error, wherever it is thrown", () => {
    const error = new UsageError("usage/x", 'Cannot open "m?sig=abc"', { source: "m?sig=abc" });
    expect(JSON.stringify(error)).not.toContain("abc");
    const address = "https://u:abc@h/x";
    const other = new UsageError("usage/x", `Cannot use "${address}"`, { source: address }, { hint: `Not ${address}` });
    expect(JSON.stringify(other)).not.toContain("abc");
  });
});

describe("isUtf8()", () => {
  it("says what a strict decoder says, for every pair of bytes and for text of all lengths", () => {
    for (let first = 0x7f; first < 256; first++) {
      for (let second = 0; second < 256; second++) {
        for (const tail of [[], [0x80], [0x80, 0x80]]) {
          const bytes = Uint8Array.of(first, second, ...tail);
          if (isUtf8(bytes) !== (decodeUtf8(bytes) !== undefined)) throw new Error(`${[...bytes]}`);
        }
      }
    }
    expect(isUtf8(encodeUtf8("aé层😀"))).toBe(true);
  });
});

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
