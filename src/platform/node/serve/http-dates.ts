const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/** The three spellings that RFC 9110 §5.6.7 wants understood: IMF-fixdate, RFC 850, asctime. */
const FIXDATE = /^[A-Z][a-z]{2}, (?<day>\d{2}) (?<month>[A-Z][a-z]{2}) (?<year>\d{4}) (?<time>\d{2}:\d{2}:\d{2}) GMT$/;
const RFC_850 =
  /^[A-Z][a-z]{5,8}, (?<day>\d{2})-(?<month>[A-Z][a-z]{2})-(?<year>\d{2}) (?<time>\d{2}:\d{2}:\d{2}) GMT$/;
const ASCTIME = /^[A-Z][a-z]{2} (?<month>[A-Z][a-z]{2}) (?<day>[ \d]\d) (?<time>\d{2}:\d{2}:\d{2}) (?<year>\d{4})$/;

/** Whole seconds since 1970. Undefined where the text is no HTTP date: such a header counts as absent. */
export function parseHttpDate(text: string, nowSeconds: number): number | undefined {
  const trimmed = text.trim();
  const groups = (FIXDATE.exec(trimmed) ?? RFC_850.exec(trimmed) ?? ASCTIME.exec(trimmed))?.groups;
  if (groups === undefined) return undefined;
  const { day = "", month = "", year = "", time = "" } = groups;
  const [hours = 0, minutes = 0, seconds = 0] = time.split(":").map(Number);
  const monthIndex = MONTHS.indexOf(month);
  const fullYear = year.length === 2 ? expandYear(Number(year), nowSeconds) : Number(year);
  // 60 is a leap second.
  if (monthIndex < 0 || hours > 23 || minutes > 59 || seconds > 60) return undefined;
  const milliseconds = Date.UTC(fullYear, monthIndex, Number(day), hours, minutes, seconds);
  const isRealDay = new Date(Date.UTC(fullYear, monthIndex, Number(day))).getUTCDate() === Number(day);
  return isRealDay ? milliseconds / 1000 : undefined;
}

/** Two digits that would lie more than fifty years ahead are of the past century (RFC 9110 §5.6.7). */
function expandYear(twoDigits: number, nowSeconds: number): number {
  const thisYear = new Date(nowSeconds * 1000).getUTCFullYear();
  const year = thisYear - (thisYear % 100) + twoDigits;
  return year > thisYear + 50 ? year - 100 : year;
}

/** IMF-fixdate, the only spelling to send. */
export function formatHttpDate(seconds: number): string {
  return new Date(seconds * 1000).toUTCString();
}
