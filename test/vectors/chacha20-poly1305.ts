/** A message of ChaCha20-Poly1305, in hex; `sealed` is ciphertext and tag. */
export interface ChachaVector {
  readonly name: string;
  readonly key: string;
  readonly nonce: string;
  readonly associated: string;
  readonly plain: string;
  readonly sealed: string;
}

const RFC_KEY = "808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9f";
const COUNTING_NONCE = "000102030405060708090a0b";

function vector(name: string, [key, nonce, associated, plain, sealed]: readonly string[]): ChachaVector {
  return { name, key, nonce, associated, plain, sealed } as ChachaVector;
}

/**
 * Wycheproof's chacha20_poly1305_test.json (Apache-2.0) by its numbers; 1 is RFC 8439 §2.8.2. Those from 112 on have
 * ciphertexts that push Poly1305 to the ends of its range.
 */
export const CHACHA_VECTORS: readonly ChachaVector[] = [
  vector("Wycheproof 1", [
    RFC_KEY,
    "070000004041424344454647",
    "50515253c0c1c2c3c4c5c6c7",
    "4c616469657320616e642047656e746c656d656e206f662074686520636c617373206f66202739393a204966204920636f756c64206f6666657220796f75206f6e6c79206f6e652074697020666f7220746865206675747572652c2073756e73637265656e20776f756c642062652069742e",
    "d31a8d34648e60db7b86afbc53ef7ec2a4aded51296e08fea9e2b5a736ee62d63dbea45e8ca9671282fafb69da92728b1a71de0a9e060b2905d6a5b67ecd3b3692ddbd7f2d778b8c9803aee328091b58fab324e4fad675945585808b4831d7bc3ff4def08e4b7a9de576d26586cec64b61161ae10b594f09e26a7e902ecbd0600691",
  ]),
  vector("Wycheproof 2, nothing", [
    "80ba3192c803ce965ea371d5ff073cf0f43b6a2ab576b208426e11409c09b9b0",
    "4da5bf8dfd5852c1ea12379d",
    "",
    "",
    "76acb342cf3166a5b63c0c0ea1383c8d",
  ]),
  vector("Wycheproof 3, only associated", [
    "7a4cd759172e02eb204db2c3f5c746227df584fc1345196391dbb9577a250742",
    "a92ef0ac991dd516a3c6f689",
    "bd506764f2d2c410",
    "",
    "906fa6284b52f87b7359cbaa7563c709",
  ]),
  vector("Wycheproof 36, a block and a byte", [
    "3b2458d8176e1621c0cc24c0c0e24c1e80d72f7ee9149a4b166176629616d011",
    "45aaa3e5d16d2d42dc03445d",
    "",
    "3ff1514b1c503915918f0c0c31094a6e1f",
    "02cc3acb5ee1fcdd12a03bb857976474d3d83b7463a2c3800fe958c28eaa290813",
  ]),
  vector("Wycheproof 112", [
    RFC_KEY,
    COUNTING_NONCE,
    "ffffff7fffffff7fffffff7fffffff7f",
    "9a49c48f8b48d7466d1db4653f20f25d4aaa249ddab26bdbc0e218372c339072df3ebd8176704499972bcd3c6bbcb364e74a71d28ef512e3ce24e05575e0e4cd",
    `${"ffffff7f".repeat(16)}f24db68c46b67d6f402fa6c897913368`,
  ]),
  vector("Wycheproof 115", [
    RFC_KEY,
    COUNTING_NONCE,
    "7fffffff7fffffff7fffffff7fffffff",
    "1a49c40f0b48d7c6ed1db4e5bf20f2ddcaaa241d5ab26b5b40e218b7ac3390f25f3ebd01f6704419172bcdbcebbcb3e4674a71520ef512634e24e0d5f5e0e44d",
    `${"7fffffff".repeat(16)}beaca0b47027196176186d944019c1c8`,
  ]),
  vector("Wycheproof 119", [
    RFC_KEY,
    COUNTING_NONCE,
    "00000000ffffffff00000000ffffffff",
    "65b63bf08b48d7c692e24b1a3f20f2ddb555dbe2dab26b5b3f1de7482c3390f220c142fe7670441968d432436bbcb3e418b58ead8ef5126331db1f2a75e0e44d4405c183506b11e5d630cd93eea759de3d48c8ff0ef2f5e09ef76018719a77fdaad55e415e266f96a18db55ca95083efa6f21ecc750648310a7ea0b68bd916da",
    `${"00000000ffffffff".repeat(16)}95a2b12a4a280089d4bd4f904253e754`,
  ]),
  vector("Wycheproof 121", [
    RFC_KEY,
    COUNTING_NONCE,
    "ffffffff00000000ffffffff00000000",
    "9a49c40f74b728396d1db4e5c0df0d224aaa241d254d94a4c0e218b7d3cc6f0ddf3ebd01898fbbe6972bcdbc94434c1be74a7152710aed9cce24e0d58a1f1bb2",
    `${"ffffffff00000000".repeat(8)}f0e6a3c1f28ad92d0dbc900be291d877`,
  ]),
];

/** Wycheproof 123 … 139: the tag with one bit flipped; the right one is f4409bb729039d0814ac514054323f44. */
export const CHACHA_FORGERIES = {
  key: "202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f",
  nonce: COUNTING_NONCE,
  associated: "000102",
  right: "f4409bb729039d0814ac514054323f44",
  sealed: [
    "f5409bb729039d0814ac514054323f44",
    "74409bb729039d0814ac514054323f44",
    "f4419bb729039d0814ac514054323f44",
    "f4409b3729039d0814ac514054323f44",
    "f4409bb728039d0814ac514054323f44",
    "f4409bb729039d8814ac514054323f44",
    "f4409bb729039d0815ac514054323f44",
    "f4409bb729039d08148c514054323f44",
    "f4409bb729039d0814ac514055323f44",
    "f4409bb729039d0814ac514054323fc4",
  ],
} as const;
