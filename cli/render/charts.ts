/** Block characters as bars, sparklines and strips. */

const EIGHTHS = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
const LEVELS = ["▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];

/** A horizontal bar of up to `width` cells; anything above zero shows. */
export function bar(share: number, width: number): string {
  const eighths = Math.round(Math.min(1, Math.max(0, share)) * width * 8);
  const shown = share > 0 ? Math.max(1, eighths) : 0;
  return "█".repeat(Math.floor(shown / 8)) + (EIGHTHS[shown % 8] ?? "");
}

/** One column for each number, scaled to the highest; zero is blank, so that gaps show. */
export function sparkline(values: readonly number[]): string {
  const top = Math.max(...values, 0);
  return values
    .map((value) => (value <= 0 || top === 0 ? " " : (LEVELS[Math.min(7, Math.floor((value / top) * 8))] ?? " ")))
    .join("");
}

export interface StripPart {
  readonly offset: number;
  readonly byteLength: number;
}

/** For each of `width` equal cells of 0 … total, the index of the part that fills most of it, or -1. */
export function stripCells(parts: readonly StripPart[], total: number, width: number): number[] {
  const cells = new Array<number>(width).fill(-1);
  const most = new Array<number>(width).fill(0);
  if (total === 0) return cells;
  parts.forEach((part, index) => {
    const end = part.offset + part.byteLength;
    const first = Math.max(0, Math.floor((part.offset * width) / total));
    const last = Math.min(width - 1, Math.floor((end * width) / total));
    for (let cell = first; cell <= last; cell++) {
      const covered = Math.min(end, ((cell + 1) * total) / width) - Math.max(part.offset, (cell * total) / width);
      if (covered > (most[cell] as number)) {
        most[cell] = covered;
        cells[cell] = index;
      }
    }
  });
  return cells;
}
