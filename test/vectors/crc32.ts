/** The check value of CRC-32/ISO-HDLC in the catalogue of parametrised CRC algorithms, and values of zlib's crc32(). */
export const CRC32_VECTORS: readonly { readonly text: string; readonly crc: number }[] = [
  { text: "", crc: 0 },
  { text: "a", crc: 0xe8b7be43 },
  { text: "123456789", crc: 0xcbf43926 },
  { text: "The quick brown fox jumps over the lazy dog", crc: 0x414fa339 },
];
