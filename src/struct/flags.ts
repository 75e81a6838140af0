import { UsageError } from "../base/errors.ts";

/** Named bits of a flag field. */
export interface Flags<Name extends string> {
  readonly name: string;
  /** Bit number, counted from the least significant one, by name. */
  readonly bits: Readonly<Record<Name, number>>;
  has(value: number | bigint, name: Name): boolean;
  /** The names set in `value`, in the order of the definition. */
  decode(value: number | bigint): readonly Name[];
  /** The bits of `value` that have no name; 0n where all are known. */
  unknown(value: number | bigint): bigint;
  encode(names: Iterable<Name>): bigint;
}

/** Defines flags by bit number; bits above 31 are safe, as nothing goes through 32-bit operators. */
export function flags<const T extends Readonly<Record<string, number>>>(
  name: string,
  bits: T,
): Flags<keyof T & string> {
  type Name = keyof T & string;
  const masks = new Map<Name, bigint>();
  let known = 0n;
  for (const [bitName, bit] of Object.entries(bits)) {
    const mask = 1n << BigInt(bit);
    if ((known & mask) !== 0n) {
      throw new UsageError("usage/struct", `Cannot define "${name}": bit ${bit} has two names`, { source: name });
    }
    known |= mask;
    masks.set(bitName as Name, mask);
  }
  const maskOf = (bitName: Name): bigint => masks.get(bitName) ?? 0n;
  return {
    name,
    bits,
    has: (value, bitName) => (BigInt(value) & maskOf(bitName)) !== 0n,
    decode: (value) => [...masks].filter(([, mask]) => (BigInt(value) & mask) !== 0n).map(([bitName]) => bitName),
    unknown: (value) => BigInt(value) & ~known,
    encode: (names) => {
      let value = 0n;
      for (const bitName of names) value |= maskOf(bitName);
      return value;
    },
  };
}
