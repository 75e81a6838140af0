const RFC = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

/** RFC 3394 §4.3, §4.5 and §4.6 of a 256-bit wrapping key, and an answer computed with Python's cryptography. */
export const KEY_WRAP_VECTORS = [
  {
    wrappingKey: RFC,
    key: "00112233445566778899aabbccddeeff",
    wrapped: "64e8c3f9ce0f5ba263e9777905818a2a93c8191e7d6e8ae7",
  },
  {
    wrappingKey: RFC,
    key: "00112233445566778899aabbccddeeff0001020304050607",
    wrapped: "a8f9bc1612c68b3ff6e6f4fbe30e71e4769c8b80a32cb8958cd5d17d6b254da1",
  },
  {
    wrappingKey: RFC,
    key: "00112233445566778899aabbccddeeff000102030405060708090a0b0c0d0e0f",
    wrapped: "28c9f404c4b810f4cbccb35cfb87f8263f5786e2d80ed326cbc7f0e71a99f43bfb988b9b7a02dd21",
  },
  {
    wrappingKey: "22".repeat(32),
    key: "33".repeat(32),
    wrapped: "9cadc7a4872d633311fc49339851d11f337c5c03f502431fe5718b38cc09bec82cdbc54b1d76b409",
  },
] as const;

/** Wycheproof's aes_wrap_test.json (Apache-2.0), numbers 148 to 161: the check value is another one. */
export const KEY_WRAP_FORGERIES = {
  wrappingKey: "4f710eb6b5e28703becfc3dc52fa8bc1dd44a4a6d38a84b4f94e89ac32d987e7",
  wrapped: [
    "67865122af3294b8da0588775125cbd6dc19d5e5cab97b6d",
    "c53acb5e096b54548e1385b2ff18eaef68d235c95b0194e74a2383d3a7a530dc",
    "99d517a1321bb633b0d5f3afda2372d3abf68b41d13cbfdffc78f173b88bc4b97efcab2b2904788d",
    "9f0fa52363dd55df472d867e6faf5da8eb204a1d6d497030",
    "d92456bc77a268ef71cba76064a1b772d1fee2ae4f0ee3bb932a2adb2b031796b9eadb51753f2868",
    "c399f999c96a4204325e7f08d6a4de256faf21ec2c007ddf",
    "2af823d1602803740bfa9040c2c4e769a5b6de919d403cfba9ad360f63af1113",
  ],
} as const;
