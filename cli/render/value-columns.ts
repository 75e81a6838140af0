/** A column that shows one number of a row. */
export interface ValueColumn<Row> {
  readonly align?: "right";
  value(row: Row): number;
  /** Called once for each value. */
  text(value: number): string;
}

/** Lines of one piece of output. */
const PIECE_LINES = 500;

/**
 * Columns of numbers followed by a name, in pieces, for output that need not fit a width. Vaults have tens of thousands
 * of entries but few distinct sizes and times, so each is formatted and padded once, and lines are joined from the
 * results.
 */
export function* renderValues<Row>(
  rows: readonly Row[],
  columns: readonly ValueColumn<Row>[],
  nameOf: (row: Row) => string,
): Generator<string, void> {
  const cells = columns.map((column) => paddedTexts(rows, column));
  let piece = "";
  for (let i = 0; i < rows.length; i++) {
    const row = rows[i] as Row;
    if (i > 0) piece += "\n";
    if (i % PIECE_LINES === PIECE_LINES - 1) {
      yield piece;
      piece = "";
    }
    for (let c = 0; c < columns.length; c++) piece += cells[c]?.get((columns[c] as ValueColumn<Row>).value(row)) ?? "";
    piece += nameOf(row);
  }
  yield piece;
}

/** The cell of every value, with the space after it. */
function paddedTexts<Row>(rows: readonly Row[], { align, value, text }: ValueColumn<Row>): ReadonlyMap<number, string> {
  const texts = new Map<number, string>();
  let width = 0;
  for (const row of rows) {
    const key = value(row);
    if (texts.has(key)) continue;
    const shown = text(key);
    texts.set(key, shown);
    width = Math.max(width, shown.length);
  }
  for (const [key, shown] of texts) {
    texts.set(key, `${align === "right" ? shown.padStart(width) : shown.padEnd(width)}  `);
  }
  return texts;
}
