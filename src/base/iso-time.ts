/** "2026-01-31T12:34:56.789Z", as Date writes it: what is behind the minute. */
const SECONDS = /([0-5]\d)\.(\d{3})Z$/y;
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
    SECONDS.lastIndex = MINUTE_LENGTH;
    const seconds = SECONDS.exec(text);
    if (seconds === null) return Date.parse(text);
    const own = Number(seconds[1]) * 1000 + Number(seconds[2]);
    if (this.#minute === "" || !text.startsWith(this.#minute)) {
      this.#minute = text.slice(0, MINUTE_LENGTH);
      this.#minuteMs = Date.parse(text) - own;
    }
    return this.#minuteMs + own;
  }
}
