import { type Bytes, equalBytes } from "../../base/bytes.ts";
import { UsageError } from "../../base/errors.ts";
import { decodeHex, encodeUtf8 } from "../../base/text.ts";

/** RFC 9106's inputs of Argon2id, version 0x13, without secret and associated data. */
export interface Argon2Parameters {
  /** At least 8 bytes. */
  readonly salt: Bytes;
  /** Memory in KiB: m. */
  readonly memoryKib: number;
  /** t. */
  readonly passes: number;
  /** p. */
  readonly lanes: number;
  /** Length of the result. */
  readonly byteLength: number;
}

/** Turns a password into a key, slowly and with much memory. */
export type Argon2id = (password: Bytes, parameters: Argon2Parameters) => Promise<Bytes>;

/** We never try more than these. How much a file may ask for is up to its format, and is less. */
const MAX_MEMORY_KIB = 4 << 20;
const MAX_COUNT = 1 << 12;

/** Refuses parameters that RFC 9106 §3.1 does not allow or that no machine should try. */
export function checkArgon2({ salt, memoryKib, passes, lanes, byteLength }: Argon2Parameters): void {
  const isCount = (value: number, most: number): boolean => Number.isSafeInteger(value) && value >= 1 && value <= most;
  const fits =
    isCount(lanes, MAX_COUNT) &&
    isCount(passes, MAX_COUNT) &&
    isCount(memoryKib, MAX_MEMORY_KIB) &&
    memoryKib >= 8 * lanes &&
    isCount(byteLength, MAX_COUNT) &&
    byteLength >= 4 &&
    salt.byteLength >= 8;
  if (fits) return;
  const message = `Cannot run Argon2id: memory must be ${8 * lanes} to ${MAX_MEMORY_KIB} KiB, passes and lanes 1 to ${MAX_COUNT}, the salt 8 bytes or more, found ${memoryKib} KiB, ${passes} passes, ${lanes} lanes, a salt of ${salt.byteLength} bytes`;
  throw new UsageError("usage/argon2", message, { source: "engine" });
}

/** True if the reference program's test value comes out: 256 KiB, two passes, two lanes. */
export async function provesArgon2(argon2id: Argon2id): Promise<boolean> {
  const parameters = { salt: encodeUtf8("somesalt"), memoryKib: 256, passes: 2, lanes: 2, byteLength: 32 };
  const expected = decodeHex("6d093c501fd5999645e0ea3bf620d7b8be7fd2db59c20d9fff9539da2bf57037");
  return expected !== undefined && equalBytes(await argon2id(encodeUtf8("password"), parameters), expected);
}
