const MINUTE_LENGTH = "2026-01-31T12:34:".length;

/**
 * Date.parse for many texts in a row, most of which are of the same minute as the one before: then only the seconds are
 * looked at. Files of a folder usually are as old as each other.
 */
export class IsoTimes {
  #minute = "";
  #minuteMs = Number.NaN;

  /** NaN where the text is no time. */
  parse(text: string): number {
    const own = millisecondsIn(text);
    if (own < 0) return Date.parse(text);
    if (this.#minute === "" || !text.startsWith(this.#minute)) {
      this.#minute = text.slice(0, MINUTE_LENGTH);
      this.#minuteMs = Date.parse(text) - own;
    }
    return this.#minuteMs + own;
  }
}

const ZERO = 0x30;
const POINT = 0x2e;
const ZULU = 0x5a;
const POINT_AT = MINUTE_LENGTH + 2;
const MILLISECONDS_END = POINT_AT + 4;

/**
 * Of "56.789Z" behind the minute, as Date writes it, or with nanoseconds, as vaults have it: 56789. Negative where the
 * text goes on otherwise. By characters: vaults have ten thousands of times.
 */
function millisecondsIn(text: string): number {
  const end = text.length - 1;
  if (end < MILLISECONDS_END || text.charCodeAt(POINT_AT) !== POINT || text.charCodeAt(end) !== ZULU) return -1;
  let value = 0;
  for (let i = MINUTE_LENGTH; i < end; i++) {
    if (i === POINT_AT) continue;
    const digit = text.charCodeAt(i) - ZERO;
    if (digit < 0 || digit > 9) return -1;
    if (i < MILLISECONDS_END) value = value * 10 + digit;
  }
  return value < 60_000 ? value : -1;
}
