import { useEffect, useRef, useState } from "preact/hooks";
import { formatInteger, formatSize, formatValue } from "../../../src/base/figures.ts";
import { ErrorPanel } from "../../app/error-panel.tsx";
import { useCall } from "../../app/use-call.ts";
import type { HeatMap } from "../../pages/tensor-reads.ts";
import type { Plane } from "../../shared/protocol.ts";
import type { Cell, PlaneProps } from "./plane-view.tsx";

/** Most pixels per side of a picture, so that it stays fast on any screen. */
const MAX_PIXELS = 512;
const HEIGHT = 320;

interface HeatMapViewProps extends PlaneProps {
  readonly onCursor: (cursor: Cell) => void;
}

interface Window extends Cell {
  readonly rows: number;
  readonly columns: number;
}

/** Values as colours. Zoom with + and -, move with the arrow keys or by dragging, click for the numbers. */
export function HeatMapView({ session, overview, facts, leading, plane, cursor, onCursor }: HeatMapViewProps) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const whole: Window = { row: 0, column: 0, rows: plane.rows, columns: plane.columns };
  const [view, setView] = useState<Window>(whole);
  const [hover, setHover] = useState<string>("");
  const shown = clampWindow(view, plane);
  const width = Math.min(MAX_PIXELS, canvas.current?.clientWidth ?? MAX_PIXELS);
  const request = { target: overview.target, name: facts.name, leading, ...shown, width, height: HEIGHT };
  const { result, error } = useCall(session.reader, "heatMap", request, JSON.stringify(request));
  useEffect(() => {
    if (canvas.current !== null && result !== undefined) paint(canvas.current, result);
  }, [result]);
  const zoom = (factor: number, x = 0.5, y = 0.5): void => setView(zoomWindow(shown, plane, factor, x, y));
  const pan = (rows: number, columns: number): void => {
    setView({ ...shown, row: shown.row + Math.round(rows), column: shown.column + Math.round(columns) });
  };
  const cellAt = (event: MouseEvent): Cell => {
    const box = (event.currentTarget as HTMLElement).getBoundingClientRect();
    const column = shown.column + Math.floor(((event.clientX - box.left) / box.width) * shown.columns);
    const row = shown.row + Math.floor(((event.clientY - box.top) / box.height) * shown.rows);
    return { row: Math.min(row, plane.rows - 1), column: Math.min(column, plane.columns - 1) };
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    const keys: Record<string, () => void> = {
      "+": () => zoom(0.5),
      "=": () => zoom(0.5),
      "-": () => zoom(2),
      "0": () => setView(whole),
      ArrowUp: () => pan(-shown.rows / 4, 0),
      ArrowDown: () => pan(shown.rows / 4, 0),
      ArrowLeft: () => pan(0, -shown.columns / 4),
      ArrowRight: () => pan(0, shown.columns / 4),
      Enter: () => onCursor({ row: shown.row, column: shown.column }),
    };
    const act = keys[event.key];
    if (act === undefined || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    act();
  };
  if (error !== undefined) return <ErrorPanel title="Cannot draw the values" error={error} />;
  const from = `rows ${formatInteger(shown.row)}–${formatInteger(shown.row + shown.rows - 1)}`;
  const to = `columns ${formatInteger(shown.column)}–${formatInteger(shown.column + shown.columns - 1)}`;
  return (
    <figure class="heat">
      <canvas
        ref={canvas}
        tabIndex={0}
        role="application"
        aria-roledescription="heat map"
        aria-label={`Heat map of ${from}, ${to}. Plus and minus zoom, arrow keys move, Enter shows the numbers.`}
        onKeyDown={onKeyDown}
        onClick={(event) => onCursor(cellAt(event))}
        onDblClick={(event) => {
          const { row, column } = cellAt(event);
          zoom(0.5, (column - shown.column) / shown.columns, (row - shown.row) / shown.rows);
        }}
        onMouseMove={(event) => setHover(describeCell(result, cellAt(event)))}
        onMouseLeave={() => setHover("")}
      />
      <figcaption>
        <span>
          {from}, {to}
        </span>
        <span class="soft">{hover || (result === undefined ? "" : `drawn from ${formatSize(result.bytesRead)}`)}</span>
        <span class="buttons">
          <button type="button" aria-label="Zoom in" onClick={() => zoom(0.5)}>
            +
          </button>
          <button type="button" aria-label="Zoom out" onClick={() => zoom(2)}>
            −
          </button>
          <button type="button" onClick={() => setView(whole)}>
            Whole
          </button>
        </span>
      </figcaption>
      <p class="away" role="status">
        Numbers from row {cursor.row}, column {cursor.column}
      </p>
    </figure>
  );
}

