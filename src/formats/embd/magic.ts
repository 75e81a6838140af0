export const MAGIC = [0x45, 0x4d, 0x42, 0x44] as const; // "EMBD"

/** The magic as a little-endian writer of the number 0x454D4244 would leave it (ADR-002 gives the number). */
export const SWAPPED: readonly number[] = [...MAGIC].reverse();
