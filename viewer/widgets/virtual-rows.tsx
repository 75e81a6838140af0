import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { formatInteger } from "../../src/base/figures.ts";

/** Rows drawn beyond the edges, so that a fast scroll shows no holes. */
const OVERSCAN = 8;
/**
 * After a jump only the visible rows are drawn. The rows beyond the edges follow when nothing has moved for this long.
 */
const SETTLED_MS = 100;

export interface VirtualRowsProps {
  /** For screen readers. */
  readonly label: string;
  readonly count: number;
  readonly rowHeight: number;
  /** Cells of the row; the list gives them their place. */
  readonly row: (index: number) => ComponentChildren;
  /** The class of a row, in addition to the list's own. */
  readonly rowClass?: ((index: number) => string) | undefined;
  readonly onOpen?: ((index: number) => void) | undefined;
  /** The row of column headings, which stays in view. */
  readonly head?: ComponentChildren;
  readonly class?: string | undefined;
  /** Called with the visible rows, for lists whose content is fetched. */
  readonly onShown?: ((first: number, end: number) => void) | undefined;
}

interface Shown {
  readonly first: number;
  readonly end: number;
  /** Added to a row's index, it gives the index of the row's element. After a jump, existing elements get new rows. */
  readonly shift: number;
}

/** A list of any length of which only the visible rows exist. Arrow keys move, Enter opens. */
export function VirtualRows(props: VirtualRowsProps) {
  const { label, count, rowHeight, row, rowClass, onOpen, head, onShown } = props;
  const box = useRef<HTMLDivElement>(null);
  const [shown, setShown] = useState<Shown>({ first: 0, end: Math.min(count, 40), shift: 0 });
  const [active, setActive] = useState(-1);
  /** The rows on screen; undefined where all of them fit. */
  const [visible, setVisible] = useState<{ readonly first: number; readonly end: number } | undefined>(undefined);
  const list = useId();
  const headRows = head === undefined ? 0 : 1;

  useEffect(() => {
    const element = box.current;
    if (element === null) return undefined;
    let before = 0;
    let settled = 0;
    const measure = (): void => {
      const { scrollTop, clientHeight } = element;
      const beyond = Math.abs(scrollTop - before) <= clientHeight ? OVERSCAN : 0;
      before = scrollTop;
      clearTimeout(settled);
      if (beyond === 0) settled = setTimeout(measure, SETTLED_MS);
      const first = Math.max(0, Math.floor(scrollTop / rowHeight) - beyond);
      const end = Math.min(count, Math.ceil((scrollTop + clientHeight) / rowHeight) + beyond);
      setVisible((old) => {
        const top = Math.floor(scrollTop / rowHeight);
        const bottom = Math.min(count, Math.floor((scrollTop + clientHeight) / rowHeight) - headRows);
        if (count * rowHeight <= clientHeight - headRows * rowHeight || bottom <= top) return undefined;
        return old?.first === top && old.end === bottom ? old : { first: top, end: bottom };
      });
      setShown((old) => {
        if (old.first === first && old.end === end) return old;
        return { first, end, shift: beyond === 0 ? old.shift + old.first - first : old.shift };
      });
    };
    measure();
    element.addEventListener("scroll", measure, { passive: true });
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    return () => {
      element.removeEventListener("scroll", measure);
      clearTimeout(settled);
      observer.disconnect();
    };
  }, [count, rowHeight]);

  useEffect(() => onShown?.(shown.first, shown.end), [shown.first, shown.end, count]);

  const move = (to: number): void => {
    const next = Math.max(0, Math.min(count - 1, to));
    setActive(next);
    const element = box.current;
    if (element === null) return;
    const top = next * rowHeight;
    const room = element.clientHeight - headRows * rowHeight;
    if (top < element.scrollTop) element.scrollTop = top;
    else if (top + rowHeight > element.scrollTop + room) element.scrollTop = top + rowHeight - room;
  };

  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.target !== box.current) return;
    const page = Math.max(1, Math.floor((box.current?.clientHeight ?? 0) / rowHeight) - 1);
    const steps: Record<string, number> = {
      ArrowDown: active + 1,
      ArrowUp: active - 1,
      PageDown: active + page,
      PageUp: active - page,
      Home: 0,
      End: count - 1,
    };
    const to = steps[event.key];
    if (to !== undefined) {
      event.preventDefault();
      move(to);
    } else if (event.key === "Enter" && active >= 0) onOpen?.(active);
  };

  const rows = [];
  for (let index = shown.first; index < Math.min(shown.end, count); index++) {
    const classes = `row ${rowClass?.(index) ?? ""} ${index === active ? "active" : ""}`;
    rows.push(
      <div
        key={index + shown.shift}
        id={`${list}-${index}`}
        role="row"
        aria-rowindex={index + 1 + headRows}
        aria-selected={index === active}
        class={classes}
        style={{ transform: `translateY(${index * rowHeight}px)` }}
        onClick={() => {
          setActive(index);
          onOpen?.(index);
        }}
      >
        {row(index)}
      </div>,
    );
  }
  const grid = (
    <div
      ref={box}
      class={`virtual ${props.class ?? ""}`}
      role="grid"
      aria-label={label}
      aria-rowcount={count + headRows}
      aria-activedescendant={active >= shown.first && active < shown.end ? `${list}-${active}` : undefined}
      tabIndex={0}
      onKeyDown={onKeyDown}
    >
      {head === undefined ? null : (
        <div role="rowgroup" class="virtual-head">
          <div role="row" aria-rowindex={1} class="row head">
            {head}
          </div>
        </div>
      )}
      <div
        role="rowgroup"
        class="virtual-body"
        style={{ height: `${count * rowHeight}px`, "--row-height": `${rowHeight}px` }}
      >
        {rows}
      </div>
    </div>
  );
  if (visible === undefined) return grid;
  return (
    <>
      {grid}
      <p class="soft small scrolls" aria-hidden="true">
        {formatInteger(visible.first + 1)} to {formatInteger(visible.end)} of {formatInteger(count)}: scroll for more
      </p>
    </>
  );
}

/** The title of a column, the class of its cells, and an explanation if the title does not suffice. */
export type ColumnHead = readonly [title: string, className: string, meaning?: string];

/** The head of a list whose columns cannot be sorted. */
export function columnHeads(columns: readonly ColumnHead[]) {
  return columns.map(([title, className, meaning]) => (
    <div key={title} role="columnheader" class={className} title={meaning}>
      {title}
    </div>
  ));
}

/** The same set with one element added if it was missing, or removed if it was present. */
export function toggled<T>(set: ReadonlySet<T>, one: T): ReadonlySet<T> {
  const next = new Set(set);
  if (!next.delete(one)) next.add(one);
  return next;
}
