// Finds the entries of a vault's manifest in JSON as the reference and tare write it: compact, keys in their order, no
// escapes. Keeps for each entry one row of numbers, and its path with the quote after it: most hosts need no other
// text. JSON in any other form ends the scan, and the host reads it. Checks paths on the way, by the rules of the
// format and by their order. Only paths may have characters that are not ASCII; whether those are UTF-8 is not checked.
//
// Memory: KEYS and the previous path, then ROWS, INPUT, NAMES. The host grows it to `end()` and writes the keys before
// the first call.

import { endOfIds, forgetIds } from "./vault-entries/ids.as";
import { arePathsProper, beginPaths, judgePath, keepPath, wipePaths } from "./vault-entries/paths.as";
import { milliseconds } from "./vault-entries/times.as";

const WINDOW: usize = 0x80000;
const MOST_ROWS: usize = 4096;
/** Bytes before a path. */
const PATH_KEY: usize = 9;
/** Eight doubles: see `entry`. */
const ROW_BYTES: usize = 64;
/** A key in quotes with the characters around it takes 16 bytes. */
const KEY_BYTES: usize = 16;

const KEYS: usize = memory.data(160, 16);

const QUOTE: u32 = 0x22;
const COMMA: u32 = 0x2c;
const ZERO: u32 = 0x30;
const CLOSING_BRACKET: u32 = 0x5d;
const CLOSING_BRACE: u32 = 0x7d;
/** Exact in a double. */
const MOST_DIGITS: usize = 15;

let at: usize = 0;
let last: usize = 0;
/** The difference between offsets in the manifest and addresses here. */
let shift: usize = 0;
let failed: bool = false;
let done: bool = false;
let hasEntry: bool = false;
let consumedBytes: usize = 0;
/** The end of the last kept path: its address, and UTF-16 units in the text of all paths. */
let namesEnd: usize = 0;
let namesUnit: usize = 0;
/** For the text that was read last: how many more bytes than UTF-16 units it has. */
let surplus: isize = 0;
/** Whether the text had characters that are not ASCII. */
let isWide: bool = false;

export function keys(): usize {
  return KEYS;
}

export function rows(): usize {
  return (__heap_base + 15) & ~15;
}

export function input(): usize {
  return rows() + MOST_ROWS * ROW_BYTES;
}

export function windowBytes(): usize {
  return WINDOW;
}

/** After the window are bytes that vector loads may read; they do not count. */
export function names(): usize {
  return input() + WINDOW + 64;
}

/** The paths of a window are at most as long as the window. */
export function end(): usize {
  return names() + WINDOW;
}

/** Bytes of the paths of the last window, with the quotes after them. */
export function nameBytes(): usize {
  return namesEnd - names();
}

/** Call this before the first window of a list. */
export function begin(): void {
  done = false;
  hasEntry = false;
  namesUnit = 0;
  beginPaths();
}

/** Bytes of the window before the place where the next one must begin. */
export function consumed(): usize {
  return consumedBytes;
}

/** Whether the list has ended. */
export function isDone(): bool {
  return done;
}

/** Whether all paths so far are proper, and each greater than the one before. */
export function isProper(): bool {
  return arePathsProper();
}

/** Overwrites all text and rows. */
export function wipe(): void {
  wipePaths();
  memory.fill(rows(), 0, end() - rows());
}

/**
 * Reads the whole entries of a window that begins with one, at `offset` of the manifest. Returns the number of rows.
 */
export function scan(byteLength: usize, offset: usize): usize {
  at = input();
  last = at + byteLength;
  shift = offset - at;
  failed = false;
  namesEnd = names();
  forgetIds();
  let count: usize = 0;
  consumedBytes = 0;
  if (!hasEntry && byteLength > 0 && <u32>load<u8>(at) == CLOSING_BRACKET) {
    done = true;
    consumedBytes = 1;
  }
  while (count < MOST_ROWS && !done) {
    const start = at;
    const startEnd = namesEnd;
    const startUnit = namesUnit;
    entry(count);
    const next = at < last ? <u32>load<u8>(at) : 0;
    at++;
    if (failed || (next != COMMA && next != CLOSING_BRACKET)) {
      namesEnd = startEnd;
      namesUnit = startUnit;
      break;
    }
    done = next == CLOSING_BRACKET;
    hasEntry = true;
    if (judgePath(start + PATH_KEY, pathEnd)) store<f64>(rows() + count * ROW_BYTES, 1, 56);
    count++;
    consumedBytes = at - input();
  }
  keepPath();
  return count;
}

