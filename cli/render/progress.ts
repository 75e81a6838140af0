import { formatRate, formatSize, formatTime } from "../../src/base/figures.ts";
import { bar } from "./charts.ts";
import { encodeJson } from "./json.ts";
import { cutEnd, padEnd } from "./text-width.ts";

export type ProgressMode = "bar" | "json" | "none";

export interface ProgressOptions {
  /** What is being done, as a participle: "hashing". */
  readonly label: string;
  /** Bytes in total; undefined if unknown. */
  readonly total?: number | undefined;
}

/** One long job. */
export interface Progress {
  /** Counts more finished bytes. */
  add(byteLength: number): void;
  /** Sets the total, if it becomes known on the way. */
  expect(total: number): void;
  /** Removes the bar; does nothing on a second call. */
  end(): void;
}

export interface ProgressDevice {
  readonly mode: ProgressMode;
  /** Writes to standard error. */
  readonly write: (text: string) => void;
  readonly width: number;
  /** Milliseconds, monotonic. */
  readonly now: () => number;
}

/** A job that ends within a second needs no bar. */
const PATIENCE_MS = 1000;
const INTERVAL_MS = { bar: 100, json: 250 } as const;
const BAR_CELLS = 24;
const LEAST_BAR_CELLS = 6;
const CLEAR_LINE = "\r\u001b[2K";

const SILENT: Progress = { add() {}, expect() {}, end() {} };

export function startProgress(device: ProgressDevice, options: ProgressOptions): Progress {
  return device.mode === "none" ? SILENT : new Meter(device, options, device.mode);
}

class Meter implements Progress {
  readonly #device: ProgressDevice;
  readonly #options: ProgressOptions;
  readonly #mode: "bar" | "json";
  readonly #start: number;
  #total: number | undefined;
  #shownAt: number;
  #shown = false;
  #done = 0;
  #ended = false;

  constructor(device: ProgressDevice, options: ProgressOptions, mode: "bar" | "json") {
    this.#device = device;
    this.#options = options;
    this.#mode = mode;
    this.#start = device.now();
    this.#total = options.total;
    // Readers of JSON Lines want to know about the job at once; people only if it takes long.
    this.#shownAt = mode === "json" ? Number.NEGATIVE_INFINITY : this.#start + PATIENCE_MS - INTERVAL_MS.bar;
  }

  add(byteLength: number): void {
    this.#done += byteLength;
    const now = this.#device.now();
    if (this.#ended || now - this.#shownAt < INTERVAL_MS[this.#mode]) return;
    this.#show(now);
  }

  expect(total: number): void {
    this.#total = total;
  }

  end(): void {
    if (this.#ended) return;
    this.#ended = true;
    if (this.#mode === "json") this.#show(this.#device.now());
    else if (this.#shown) this.#device.write(CLEAR_LINE);
  }

  #show(now: number): void {
    this.#shownAt = now;
    this.#shown = true;
    const elapsed = now - this.#start;
    if (this.#mode === "bar") this.#device.write(CLEAR_LINE + cutEnd(this.#line(elapsed), this.#device.width - 1));
    else this.#device.write(`${this.#json(elapsed)}\n`);
  }

  #line(elapsed: number): string {
    const { label } = this.#options;
    const total = this.#total;
    const rate = formatRate(this.#done, elapsed);
    if (total === undefined || total === 0) return `${label}  ${formatSize(this.#done)}  ${rate}`;
    const share = Math.min(1, this.#done / total);
    const left = this.#done === 0 ? "" : `  ${formatTime((elapsed * (total - this.#done)) / this.#done)} left`;
    const percent = `${Math.floor(share * 100)} %`.padStart(5);
    const rest = ` ${percent}  ${formatSize(this.#done)} of ${formatSize(total)}  ${rate}${left}`;
    const cells = Math.max(LEAST_BAR_CELLS, Math.min(BAR_CELLS, this.#device.width - 3 - label.length - rest.length));
    return `${label}  ${padEnd(bar(share, cells), cells)}${rest}`;
  }

  #json(elapsed: number): string {
    const { label } = this.#options;
    const total = this.#total;
    const bytesPerSecond = elapsed > 0 ? Math.round((this.#done * 1000) / elapsed) : 0;
    return encodeJson({ type: "progress", label, done: this.#done, total: total ?? null, bytesPerSecond }, "compact");
  }
}
