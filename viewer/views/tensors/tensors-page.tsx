import { useMemo, useState } from "preact/hooks";
import { formatCount, formatInteger, formatOffset, formatSize } from "../../../src/base/figures.ts";
import { ErrorPanel } from "../../app/error-panel.tsx";
import type { ViewProps } from "../../app/lazy-view.tsx";
import { at, formatRoute } from "../../app/route.ts";
import { useCall } from "../../app/use-call.ts";
import type { SortKey, TensorTable } from "../../pages/tensor-table.ts";
import { SearchField } from "../../widgets/fields.tsx";
import { TensorName } from "../../widgets/tensor-name.tsx";
import { toggled, VirtualRows } from "../../widgets/virtual-rows.tsx";
import { TensorPage } from "../tensor/tensor-page.tsx";
import { type Heading, type RowOptions, visibleRows } from "./visible-rows.ts";

const ROW_HEIGHT = 34;

const COLUMNS: readonly (readonly [key: SortKey, title: string, className: string])[] = [
  ["name", "Name", "name"],
  ["dtype", "Type", "dtype"],
  ["shape", "Shape", "shape"],
  ["elements", "Elements", "number elements"],
  ["size", "Size", "number size"],
  ["offset", "Offset", "number offset"],
];

export function TensorsPage(props: ViewProps) {
  const { session, overview, route } = props;
  const { target } = overview;
  const table = useCall(session.reader, "tensors", { target }, String(target));
  if (route.tensor !== undefined) return <TensorPage key={route.tensor} {...props} name={route.tensor} />;
  if (table.error !== undefined) return <ErrorPanel title="Cannot list the tensors" error={table.error} />;
  if (table.result === undefined) return <p class="busy">Listing …</p>;
  return <TensorList {...props} table={table.result} />;
}

function TensorList({ session, overview, route, table }: ViewProps & { readonly table: TensorTable }) {
  const [key, setKey] = useState<SortKey>("file");
  const [direction, setDirection] = useState<RowOptions["direction"]>("up");
  const [filter, setFilter] = useState("");
  const [grouping, setGrouping] = useState<RowOptions["grouping"]>("none");
  const [closed, setClosed] = useState<ReadonlySet<number>>(new Set());
  const sorted = useCall(session.reader, "sortTensors", { target: overview.target, key }, `${overview.target} ${key}`);
  const order = sorted.result ?? table.names.map((_, i) => i);
  const { rows, headings } = useMemo(
    () => visibleRows(table, { order, direction, filter, grouping, closed }),
    [table, sorted.result, direction, filter, grouping, closed],
  );
  const sort = (next: SortKey): void => {
    setDirection(next === key && direction === "up" ? "down" : "up");
    setKey(next);
  };
  const open = (index: number): void => {
    const row = rows[index] as number;
    const heading = headings[~row];
    if (heading !== undefined) setClosed(toggled(closed, heading.group));
    else location.hash = formatRoute(at(route, { view: "tensors", tensor: table.names[row] }));
  };
  return (
    <div class="fill">
      <div class="toolbar">
        <h1 class="away">Tensors</h1>
        <SearchField
          label="Filter tensors"
          placeholder="Filter: attn f16, *.weight, 4096"
          value={filter}
          onText={setFilter}
        />
        <label class="check">
          <input
            type="checkbox"
            checked={grouping === "layer"}
            onChange={(event) => setGrouping(event.currentTarget.checked ? "layer" : "none")}
          />
          Group by layer
        </label>
        <p class="soft" role="status">
          {filter === ""
            ? `${formatInteger(table.names.length)} tensors`
            : `${formatInteger(rows.length - headings.length)} of ${formatInteger(table.names.length)}`}
        </p>
      </div>
      <VirtualRows
        label="Tensors"
        class="tensors"
        count={rows.length}
        rowHeight={ROW_HEIGHT}
        onOpen={open}
        rowClass={(index) => ((rows[index] as number) < 0 ? "group" : "")}
        head={COLUMNS.map(([column, title, className]) => (
          <div
            key={column}
            role="columnheader"
            class={className}
            aria-sort={column === key ? (direction === "up" ? "ascending" : "descending") : "none"}
          >
            <button type="button" onClick={() => sort(column)}>
              {title}
              <span aria-hidden="true" class="arrow">
                {column === key ? (direction === "up" ? "↑" : "↓") : ""}
              </span>
            </button>
          </div>
        ))}
        row={(index) => {
          const row = rows[index] as number;
          const heading = headings[~row];
          return heading === undefined ? tensorCells(table, row) : headingCells(table, heading, closed);
        }}
      />
    </div>
  );
}

function headingCells(table: TensorTable, { group, count, byteLength }: Heading, closed: ReadonlySet<number>) {
  return (
    <>
      <div role="gridcell" class="name">
        <span aria-hidden="true" class="twist">
          {closed.has(group) ? "▸" : "▾"}
        </span>
        {table.groupNames[group]}
      </div>
      <div role="gridcell" class="soft rest">
        {formatInteger(count)} {count === 1 ? "tensor" : "tensors"}
      </div>
      <div role="gridcell" class="number size">
        {formatSize(byteLength)}
      </div>
    </>
  );
}

function tensorCells(table: TensorTable, index: number) {
  return (
    <>
      <div role="gridcell" class="name mono" title={table.names[index]} aria-label={table.names[index]}>
        <TensorName name={table.names[index] ?? ""} />
      </div>
      <div role="gridcell" class="dtype mono">
        {table.dtypeNames[table.dtype[index] as number]}
      </div>
      <div role="gridcell" class="shape">
        {table.shapes[index]}
      </div>
      <div role="gridcell" class="number elements">
        {formatCount(table.elementCount[index] as number)}
      </div>
      <div role="gridcell" class="number size">
        {formatSize(table.byteLength[index] as number)}
      </div>
      <div role="gridcell" class="number offset mono soft">
        {formatOffset(table.offset[index] as number)}
      </div>
    </>
  );
}
