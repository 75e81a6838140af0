import type { AnyEmbedResult, EmbedResult, SearchResult, SimilarityResult } from "../../src/api/embed/embed.ts";
import { formatInteger, formatValue, plural } from "../../src/base/figures.ts";
import { printable } from "../../src/base/text.ts";
import { rank } from "../../src/embedding/search/rank.ts";
import type { Context } from "../context.ts";
import { type Cell, type Column, renderTable } from "./table.ts";

/** Values of a vector that a table shows. */
const SHOWN_VALUES = 4;
/** Finding the closest text of each takes quadratic time. */
const MAX_COMPARED = 2000;

/** The document of `--json`: a float32 needs at most nine digits; more would only show how it is stored. */
export function embeddingJson(result: AnyEmbedResult): unknown {
  if (!("vectors" in result)) return result;
  const { vectors, ...rest } = result;
  return { ...rest, vectors: vectors.map((vector) => Array.from(vector, (value) => Number(value.toPrecision(9)))) };
}

/** For people. */
export function renderEmbedding(result: AnyEmbedResult, context: Context): string {
  if ("vectors" in result) return renderVectors(result, context);
  if ("similarities" in result) return renderSimilarities(result, context);
  return "results" in result ? renderMatches(result, context) : "";
}

/** A line for each text, with the beginning of its vector and the closest other text. */
function renderVectors({ texts, vectors, dimension }: EmbedResult, { colors, width }: Context): string {
  const compared = vectors.length > 1 && vectors.length <= MAX_COMPARED;
  const columns: Column[] = [
    { title: "#", align: "right" },
    ...(compared ? [{ title: "closest" }] : []),
    { title: "vector" },
    { title: "text", cut: "end" },
  ];
  const rows = vectors.map((vector, i): Cell[] => [
    String(i + 1),
    ...(compared ? [closest(vectors, i)] : []),
    beginning(vector),
    printable(texts[i] ?? ""),
  ]);
  const remark = `${plural(vectors.length, "text")}, ${dimension} dimensions; all values with --json, --npy or --binary`;
  if (texts.length === 0) return colors.dim(remark);
  return `${renderTable(columns, rows, { width, styleTitle: colors.dim })}\n\n${colors.dim(remark)}`;
}

function beginning(vector: Float32Array): string {
  const shown = Array.from(vector.subarray(0, SHOWN_VALUES), (value) => formatValue(value).padStart(9));
  return `${shown.join(" ")}${vector.length > SHOWN_VALUES ? " …" : ""}`;
}

function closest(vectors: readonly Float32Array[], i: number): string {
  // The text itself is one of the two nearest, unless others are equal to it.
  const other = rank(vectors[i] as Float32Array, vectors, 2).find(({ index }) => index !== i);
  return other === undefined ? "–" : `${other.score.toFixed(3)} (${other.index + 1})`;
}

/** One number for two texts, a square matrix for more. */
function renderSimilarities({ similarity, similarities, texts }: SimilarityResult, context: Context): string {
  if (similarity !== undefined) return similarity.toFixed(6);
  const { colors, width } = context;
  const right = { align: "right" } as const;
  const columns: Column[] = [
    { title: "#", ...right },
    ...similarities.map((_, i) => ({ title: String(i + 1), ...right })),
    { title: "text", cut: "end" },
  ];
  const rows = similarities.map((row, i): Cell[] => [
    String(i + 1),
    ...row.map((value) => value.toFixed(3)),
    printable(texts[i] ?? ""),
  ]);
  return renderTable(columns, rows, { width, styleTitle: colors.dim });
}

function renderMatches({ results }: SearchResult, { colors, width }: Context): string {
  if (results.length === 0) return colors.dim("the corpus is empty");
  const isFolder = results.some(({ file }) => file !== undefined);
  const columns: Column[] = [
    { title: "score", align: "right" },
    ...(isFolder ? [{ title: "file", cut: "middle" as const }] : []),
    { title: "line", align: "right" },
    { title: "text", cut: "end" },
  ];
  const rows = results.map(({ score, file, line, text }): Cell[] => [
    { text: score.toFixed(4), style: colors.cyan },
    ...(isFolder ? [printable(file ?? "")] : []),
    formatInteger(line),
    printable(text),
  ]);
  return renderTable(columns, rows, { width, styleTitle: colors.dim });
}
