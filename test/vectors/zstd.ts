import { type Bytes, concatBytes } from "../../src/base/bytes.ts";
import { decodeHex, encodeUtf8 } from "../../src/base/text.ts";

/** A frame and what it holds. */
export interface ZstdVector {
  readonly name: string;
  readonly frame: Bytes;
  readonly content: Bytes;
}

/** Words and numbers in an order that a small generator gives: text that compresses a little. */
export function words(length: number): Bytes {
  const list = ["tensor", "weight", "layer", "bias", "attn", "norm", "proj", "embed"];
  let text = "";
  for (let x = 1; text.length < length; ) {
    x = (x * 1103 + 12345) & 0xffff;
    text += `${list[x & 7]}.${x >> 8} `;
  }
  return encodeUtf8(text.slice(0, length));
}

/** Bytes that do not compress. */
export function noise(byteLength: number): Bytes {
  let x = 7;
  return Uint8Array.from({ length: byteLength }, () => {
    x = (Math.imul(x, 1664525) + 1013904223) >>> 0;
    return x >>> 24;
  });
}

function repeat(bytes: Bytes, count: number): Bytes {
  return concatBytes(new Array<Bytes>(count).fill(bytes));
}

function hex(text: string): Bytes {
  return decodeHex(text) ?? new Uint8Array(0);
}

/** A header without size and a window of 2 MiB, and a compressed block of 128 KiB of zeros, by libzstd 1.5.7. */
const UNSIZED_HEADER = "28b52ffd0058";
const ZEROS_BLOCK = "4c000008000100fcffe44e08";

/** A frame of some 12 bytes for every 128 KiB of zeros, which does not say how long it is. */
export function zstdBomb(blockCount: number): Bytes {
  const blocks = ZEROS_BLOCK.repeat(blockCount);
  return hex(`${UNSIZED_HEADER}${blocks}010000`);
}

/** The same with four bytes for every 128 KiB. */
export function zstdRleBomb(blockCount: number): Bytes {
  return hex(`${UNSIZED_HEADER}${"02001000".repeat(blockCount)}010000`);
}

/** Frames made with python-zstandard 0.25.0 (libzstd 1.5.7). */
export const ZSTD_VECTORS: readonly ZstdVector[] = [
  {
    name: "a size and one compressed block",
    content: words(300),
    frame: hex(
      "28b52ffd602c004d030092c40e13a0c50d40a5eaf13fa8ea6812d9bd63d4fcaf4009a96396e15dce4a72187f9ba9c6f1" +
        "542f39fc4013aff5eb972b8667b1024030833d4542ea98151aa850d273ff0d10c3231e1046b07782aa22b196a93cc370" +
        "50a924ac285e9616516c6ff41bbc4535221829",
    ),
  },
  {
    name: "a size, level 19",
    content: words(900),
    frame: hex(
      "28b52ffd6084023d0600328c1c15a0a7980300a61cbb565b557989888810d996adaa7047c038106225bdd94e5aeadf55" +
        "ab6ca54837dd39946533a2b9f0ba930b5e5869782dd569751c914a9379ef30a977cf92fdaf614ed4d30e4bfea8343267" +
        "573d3693b4ecc3a10a15bfc97abd3949d05c180047c03810ad823028080c4350a811c0b4beff06d05e62e8118c805eeb" +
        "db45305d36be743c0d30d725c979d8c08ab1b09f226df02dbe62f1994b3612220e3f0de296af4292489205260c831b0c" +
        "38daf1334662e5ba9ffabb70c044805401",
    ),
  },
  {
    name: "no size",
    content: words(300),
    frame: hex(
      "28b52ffd00004d030092c40e13a0c50d40a5eaf13fa8ea6812d9bd63d4fcaf4009a96396e15dce4a72187f9ba9c6f154" +
        "2f39fc4013aff5eb972b8667b1024030833d4542ea98151aa850d273ff0d10c3231e1046b07782aa22b196a93cc37050" +
        "a924ac285e9616516c6ff41bbc4535221829",
    ),
  },
  {
    name: "a size and a checksum",
    content: words(300),
    frame: hex(
      "28b52ffd642c004d030092c40e13a0c50d40a5eaf13fa8ea6812d9bd63d4fcaf4009a96396e15dce4a72187f9ba9c6f1" +
        "542f39fc4013aff5eb972b8667b1024030833d4542ea98151aa850d273ff0d10c3231e1046b07782aa22b196a93cc370" +
        "50a924ac285e9616516c6ff41bbc453522182937de76af",
    ),
  },
  {
    name: "no size and a checksum",
    content: new Uint8Array(1000).fill(0x41),
    frame: hex("28b52ffd04004d00001041410100e32b8005e2081239"),
  },
  {
    name: "no content",
    content: new Uint8Array(0),
    frame: hex("28b52ffd2000010000"),
  },
  {
    name: "a raw block",
    content: noise(24),
    frame: hex("28b52ffd2018c100003de99ced0cdb5c0d11fbf988738c9ac7c76b79da5c7b17bf"),
  },
  {
    name: "compressed and RLE blocks",
    content: new Uint8Array(300_000),
    frame: hex("28b52ffda0e09304004c000008000100fcffe44e0802001000039f0400"),
  },
  {
    name: "several compressed blocks",
    content: repeat(words(400), 700),
    frame: hex(
      "28b52ffda0c04504000c0400f2040f13b0a70d000811c46e6a58556477f74eb9bec3f1cf34edd5475ddbbd987a647be5" +
        "1ddae8874e2d3b99d5697cfa5b4bac5c4e0008e620bf5210c6604e26a861545ff7dfe042a4f211cc3079deffffff3766" +
        "fe939522087fe1b591d57cc1b0ca41050904c5675f517ff81de4a818ec0ca76c3877cdc48c5f4397102c02a70a4c0000" +
        "08740100fcff39100245000008360100bcc50e84",
    ),
  },
  {
    name: "no size and small blocks that share tables",
    content: words(1200),
    frame: hex(
      "28b52ffd005854030082c40e13a0c50d40a5eaf13fa8ea6812d9bd63d4fcaf4009a96396e15d74490ee36f33d5389eea" +
        "25871f68e2b57efd72c5f02c56000866b0a748481db3021aa8505076ff0d0043a41e104638f6a8c068375b409d593207" +
        "948ac163ce7332cdcb6ac2a451273f11414e0114030054032e3431393836323138323930313737323439383739373831" +
        "323532333235313836353835313839332074656e736f722e32313520771be820c392da01102edd7355e8600184809a7e" +
        "b59c4e0075ac1937c1a8f65a2719b6f03756d9666587a7cbf40200040331313534343636313038333234373438303232" +
        "35363231373230373631333230352074656e736f722e363020776569671af8102ea1e69e01d33292a60bd86a41c0fdfa" +
        "a02115321750f5b0388d4796b8182648a1c35a68e639030301f402003402333233333632323232303839383435313037" +
        "32353331373130323930207765696768741be8d0e2c4cc071012a1b38ad70d540410672191d0218977ad6fc463d7c708" +
        "037ccc255d8352036c8c68d5c2b3ba97ddbdec1b6dc40bc17101010000",
    ),
  },
];
