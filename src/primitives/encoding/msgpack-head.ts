import type { Location } from "../../base/errors.ts";

/** The kind of a MessagePack value, as its first byte says. */
export type MsgpackType = "nil" | "bool" | "integer" | "float" | "string" | "bin" | "array" | "map" | "ext" | "unused";

/** First bytes of the MessagePack specification ("Formats", overview), with its names. */
export const HEAD = {
  fixmap: 0x80,
  fixarray: 0x90,
  fixstr: 0xa0,
  nil: 0xc0,
  unused: 0xc1,
  false: 0xc2,
  true: 0xc3,
  bin8: 0xc4,
  bin16: 0xc5,
  bin32: 0xc6,
  ext8: 0xc7,
  ext16: 0xc8,
  ext32: 0xc9,
  float32: 0xca,
  float64: 0xcb,
  uint8: 0xcc,
  uint16: 0xcd,
  uint32: 0xce,
  uint64: 0xcf,
  int8: 0xd0,
  int16: 0xd1,
  int32: 0xd2,
  int64: 0xd3,
  fixext1: 0xd4,
  fixext16: 0xd8,
  str8: 0xd9,
  str16: 0xda,
  str32: 0xdb,
  array16: 0xdc,
  array32: 0xdd,
  map16: 0xde,
  map32: 0xdf,
  negativeFixint: 0xe0,
} as const;

/** The type of each first byte. */
export const TYPES: readonly MsgpackType[] = Array.from({ length: 256 }, (_, head) => typeOf(head));

function typeOf(head: number): MsgpackType {
  if (head < HEAD.fixmap || head >= HEAD.negativeFixint) return "integer";
  if (head < HEAD.fixarray) return "map";
  if (head < HEAD.fixstr) return "array";
  if (head < HEAD.nil) return "string";
  if (head === HEAD.nil) return "nil";
  if (head === HEAD.unused) return "unused";
  if (head <= HEAD.true) return "bool";
  if (head <= HEAD.bin32) return "bin";
  if (head <= HEAD.ext32) return "ext";
  if (head <= HEAD.float64) return "float";
  if (head <= HEAD.int64) return "integer";
  if (head <= HEAD.fixext16) return "ext";
  if (head <= HEAD.str32) return "string";
  return head <= HEAD.array32 ? "array" : "map";
}

/** Where the bytes are, for messages. */
export interface MsgpackPlace {
  /** Source label. */
  readonly source: string;
  /** Absolute offset of `bytes[0]` in that source; 0 if absent. */
  readonly base?: number | undefined;
  /** What is being read: "AERO TIDX"; "MessagePack" if absent. */
  readonly what?: string | undefined;
  /**
   * Prefix of every path. A function is called only if a read fails, so it may use the state of a loop: `tensors[3]`.
   */
  readonly path?: string | (() => string) | undefined;
}

/** Where the value is that begins at `position` in the bytes. */
export function locateIn({ source, base = 0, path: prefix }: MsgpackPlace, position: number, path?: string): Location {
  const start = typeof prefix === "function" ? prefix() : prefix;
  const whole = start === undefined ? path : path === undefined ? start : `${start}.${path}`;
  return { source, offset: base + position, ...(whole === undefined ? {} : { path: whole }) };
}