/**
 * Reads an entry into a row of eight numbers: its offset in the manifest; start and end of its path in the text of all
 * paths; mode or -1; isDir; size; time in milliseconds, or NaN if the host must read it. `scan` sets the eighth if a
 * folder begins here.
 */
function entry(row: usize): void {
  const cells = rows() + row * ROW_BYTES;
  store<f64>(cells, <f64>(at + shift));
  expect(0, PATH_KEY);
  const path = at;
  pathEnd = text();
  const byteLength = pathEnd - path;
  store<f64>(cells, <f64>namesUnit, 8);
  namesUnit += byteLength - <usize>surplus;
  store<f64>(cells, <f64>namesUnit, 16);
  namesUnit++;
  memory.copy(namesEnd, path, byteLength + 1);
  namesEnd += byteLength + 1;
  expect(1, 8);
  store<f64>(cells, <f64>whole(), 40);
  expect(2, 13);
  let time = at;
  let timeEnd = asciiText();
  expect(3, 10);
  const isDir = skip(8, 4);
  if (!isDir) expect(9, 5);
  store<f64>(cells, isDir ? 1 : 0, 32);
  expect(4, 11);
  const stop: usize = failed ? 0 : endOfIds(at, last);
  if (stop == 0) failed = true;
  else at = stop;
  if (skip(5, 15)) whole();
  if (skip(6, 10)) {
    time = at;
    timeEnd = asciiText();
  }
  store<f64>(cells, failed ? NaN : milliseconds(time, timeEnd), 48);
  let mode: i64 = -1;
  if (skip(7, 8)) mode = whole();
  if (mode > <i64>i32.MAX_VALUE || at >= last || <u32>load<u8>(at) != CLOSING_BRACE) failed = true;
  at++;
  store<f64>(cells, <f64>mode, 24);
  store<f64>(cells, 0, 56);
}

let pathEnd: usize = 0;

/** Steps over the first bytes of a key if they come next. */
function skip(key: usize, byteLength: usize): bool {
  const same = i8x16.bitmask(i8x16.eq(v128.load(at), v128.load(KEYS + key * KEY_BYTES)));
  const wanted: i32 = (1 << (<i32>byteLength)) - 1;
  if ((same & wanted) != wanted || at + byteLength > last) return false;
  at += byteLength;
  return true;
}

function expect(key: usize, byteLength: usize): void {
  if (!skip(key, byteLength)) failed = true;
}

/**
 * Steps past the quote that ends a text, and returns where the quote is. Anything that needs an escape ends the scan.
 */
function text(): usize {
  let i = at;
  surplus = 0;
  while (i < last) {
    const bytes = v128.load(i);
    // The comparison is signed, so that bytes that are not ASCII are below too.
    const low = i8x16.lt_s(bytes, i8x16.splat(0x20));
    const marks = v128.or(i8x16.eq(bytes, i8x16.splat(0x22)), i8x16.eq(bytes, i8x16.splat(0x5c)));
    const found = i8x16.bitmask(v128.or(low, marks));
    if (found == 0) {
      i += 16;
      continue;
    }
    i += <usize>ctz(found);
    if (i >= last) break;
    const byte = <u32>load<u8>(i);
    if (byte == QUOTE) {
      at = i + 1;
      return i;
    }
    if (byte < 0x80) break;
    // A character of two to three bytes is one unit, one of four bytes is two.
    if ((byte & 0xc0) == 0x80) surplus++;
    else if (byte >= 0xf0) surplus--;
    i++;
    isWide = true;
  }
  failed = true;
  return at;
}

/** The same for text that must be ASCII. */
function asciiText(): usize {
  isWide = false;
  const stop = text();
  if (isWide) failed = true;
  return stop;
}

/** A whole number without a leading zero. */
function whole(): i64 {
  const start = at;
  let value: i64 = 0;
  while (at < last) {
    const digit = <u32>load<u8>(at) - ZERO;
    if (digit > 9) break;
    // This may overflow with too many digits, which are refused below anyway.
    value = value * 10 + <i64>digit;
    at++;
  }
  const count = at - start;
  if (count == 0 || count > MOST_DIGITS || (count > 1 && <u32>load<u8>(start) == ZERO)) failed = true;
  return value;
}
