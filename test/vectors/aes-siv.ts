/** A message of AES-256-SIV with one component, in hex. */
export interface SivVector {
  readonly number: number;
  readonly key: string;
  readonly component: string;
  readonly plain: string;
  readonly sealed: string;
}

function vector(number: number, [key, component, plain, sealed]: readonly string[]): SivVector {
  return { number, key, component, plain, sealed } as SivVector;
}

/** Wycheproof's aes_siv_cmac_test.json (Apache-2.0), keys of 512 bits, by its numbers: RFC 5297 has only keys of 256. */
export const SIV_VECTORS: readonly SivVector[] = [
  vector(296, [
    "bc7635c1fd566aa8357fd103714bfaee1c9e5b3c578b3980401a981030254a54b1756a8c96e600b7252fd0aab12f39d115d256b3f3e7c2c41a7fece72ba7c3c4",
    "",
    "",
    "44b1c6fe8a8c07dee5377b161f283c31",
  ]),
  vector(298, [
    "484261ebf7e1fb66e0bcafe8f4ccf9c5accc908fdb23eb7c5254d614072f26e106b34501d13c1dad1f14648c6a142132dd7f2f1268dd6b70fbcde2fe98f03245",
    "1d5ce9288627a12f8f5d809167a3b2",
    "",
    "f8083e55307932d971bfc2a8913c1951",
  ]),
  vector(301, [
    "eef6bcf16ef7ae17326a33f22d1406ec1bd3f866505f4b2e4fe8b45bd62ccbd85032a9899facf2db0c93a2345cb8892afb74db549781211dd8881a8c8e25c171",
    "e941d15fadebaf4671e0e3d6d835f87bfb1cc7028f149930daa69c3de446c423",
    "",
    "b754ecb55c1e124de0c8a973d033bd7f",
  ]),
  vector(302, [
    "c25cafc6018b98dfbb79a40ec89c575a4f88c4116489bba27707479800c0130235334a45dbe8d8dae3da8dcb45bbe5dce031b0f68ded544fda7eca30d6749442",
    "deeb0ccf3aef47a296ed1ca8f4ae5907",
    "beec61030fa3d670337196beade6aeaa",
    "5865208eab9163db85cab9f96d846234a2626aae22f5c17c9aad4b501f4416e4",
  ]),
  vector(304, [
    "97bfd0f3e9bb8167bbb55f4cdc14529d8307c0ec2c3fe8bc88522d05c1261ba460c9cb4116f630edd74d413ec417324c6e29b566fb2dd3df18e07b53b1f9f83b",
    "1cda342c166ea208df5c56bcf995a59b",
    "48ef10ccb1978b53ae73167abe1cc538fa80da3f5df93e3d5c4e9a9ad1f213504f22a694b98a35ad67620af9d8a29fc7",
    "d55c5d0af0260dc1123adb5d7869201f8ccee46deb66dd695c593cde1d7645c72796e42a1733b6705753631b9b626991ddbd28473ce75cfdc4c14d20e66f212d",
  ]),
  vector(305, [
    "e2c5662bb18fbb411d0304e4241db073fe60a4704fee290073513038a22b4cd542580b2b4edbc37e3de01c0cb61abcad46986cdc491ce9e5ae5af223ff58b953",
    "fab912dec29a34aabfaef176",
    "0d",
    "1c6969ecb15741a9959b7a8492250e391a",
  ]),
  vector(316, [
    "9593f0d6679e8e18b43cb4d26a7ea9da9d6037fd5a82db0b091a682b6547a77298e4fd1d1481f3603d0b1e7e6dcf27200105af0f844f2aaacd98540ab2b6c8a8",
    "7b3f9591076e32a21766e2bb",
    "0628d19cc94c4b4f3d703e1f",
    "56e6fd5a7f449a8e6bafa38f945c70cf8a534179b3b1f26266fb6b56",
  ]),
];
