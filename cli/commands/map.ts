import { printable } from "../../src/base/text.ts";
import { type LayoutRow, mapLayout } from "../../src/operations/map.ts";
import { defineCommand } from "../command.ts";
import type { Context } from "../context.ts";
import { EXIT } from "../exit-codes.ts";
import { stripCells } from "../render/bars.ts";
import type { Colors } from "../render/colors.ts";
import { formatSize, formatSizeBoth } from "../render/sizes.ts";
import { renderTable } from "../render/table.ts";

export const mapCommand = defineCommand({
  positionals: { names: ["TARGET"], min: 1, max: 1 },
  flags: {},
  details: [
    "Accounts for every byte of every file, as a strip to scale and as a table. Padding is what a format asks for between tensors; unused bytes belong to nothing.",
  ],
  examples: [{ command: "tare map model.gguf", says: "where everything lies" }],
  output: "report",
  async run(context, { positionals }) {
    const [target = ""] = positionals;
    const opened = await context.open(target);
    const { container } = opened;
    if (container.kind === "model") await container.openParts?.();
    const rows = mapLayout(opened);
    const parts = container.parts.map(({ label, byteLength }) => ({ label, byteLength }));
    await context.show({
      json: () => ({ format: container.format, parts, rows }),
      text: () =>
        parts
          .map((part, i) =>
            renderPart(
              part,
              rows.filter((row) => row.part === i),
              context,
            ),
          )
          .join("\n\n"),
    });
    return EXIT.success;
  },
});

interface KindLook {
  readonly mark: string;
  readonly color: keyof Pick<Colors, "blue" | "magenta" | "yellow" | "green" | "gray" | "red" | "cyan">;
  readonly word: string;
}

/** Marks differ without colour too; neighbouring tensors alternate between two of them. */
const LOOKS: Readonly<Record<LayoutRow["kind"], KindLook>> = {
  header: { mark: "H", color: "blue", word: "header" },
  metadata: { mark: "M", color: "magenta", word: "metadata" },
  index: { mark: "I", color: "yellow", word: "index" },
  integrity: { mark: "#", color: "green", word: "integrity" },
  data: { mark: "▒", color: "cyan", word: "data" },
  tensor: { mark: "█", color: "cyan", word: "tensor" },
  padding: { mark: "·", color: "gray", word: "padding" },
  gap: { mark: "░", color: "red", word: "unused" },
};
const OTHER_TENSOR = "▓";
const STRIP_CELLS = 76;

function renderPart(part: { label: string; byteLength: number }, rows: readonly LayoutRow[], context: Context): string {
  const { colors } = context;
  const cells = Math.min(context.width ?? STRIP_CELLS, 120);
  const headline = `${colors.bold(printable(part.label))}  ${formatSizeBoth(part.byteLength)}`;
  const legend = [...new Set(rows.map((row) => row.kind))].map((kind) => {
    const { mark, color, word } = LOOKS[kind];
    return `${colors[color](mark)} ${word}`;
  });
  return [
    headline,
    renderStrip(rows, part.byteLength, { cells, colors }),
    legend.join("  "),
    "",
    renderRows(rows, context),
  ].join("\n");
}

function renderStrip(rows: readonly LayoutRow[], total: number, look: { cells: number; colors: Colors }): string {
  const order = new Map<number, number>();
  rows.forEach((row, i) => {
    if (row.kind === "tensor") order.set(i, order.size);
  });
  const cells = stripCells(rows, total, look.cells);
  // A header of a few kilobytes fills no cell of a gigabyte's strip, and is there all the same.
  if (rows.length > 0) cells[0] = 0;
  const marks = cells.map((index) => {
    const row = rows[index];
    if (row === undefined) return " ";
    const { mark, color } = LOOKS[row.kind];
    const second = row.kind === "tensor" && (order.get(index) ?? 0) % 2 === 1;
    return look.colors[color](second ? OTHER_TENSOR : mark);
  });
  return marks.join("");
}

function renderRows(rows: readonly LayoutRow[], context: Context): string {
  const { colors, width } = context;
  const right = { align: "right" } as const;
  const columns = [
    { title: "offset", ...right },
    { title: "size", ...right },
    { title: "what" },
    { title: "name", cut: "middle" as const },
  ];
  const lines = rows.map((row) => {
    const { color, word } = LOOKS[row.kind];
    const what = { text: row.dtype ?? word, style: colors[color] };
    return [String(row.offset), formatSize(row.byteLength), what, printable(row.name)];
  });
  return renderTable(columns, lines, { width, styleTitle: colors.dim });
}
