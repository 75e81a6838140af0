const UNITS = ["B", "kB", "MB", "GB", "TB", "PB"];
const COUNTS = ["", "K", "M", "B", "T"];

/** Three digits and decimal units, as the command line shows sizes. */
export function formatSize(byteLength: number): string {
  const [value, unit] = scale(byteLength, UNITS.length);
  return `${digits(value, unit)} ${UNITS[unit]}`;
}

/** "1.10 B" parameters. */
export function formatCount(count: number): string {
  const [value, unit] = scale(count, COUNTS.length);
  return unit === 0 ? String(count) : `${digits(value, unit)}${COUNTS[unit]}`;
}

/** "1 234 567", with spaces that do not break. */
export function formatInteger(value: number): string {
  return String(value).replace(/\B(?=(?:\d{3})+$)/g, "\u202f");
}

export function formatShare(part: number, whole: number): string {
  if (whole === 0) return "0 %";
  const percent = (100 * part) / whole;
  return percent > 0 && percent < 0.1
    ? "< 0.1 %"
    : `${percent >= 99.95 ? 100 : percent.toFixed(percent < 10 ? 1 : 0)} %`;
}

/** A value of a tensor, with five significant digits. */
export function formatValue(value: number | null): string {
  if (value === null) return "–";
  if (!Number.isFinite(value)) return String(value);
  if (Number.isInteger(value) && Math.abs(value) < 1e6) return String(value);
  const size = Math.abs(value);
  return size >= 1e5 || size < 1e-3 ? value.toExponential(3) : value.toPrecision(5).replace(/\.?0+$/, "");
}

export function formatOffset(offset: number): string {
  return `0x${offset.toString(16).padStart(8, "0")}`;
}

function scale(value: number, units: number): readonly [number, number] {
  let rest = value;
  let unit = 0;
  while (rest >= 999.5 && unit < units - 1) {
    rest /= 1000;
    unit++;
  }
  return [rest, unit];
}

function digits(value: number, unit: number): string {
  return value.toFixed(unit === 0 || value >= 100 ? 0 : value >= 10 ? 1 : 2);
}
