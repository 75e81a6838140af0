import { useMemo, useState } from "preact/hooks";
import { formatInteger, formatOffset, formatSize } from "../../../src/base/figures.ts";
import { ErrorPanel } from "../../app/error-panel.tsx";
import type { ViewProps } from "../../app/lazy-view.tsx";
import { at, formatRoute } from "../../app/route.ts";
import { useCall } from "../../app/use-call.ts";
import type { LayoutTable } from "../../pages/layout-table.ts";
import { KINDS } from "../../shared/protocol.ts";
import { type ColumnHead, columnHeads, VirtualRows } from "../../widgets/virtual-rows.tsx";
import { AddressSpace, clampWindow, type MapRun } from "./address-space.ts";
import type { Interval } from "./interval-set.ts";
import { BYTES_WINDOW, LayoutMap } from "./layout-map.tsx";
import { missingRuns, useVerification } from "./verification.ts";
import { VerifyPanel } from "./verify-panel.tsx";

const ROW_HEIGHT = 30;
const COLUMNS: readonly ColumnHead[] = [
  ["Name", "name"],
  ["Kind", "kind"],
  ["Size", "number"],
  ["Offset", "number offset"],
];

export function LayoutPage(props: ViewProps) {
  const { session, overview } = props;
  const layout = useCall(session.reader, "layout", { target: overview.target }, String(overview.target));
  if (layout.error !== undefined) return <ErrorPanel title="Cannot lay out the file" error={layout.error} />;
  if (layout.result === undefined) return <p class="busy">Laying out …</p>;
  return <Layout {...props} table={layout.result} />;
}

function Layout({ session, overview, route, table }: ViewProps & { readonly table: LayoutTable }) {
  const space = useMemo(() => new AddressSpace(table), [table]);
  const [window, setWindow] = useState<Interval>({ start: 0, end: space.byteLength });
  const [cursor, setCursor] = useState<number | undefined>(undefined);
  const { state, start, stop } = useVerification(session, overview, space);
  const isShort = window.end - window.start <= BYTES_WINDOW;
  const place = space.place(window.start);
  const page = useCall(
    session.reader,
    "hex",
    isShort ? { target: overview.target, ...place, byteLength: window.end - window.start } : undefined,
    isShort ? `${window.start} ${window.end}` : "",
  );
  const show = (start: number, end: number): void => {
    const margin = (end - start) * 0.5;
    setWindow(clampWindow({ start: start - margin, end: end + margin }, space.byteLength));
    setCursor(space.indexAt(start));
  };
  const open = (run: MapRun, address: number): void => {
    if (run.kind === "tensor") location.hash = formatRoute(at(route, { view: "tensors", tensor: run.name }));
    else location.hash = formatRoute(at(route, { view: "hex", ...space.place(address) }));
  };
  const isShown = isShort && page.result?.offset === place.offset;
  const length = window.end - window.start;
  const missingBytes = missingRuns(space).reduce((sum, run) => sum + run.end - run.start, 0);
  const zoom = (factor: number): void => {
    const middle = cursor === undefined ? (window.start + window.end) / 2 : space.run(cursor).start;
    const first = middle - (middle - window.start) * factor;
    setWindow(clampWindow({ start: first, end: first + length * factor }, space.byteLength));
  };
  return (
    <div class="layout">
      <h1 class="away">Layout</h1>
      {overview.kind === "unreadable" ? null : (
        <VerifyPanel
          state={state}
          byteLength={space.byteLength}
          verb={overview.kind === "archive" ? "Scrub" : "Verify"}
          onStart={start}
          onStop={stop}
          onShow={({ run }) => {
            if (run === undefined) return;
            const address = space.address(run.part, run.offset);
            show(address, address + run.byteLength);
          }}
        />
      )}
      <div class="map-tools">
        <Legend table={table} />
        <span class="buttons">
          <button type="button" aria-label="Zoom in" onClick={() => zoom(0.5)}>
            +
          </button>
          <button type="button" aria-label="Zoom out" onClick={() => zoom(2)}>
            −
          </button>
          <button type="button" onClick={() => setWindow({ start: 0, end: space.byteLength })}>
            Whole
          </button>
        </span>
      </div>
      <LayoutMap
        space={space}
        window={window}
        checked={state.checked}
        damaged={state.damaged}
        version={state.version}
        bytes={isShown ? page.result?.bytes : undefined}
        cursor={cursor}
        onCursor={setCursor}
        onWindow={setWindow}
        onOpen={open}
      />
      <h2>
        {formatInteger(space.count)} runs, {formatSize(space.byteLength)}:{" "}
        {missingBytes > 0 ? `the last ${formatSize(missingBytes)} are missing` : "every byte is one of them"}
      </h2>
      <VirtualRows
        label="Runs of the file"
        class="runs"
        count={space.count}
        rowHeight={ROW_HEIGHT}
        head={columnHeads(COLUMNS)}
        onOpen={(index) => {
          const run = space.run(index);
          show(run.start, run.end);
        }}
        rowClass={(index) => {
          const { start, end } = space.run(index);
          return state.damaged.within(start, end).length > 0 ? "damaged" : "";
        }}
        row={(index) => runCells(space.run(index))}
      />
    </div>
  );
}

function runCells(run: MapRun) {
  return (
    <>
      <div role="gridcell" class="name mono" title={run.name}>
        <span class={`swatch kind-${run.kind}`} aria-hidden="true" />
        <span class="clip">{run.name}</span>
      </div>
      <div role="gridcell" class="soft kind">
        {run.kind}
      </div>
      <div role="gridcell" class="number size">
        {formatSize(run.end - run.start)}
      </div>
      <div role="gridcell" class="number offset mono soft">
        {formatOffset(run.offset)}
      </div>
    </>
  );
}

function Legend({ table }: { readonly table: LayoutTable }) {
  const used = new Set(table.kind);
  return (
    <ul class="legend inline">
      {KINDS.map((kind, i) =>
        used.has(i) ? (
          <li key={kind}>
            <span class={`swatch kind-${kind}`} aria-hidden="true" />
            {kind}
          </li>
        ) : null,
      )}
    </ul>
  );
}