function clampWindow(view: Window, plane: Plane): Window {
  const rows = Math.max(1, Math.min(view.rows, plane.rows));
  const columns = Math.max(1, Math.min(view.columns, plane.columns));
  const row = Math.max(0, Math.min(view.row, plane.rows - rows));
  const column = Math.max(0, Math.min(view.column, plane.columns - columns));
  return { row, column, rows, columns };
}

function zoomWindow(view: Window, plane: Plane, factor: number, x: number, y: number): Window {
  const rows = Math.max(4, Math.min(plane.rows, Math.round(view.rows * factor)));
  const columns = Math.max(4, Math.min(plane.columns, Math.round(view.columns * factor)));
  const row = Math.round(view.row + y * view.rows - rows * y);
  const column = Math.round(view.column + x * view.columns - columns * x);
  return clampWindow({ row, column, rows, columns }, plane);
}

function describeCell(map: HeatMap | undefined, cell: Cell): string {
  if (map === undefined) return "";
  const y = nearest(map.rowIndex, cell.row);
  const x = nearest(map.columnIndex, cell.column);
  const value = map.values[y * map.columnIndex.length + x];
  const place = `[${formatInteger(map.rowIndex[y] ?? 0)}, ${formatInteger(map.columnIndex[x] ?? 0)}]`;
  return value === undefined ? "" : `${place} ${formatValue(value)}`;
}

function nearest(index: Uint32Array, wanted: number): number {
  let low = 0;
  let high = index.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((index[middle] as number) < wanted) low = middle + 1;
    else high = middle;
  }
  return low;
}

function paint(canvas: HTMLCanvasElement, map: HeatMap): void {
  const width = map.columnIndex.length;
  const height = map.rowIndex.length;
  canvas.width = width;
  canvas.height = height;
  const context = canvas.getContext("2d");
  if (context === null || width * height === 0) return;
  const image = context.createImageData(width, height);
  const scale = scaleOf(map.values);
  for (let i = 0; i < map.values.length; i++) colorOf(map.values[i] as number, scale, image.data, 4 * i);
  context.putImageData(image, 0, 0);
}

/** Blue for negative, white for zero, orange for positive: distinguishable in both kinds of colour blindness. */
const NEGATIVE = [33, 102, 172] as const;
const ZERO = [247, 247, 247] as const;
const POSITIVE = [202, 90, 20] as const;
const NOT_A_NUMBER = [214, 0, 80] as const;

/**
 * Values beyond this many root mean squares get the strongest colour, so that a few outliers do not turn the rest
 * white.
 */
const FULL_AT = 2.5;

/** The magnitude that gets the strongest colour. */
export function scaleOf(values: Float32Array): number {
  let squares = 0;
  let count = 0;
  for (let i = 0; i < values.length; i++) {
    const value = values[i] as number;
    if (!Number.isFinite(value)) continue;
    squares += value * value;
    count++;
  }
  return count === 0 || squares === 0 ? 1 : FULL_AT * Math.sqrt(squares / count);
}

/** Writes red, green, blue and alpha at `offset`. */
export function colorOf(value: number, scale: number, into: Uint8ClampedArray, offset: number): void {
  const share = Math.min(1, Math.abs(value) / scale);
  const end = value < 0 ? NEGATIVE : POSITIVE;
  for (let channel = 0; channel < 3; channel++) {
    const zero = ZERO[channel] as number;
    into[offset + channel] = Number.isFinite(value)
      ? zero + ((end[channel] as number) - zero) * share
      : (NOT_A_NUMBER[channel] as number);
  }
  into[offset + 3] = 255;
}
