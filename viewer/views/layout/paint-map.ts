import type { Kind } from "../../shared/protocol.ts";
import type { AddressSpace } from "./address-space.ts";
import type { Interval, IntervalSet } from "./interval-set.ts";

/** Lines of the ribbon and their measures, in CSS pixels. */
export const LANES = 14;
export const LANE_HEIGHT = 22;
export const LANE_GAP = 5;

/** From this width on, bytes show their hex digits. */
const DIGITS_WIDTH = 17;

export interface MapPicture {
  readonly space: AddressSpace;
  readonly window: Interval;
  /** The bytes that were compared; undefined before a verification. */
  readonly checked: IntervalSet | undefined;
  readonly damaged: IntervalSet;
  /** The run under the cursor. */
  readonly cursor: number | undefined;
  /** Bytes of the window, if it is short enough to show them. */
  readonly bytes: Uint8Array | undefined;
}

export type MapColors = Readonly<Record<Kind | "damage" | "paper" | "ink", string>>;

/** Colours of the page's theme. */
export function mapColors(element: Element): MapColors {
  const style = getComputedStyle(element);
  const color = (name: string): string => style.getPropertyValue(`--map-${name}`).trim();
  return {
    header: color("header"),
    metadata: color("metadata"),
    index: color("index"),
    tensor: color("tensor"),
    data: color("data"),
    integrity: color("integrity"),
    padding: color("padding"),
    gap: color("gap"),
    damage: color("damage"),
    paper: color("paper"),
    ink: color("ink"),
  };
}

/** The address at a position of the picture, with lanes of `width`. */
export function addressAt(x: number, y: number, width: number, window: Interval): number {
  const lane = Math.max(0, Math.min(LANES - 1, Math.floor(y / (LANE_HEIGHT + LANE_GAP))));
  const share = (lane + Math.max(0, Math.min(0.999999, x / width))) / LANES;
  return Math.floor(window.start + share * (window.end - window.start));
}

export function paintMap(
  context: CanvasRenderingContext2D,
  width: number,
  picture: MapPicture,
  colors: MapColors,
): void {
  context.clearRect(0, 0, width, LANES * (LANE_HEIGHT + LANE_GAP));
  const painter = new Painter(context, width, picture.window);
  paintRuns(painter, picture, colors);
  for (const { start, end } of picture.damaged.within(picture.window.start, picture.window.end)) {
    painter.band(start, end, colors.damage, 1, 2);
  }
  if (picture.cursor !== undefined) {
    const { start, end } = picture.space.run(picture.cursor);
    painter.outline(start, end, colors.ink);
  }
  if (picture.bytes !== undefined) painter.digits(picture.bytes, picture.window.start, colors.ink);
}

/** Before a verification everything has full colour; afterwards the unchecked runs are pale. */
function paintRuns(painter: Painter, { space, window, checked }: MapPicture, colors: MapColors): void {
  const opacity = checked === undefined ? 1 : 0.28;
  for (let i = space.indexAt(window.start); i < space.count; i++) {
    const { start, end, kind } = space.run(i);
    if (start >= window.end) break;
    // Neighbours differ in shade, so that a row of tensors is not one bar.
    const shade = kind === "tensor" && i % 2 === 1 ? 0.78 : 1;
    painter.run(start, end, colors[kind], opacity * shade);
    for (const done of checked?.within(start, end) ?? []) {
      painter.band(Math.max(start, done.start), Math.min(end, done.end), colors[kind], shade, 0);
    }
  }
}

class Painter {
  readonly #context: CanvasRenderingContext2D;
  readonly #width: number;
  readonly #window: Interval;
  readonly #laneBytes: number;
  /** Right edge of the last run, in pixels of the whole ribbon: thousands of runs may fall on one pixel. */
  #painted = -1;

  constructor(context: CanvasRenderingContext2D, width: number, window: Interval) {
    this.#context = context;
    this.#width = width;
    this.#window = window;
    this.#laneBytes = (window.end - window.start) / LANES;
  }

  /** A run, followed by a thin gap if there is room. */
  run(start: number, end: number, color: string, opacity: number): void {
    const right = ((end - this.#window.start) / this.#laneBytes) * this.#width;
    if (Math.floor(right) <= this.#painted && right - this.#painted < 0.5) return;
    this.#painted = Math.floor(right);
    this.#pieces(start, end, (x, y, w) => {
      this.#context.globalAlpha = opacity;
      this.#context.fillStyle = color;
      this.#context.fillRect(x, y, Math.max(0.75, w > 4 ? w - 1 : w), LANE_HEIGHT);
    });
    this.#context.globalAlpha = 1;
  }

  /** A mark over runs; at least `least` pixels wide. */
  band(start: number, end: number, color: string, opacity: number, least: number): void {
    this.#pieces(start, end, (x, y, w) => {
      this.#context.globalAlpha = opacity;
      this.#context.fillStyle = color;
      this.#context.fillRect(x, y, Math.max(least, w > 4 && least === 0 ? w - 1 : w), LANE_HEIGHT);
    });
    this.#context.globalAlpha = 1;
  }

  outline(start: number, end: number, color: string): void {
    this.#pieces(start, end, (x, y, w) => {
      this.#context.strokeStyle = color;
      this.#context.lineWidth = 2;
      this.#context.strokeRect(x, y - 1, Math.max(2, w), LANE_HEIGHT + 2);
    });
  }

  digits(bytes: Uint8Array, from: number, color: string): void {
    const cell = this.#width / this.#laneBytes;
    if (cell < DIGITS_WIDTH) return;
    this.#context.fillStyle = color;
    this.#context.font = "11px ui-monospace, monospace";
    this.#context.textAlign = "center";
    this.#context.textBaseline = "middle";
    for (let i = 0; i < bytes.length; i++) {
      this.#pieces(from + i, from + i + 1, (x, y, w) => {
        const text = (bytes[i] as number).toString(16).padStart(2, "0");
        if (w > DIGITS_WIDTH / 2) this.#context.fillText(text, x + w / 2, y + LANE_HEIGHT / 2);
      });
    }
  }

  /** The rectangles of a run, one for each lane that it touches. */
  #pieces(start: number, end: number, draw: (x: number, y: number, width: number) => void): void {
    const from = Math.max(start, this.#window.start) - this.#window.start;
    const to = Math.min(end, this.#window.end) - this.#window.start;
    if (to <= from) return;
    const last = Math.min(LANES - 1, Math.ceil(to / this.#laneBytes) - 1);
    for (let lane = Math.floor(from / this.#laneBytes); lane <= last; lane++) {
      const left = Math.max(from, lane * this.#laneBytes) - lane * this.#laneBytes;
      const right = Math.min(to, (lane + 1) * this.#laneBytes) - lane * this.#laneBytes;
      const scale = this.#width / this.#laneBytes;
      draw(left * scale, 1 + lane * (LANE_HEIGHT + LANE_GAP), (right - left) * scale);
    }
  }
}
