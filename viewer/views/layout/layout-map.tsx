import { useEffect, useRef, useState } from "preact/hooks";
import { formatInteger, formatOffset, formatSize } from "../../../src/base/figures.ts";
import { useMedia } from "../../widgets/browser.ts";
import { type AddressSpace, clampWindow, type MapRun, zoomWindow } from "./address-space.ts";
import type { Interval, IntervalSet } from "./interval-set.ts";
import { addressAt, LANE_GAP, LANE_HEIGHT, LANES, mapColors, paintMap } from "./paint-map.ts";

/** Windows up to this long show their bytes. */
export const BYTES_WINDOW = 1024;

export interface LayoutMapProps {
  readonly space: AddressSpace;
  readonly window: Interval;
  readonly checked: IntervalSet | undefined;
  readonly damaged: IntervalSet;
  /** Changes whenever one of the two sets does. */
  readonly version: number;
  readonly bytes: Uint8Array | undefined;
  readonly cursor: number | undefined;
  readonly onCursor: (index: number) => void;
  readonly onWindow: (window: Interval) => void;
  readonly onOpen: (run: MapRun, address: number) => void;
}

/** The ribbon: the line of addresses, cut into lanes. */
export function LayoutMap(props: LayoutMapProps) {
  const { space, window, cursor, onCursor, onWindow, onOpen } = props;
  const canvas = useRef<HTMLCanvasElement>(null);
  const [width, setWidth] = useState(0);
  const [hover, setHover] = useState<number | undefined>(undefined);
  const isDark = useMedia("(prefers-color-scheme: dark)");
  useEffect(() => observeWidth(canvas.current, setWidth), []);
  useEffect(() => {
    const element = canvas.current;
    const context = element?.getContext("2d");
    if (element === null || context === null || context === undefined || width === 0) return;
    const ratio = devicePixelRatio;
    resize(element, Math.round(width * ratio), Math.round(LANES * (LANE_HEIGHT + LANE_GAP) * ratio));
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    paintMap(context, width, { ...props, cursor: hover ?? cursor }, mapColors(element));
  }, [width, window, props.version, props.bytes, cursor, hover, space, isDark]);

  const addressOf = (event: MouseEvent): number => {
    const box = (event.currentTarget as HTMLElement).getBoundingClientRect();
    return addressAt(event.clientX - box.left, event.clientY - box.top, box.width, window);
  };
  const step = (index: number): void => {
    const next = Math.max(0, Math.min(space.count - 1, index));
    onCursor(next);
    const { start, end } = space.run(next);
    if (start >= window.start && end <= window.end) return;
    const length = window.end - window.start;
    onWindow(clampWindow({ start: start - length / 4, end: start + (3 * length) / 4 }, space.byteLength));
  };
  const anchor = cursor === undefined ? window.start : space.run(cursor).start;
  const length = window.end - window.start;
  const pan = (by: number): void => {
    onWindow(clampWindow({ start: window.start + by, end: window.end + by }, space.byteLength));
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    const at = cursor ?? space.indexAt(window.start) - 1;
    const keys: Record<string, () => void> = {
      ArrowRight: () => step(at + 1),
      ArrowLeft: () => step(at - 1),
      ArrowDown: () => pan(length / LANES),
      ArrowUp: () => pan(-length / LANES),
      PageDown: () => pan(length),
      PageUp: () => pan(-length),
      "+": () => onWindow(zoomWindow(window, 0.5, anchor, space.byteLength)),
      "=": () => onWindow(zoomWindow(window, 0.5, anchor, space.byteLength)),
      "-": () => onWindow(zoomWindow(window, 2, anchor, space.byteLength)),
      "0": () => onWindow({ start: 0, end: space.byteLength }),
      Enter: () => {
        if (cursor !== undefined) onOpen(space.run(cursor), space.run(cursor).start);
      },
    };
    const act = keys[event.key];
    if (act === undefined || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    act();
  };
  useWheel(canvas, (event) => {
    if (!event.ctrlKey && !event.altKey) return;
    event.preventDefault();
    onWindow(zoomWindow(window, event.deltaY > 0 ? 1.25 : 0.8, addressOf(event), space.byteLength));
  });
  const named = hover ?? cursor;
  return (
    <figure class="map">
      <canvas
        ref={canvas}
        tabIndex={0}
        role="application"
        aria-roledescription="map of the file"
        aria-label={`Layout of ${formatSize(space.byteLength)} in ${formatInteger(space.count)} runs. Left and right go from run to run, plus and minus zoom, Enter opens.`}
        onKeyDown={onKeyDown}
        onMouseMove={(event) => setHover(space.indexAt(addressOf(event)))}
        onMouseLeave={() => setHover(undefined)}
        onClick={(event) => {
          const address = addressOf(event);
          onCursor(space.indexAt(address));
          onOpen(space.run(space.indexAt(address)), address);
        }}
      />
      <figcaption aria-live="polite">
        {named === undefined ? (
          <span class="soft">
            {formatOffset(window.start)} – {formatOffset(window.end)} · {formatSize(length)} on screen
          </span>
        ) : (
          <RunText run={space.run(named)} />
        )}
      </figcaption>
    </figure>
  );
}

/** Setting a size gives a canvas new memory, even if the size is the same. */
function resize(canvas: HTMLCanvasElement, width: number, height: number): void {
  if (canvas.width !== width) canvas.width = width;
  if (canvas.height !== height) canvas.height = height;
}

function RunText({ run }: { readonly run: MapRun }) {
  return (
    <>
      <span class="mono strong">{run.name}</span>
      <span class="soft">
        {run.kind} · {formatSize(run.end - run.start)} at {formatOffset(run.offset)}
      </span>
    </>
  );
}

function observeWidth(element: Element | null, take: (width: number) => void): (() => void) | undefined {
  if (element === null) return undefined;
  const observer = new ResizeObserver(() => take(element.clientWidth));
  observer.observe(element);
  return () => observer.disconnect();
}

/** Preact's own listener cannot keep the page from scrolling. */
function useWheel(element: { readonly current: HTMLElement | null }, act: (event: WheelEvent) => void): void {
  const latest = useRef(act);
  latest.current = act;
  useEffect(() => {
    const listener = (event: WheelEvent): void => latest.current(event);
    const { current } = element;
    current?.addEventListener("wheel", listener, { passive: false });
    return () => current?.removeEventListener("wheel", listener);
  }, []);
}
