/** FIPS 180-4 examples as published by NIST (CSRC "Examples with Intermediate Values"), and the empty message. */
export const SHA256_VECTORS: readonly { readonly text: string; readonly hash: string }[] = [
  { text: "", hash: "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" },
  { text: "abc", hash: "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" },
  {
    text: "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
    hash: "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1",
  },
  {
    text: "a".repeat(1_000_000),
    hash: "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0",
  },
];
