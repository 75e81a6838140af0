// Lists of chunk ids in a vault: 32 lower-case hex digits in quotes, with a comma between two.

import { sharedLength } from "./paths.as";

const QUOTE: u32 = 0x22;
const COMMA: u32 = 0x2c;
const CLOSING_BRACKET: u32 = 0x5d;
/** An id in quotes. */
const ID_BYTES: usize = 34;

/** The previous list. Neighbours in a pack share their chunks, so an equal list needs no second check. */
let ids: usize = 0;
let idsLength: usize = 0;

/** Call this before a new window, which has other bytes. */
export function forgetIds(): void {
  idsLength = 0;
}

/** The address after the bracket that closes a list; 0 if the list has another form or continues after `last`. */
export function endOfIds(start: usize, last: usize): usize {
  if (idsLength > 0 && start + idsLength <= last && sharedLength(start, ids, idsLength) == idsLength) {
    return start + idsLength;
  }
  const stop = start < last && <u32>load<u8>(start) == CLOSING_BRACKET ? start + 1 : endOfNewIds(start, last);
  if (stop == 0) return 0;
  ids = start;
  idsLength = stop - start;
  return stop;
}

function endOfNewIds(start: usize, last: usize): usize {
  let at = start;
  while (at + ID_BYTES < last) {
    if (<u32>load<u8>(at) != QUOTE || <u32>load<u8>(at, 33) != QUOTE) return 0;
    if (!isHex(v128.load(at, 1)) || !isHex(v128.load(at, 17))) return 0;
    at += ID_BYTES;
    const next = <u32>load<u8>(at++);
    if (next == CLOSING_BRACKET) return at;
    if (next != COMMA) return 0;
  }
  return 0;
}

/** Lower case only. */
@inline
function isHex(digits: v128): bool {
  const decimal = i8x16.lt_u(i8x16.sub(digits, i8x16.splat(0x30)), i8x16.splat(10));
  const letter = i8x16.lt_u(i8x16.sub(digits, i8x16.splat(0x61)), i8x16.splat(6));
  return v128.all_true<i8>(v128.or(decimal, letter));
}
