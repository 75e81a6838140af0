/** A message of AES-256-GCM-SIV, in hex; `sealed` is ciphertext and tag. */
export interface GcmSivVector {
  readonly name: string;
  readonly key: string;
  readonly nonce: string;
  readonly associated: string;
  readonly plain: string;
  readonly sealed: string;
}

const ONE = "0100000000000000000000000000000000000000000000000000000000000000";
const THREE = "030000000000000000000000";
const ZERO = "0000000000000000000000000000000000000000000000000000000000000000";
const COUNTING = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
const NONCE_ZERO = "000000000000000000000000";
const NONCE_ONES = "010101010101010101010101";

function vector(name: string, [key, nonce, associated, plain, sealed]: readonly string[]): GcmSivVector {
  return { name, key, nonce, associated, plain, sealed } as GcmSivVector;
}

/** RFC 8452 appendix C.2 (some) and C.3 (both), and Wycheproof's aes_gcm_siv_test.json (Apache-2.0) by its numbers. */
export const GCM_SIV_VECTORS: readonly GcmSivVector[] = [
  vector("RFC 8452 C.2, nothing", [ONE, THREE, "", "", "07f5f4169bbf55a8400cd47ea6fd400f"]),
  vector("RFC 8452 C.2, 8 bytes", [
    ONE,
    THREE,
    "",
    "0100000000000000",
    "c2ef328e5c71c83b843122130f7364b761e0b97427e3df28",
  ]),
  vector("RFC 8452 C.2, 64 bytes", [
    ONE,
    THREE,
    "",
    "01000000000000000000000000000000020000000000000000000000000000000300000000000000000000000000000004000000000000000000000000000000",
    "c2d5160a1f8683834910acdafc41fbb1632d4a353e8b905ec9a5499ac34f96c7e1049eb080883891a4db8caaa1f99dd004d80487540735234e3744512c6f90ce112864c269fc0d9d88c61fa47e39aa08",
  ]),
  vector("RFC 8452 C.2, 64 bytes and 1 associated", [
    ONE,
    THREE,
    "01",
    "02000000000000000000000000000000030000000000000000000000000000000400000000000000000000000000000005000000000000000000000000000000",
    "67fd45e126bfb9a79930c43aad2d36967d3f0e4d217c1e551f59727870beefc98cb933a8fce9de887b1e40799988db1fc3f91880ed405b2dd298318858467c895bde0285037c5de81e5b570a049b62a0",
  ]),
  vector("RFC 8452 C.2, 20 bytes and 18 associated", [
    ONE,
    THREE,
    "010000000000000000000000000000000200",
    "0300000000000000000000000000000004000000",
    "43dd0163cdb48f9fe3212bf61b201976067f342bb879ad976d8242acc188ab59cabfe307",
  ]),
  vector("RFC 8452 C.2, another key, nothing", [
    "e66021d5eb8e4f4066d4adb9c33560e4f46e44bb3da0015c94f7088736864200",
    "e0eaf5284d884a0e77d31646",
    "",
    "",
    "169fbb2fbf389a995f6390af22228a62",
  ]),
  vector("RFC 8452 C.2, 3 bytes and 5 associated", [
    "bae8e37fc83441b16034566b7a806c46bb91c3c5aedb64a6c590bc84d1a5e269",
    "e4b47801afc0577e34699b9e",
    "4fbdc66f14",
    "671fdd",
    "0eaccb93da9bb81333aee0c785b240d319719d",
  ]),
  vector("RFC 8452 C.2, 21 bytes and 35 associated", [
    "3c535de192eaed3822a2fbbe2ca9dfc88255e14a661b8aa82cc54236093bbc23",
    "688089e55540db1872504e1c",
    "734320ccc9d9bbbb19cb81b2af4ecbc3e72834321f7aa0f70b7282b4f33df23f167541",
    "ced532ce4159b035277d4dfbb7db62968b13cd4eec",
    "626660c26ea6612fb17ad91e8e767639edd6c9faee9d6c7029675b89eaf4ba1ded1a286594",
  ]),
  vector("RFC 8452 C.3, the counter wraps", [
    ZERO,
    NONCE_ZERO,
    "",
    "000000000000000000000000000000004db923dc793ee6497c76dcc03a98e108",
    "f3f80f2cf0cb2dd9c5984fcda908456cc537703b5ba70324a6793a7bf218d3eaffffffff000000000000000000000000",
  ]),
  vector("RFC 8452 C.3, the counter wraps, half a block", [
    ZERO,
    NONCE_ZERO,
    "",
    "eb3640277c7ffd1303c7a542d02d3e4c0000000000000000",
    "18ce4f0b8cb4d0cac65fea8f79257b20888e53e72299e56dffffffff000000000000000000000000",
  ]),
  vector("Wycheproof 131", [
    "3b2458d8176e1621c0cc24c0c0e24c1e80d72f7ee9149a4b166176629616d011",
    "45aaa3e5d16d2d42dc03445d",
    "",
    "3ff1514b1c503915918f0c0c31094a6e1f",
    "c97e58e8730a567e8bdf5eb981cdd5f3234b2dc825fef9dc6bf234f2b8ff798f9e",
  ]),
  vector("Wycheproof 136", [
    "8e34cf73d245a1082a920b86364eb896c4946467bcb3d58929fcb36690e6394f",
    "6f573aa86baa492ba46596df",
    "bd4cd02fc7502bbdbdf6c9a3cbe8f0",
    "16ddd23ff53f3d23c06334487040eb47",
    "8e67034384170a646e9eea1606a8e899fe7a3dd42beb5ff70bb471ff76f0d341",
  ]),
  vector("Wycheproof 164, a tag of zeros", [
    COUNTING,
    NONCE_ONES,
    "40c32e00c2fdab59c1a1c573b46b5068",
    "bdd411814564c4218d224d50591c818855a862a0a519ac0b3d71a2edb12aa71eb81959bcc6b84c45aa424c9aca0b7bdd",
    "00".repeat(64),
  ]),
  vector("Wycheproof 165, the counter wraps", [
    COUNTING,
    NONCE_ZERO,
    "2cc3a1973e0560f7224a394e52fa8488",
    "d04846a01f472262e60a1cb4cfcbdcb05c3f819628a3a49395c5dae96c434b2417ce071699afa74a60c32c0bafd9c01a",
    `${"00".repeat(48)}${"ff".repeat(16)}`,
  ]),
  vector("Wycheproof 168, the counter does not carry", [
    COUNTING,
    NONCE_ONES,
    "b691ef42f2ab8d1b4a581bb08394b13a",
    "7848d9e872f40bca1b82a4e7185fb75193b3496cc1dc2a72b86ed156ab8389e71687ed25eb6485e66561fa8c39853368",
    `${"00".repeat(48)}ffffffffffffff7f0011223344556677`,
  ]),
];

/** Wycheproof's messages whose tag has one flipped bit: none may open. Key and nonce are the same for all. */
export const GCM_SIV_FORGERIES = {
  key: "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff",
  nonce: NONCE_ZERO,
  messages: [
    {
      number: 169,
      associated: "a5b997fe28ddf26fe182eb8db608bd14",
      sealed: `${"00".repeat(16)}13a1883272188b4c8d2727178198fe95`,
    },
    { number: 170, associated: "5906c4d15a8dc345026d29c98e55cfcd", sealed: "00".repeat(24) },
    { number: 171, associated: "de645c9a49b8e777ca18c54048b7bde8", sealed: "ff".repeat(24) },
    { number: 172, associated: "3dbceccc23f7bc994c4df048e43c59fb", sealed: "0987e35e40981a2730c1740c7201731f" },
    { number: 186, associated: "9294a1bd55de4c4f642ed5b9b2058da6", sealed: "0987e35e40981a2730c1740c7201731f" },
    { number: 190, associated: "63d504e4e4729cb5c8a29bc08723efe4", sealed: "ff".repeat(24) },
  ],
} as const;
