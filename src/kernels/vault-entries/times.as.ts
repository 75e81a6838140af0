// Times in the form that vaults use.

const DASH: u32 = 0x2d;
const DOT: u32 = 0x2e;
const ZERO: u32 = 0x30;
const COLON: u32 = 0x3a;

/**
 * The milliseconds of "2026-01-31T12:34:56Z", or of a time with a point and three digits or more, of which the first
 * three count. NaN for any other form of a time, and for text that is not a time.
 */
export function milliseconds(start: usize, stop: usize): f64 {
  const byteLength = stop - start;
  if (byteLength < 20 || byteLength > 40 || <u32>load<u8>(stop - 1) != 0x5a) return NaN;
  const marks = (<u32>load<u8>(start, 4) ^ DASH) | (<u32>load<u8>(start, 7) ^ DASH) | (<u32>load<u8>(start, 10) ^ 0x54);
  if ((marks | (<u32>load<u8>(start, 13) ^ COLON) | (<u32>load<u8>(start, 16) ^ COLON)) != 0) return NaN;
  const year = 100 * twoDigits(start) + twoDigits(start + 2);
  const month = twoDigits(start + 5);
  const day = twoDigits(start + 8);
  const hour = twoDigits(start + 11);
  const minute = twoDigits(start + 14);
  const second = twoDigits(start + 17);
  // Two characters that are not digits give a number so large that one of these bounds is exceeded.
  if (year < 1600 || year > 9999 || month < 1 || month > 12 || hour > 23 || minute > 59 || second > 59) return NaN;
  if (day < 1 || day > daysIn(month, year)) return NaN;
  const seconds = ((daysBefore(year, month) + day - 1) * 24 + hour) * 3600 + minute * 60 + second;
  const fraction = thousandths(start + 19, stop - 1);
  return fraction < 0 ? NaN : <f64>(seconds * 1000 + fraction);
}

/** The value of two digits; 100000 if one is not a digit. */
@inline
function twoDigits(start: usize): i64 {
  const tens = <u32>load<u8>(start) - ZERO;
  const ones = <u32>load<u8>(start, 1) - ZERO;
  return tens > 9 || ones > 9 ? 100_000 : <i64>(10 * tens + ones);
}

/** The thousandths of ".789" with any more digits; 0 for no text, negative for anything else. */
function thousandths(start: usize, stop: usize): i64 {
  if (start == stop) return 0;
  if (stop - start < 4 || <u32>load<u8>(start) != DOT) return -1;
  let value: i64 = 0;
  for (let i = start + 1; i < stop; i++) {
    const digit = <u32>load<u8>(i) - ZERO;
    if (digit > 9) return -1;
    if (i < start + 4) value = value * 10 + <i64>digit;
  }
  return value;
}

@inline
function isLeap(year: i64): bool {
  return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

function daysIn(month: i64, year: i64): i64 {
  if (month == 2) return isLeap(year) ? 29 : 28;
  return month == 4 || month == 6 || month == 9 || month == 11 ? 30 : 31;
}

/**
 * Days from the start of 1970 to that of a month. Counts years from March, so that a leap day is the last of a year.
 */
function daysBefore(year: i64, month: i64): i64 {
  const from = month > 2 ? year : year - 1;
  const months = month > 2 ? month - 3 : month + 9;
  return 365 * from + from / 4 - from / 100 + from / 400 + (153 * months + 2) / 5 - 719_468;
}
