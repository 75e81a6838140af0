import type { Location } from "../../base/errors.ts";

/** Where the bytes stand, for messages. */
export interface MsgpackPlace {
  /** Source label. */
  readonly source: string;
  /** Absolute offset of `bytes[0]` in that source; 0 where absent. */
  readonly base?: number | undefined;
  /** What is being read: "AERO TIDX"; "MessagePack" where absent. */
  readonly what?: string | undefined;
  /** Prefix of every path; a function is asked only when a read fails, so it may follow a loop: `tensors[3]`. */
  readonly path?: string | (() => string) | undefined;
}

/** Where a value is that begins `position` bytes into what is read. */
export function locateIn({ source, base = 0, path: prefix }: MsgpackPlace, position: number, path?: string): Location {
  const start = typeof prefix === "function" ? prefix() : prefix;
  const whole = start === undefined ? path : path === undefined ? start : `${start}.${path}`;
  return { source, offset: base + position, ...(whole === undefined ? {} : { path: whole }) };
}
