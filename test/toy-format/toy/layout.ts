/** "TOY1", the length of the header as a u32, the header as JSON, the tensors in its order, a CRC-32 of all before it. */
export const MAGIC = [0x54, 0x4f, 0x59, 0x31] as const;
export const PREFIX_BYTES = 8;
export const CRC_BYTES = 4;
