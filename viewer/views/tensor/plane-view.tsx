import { useState } from "preact/hooks";
import { formatInteger, formatValue } from "../../../src/base/figures.ts";
import { type DType, dtypeFacts } from "../../../src/model/dtype.ts";
import { ErrorPanel } from "../../app/error-panel.tsx";
import type { Session } from "../../app/session.ts";
import { useCall } from "../../app/use-call.ts";
import type { Overview, Plane } from "../../shared/protocol.ts";
import { planeOf } from "../../shared/protocol.ts";
import { NumberField } from "../../widgets/fields.tsx";
import { HeatMapView } from "./heat-map-view.tsx";
import type { TensorFacts } from "./tensor-page.tsx";

/** A plane of the tensor as a picture and, at its cursor, as numbers. */
export function PlaneView({ session, overview, facts }: TensorPlace) {
  const { shape } = facts;
  const [leading, setLeading] = useState<readonly number[]>(() => shape.slice(0, -2).map(() => 0));
  const [cursor, setCursor] = useState<Cell>({ row: 0, column: 0 });
  const plane = planeOf(shape, leading);
  if (plane.rows * plane.columns === 0 || dtypeFacts(facts.dtype as DType).layout === "opaque") return null;
  const shown: PlaneProps = { session, overview, facts, leading, plane, cursor };
  return (
    <section aria-labelledby="plane-title">
      <h2 id="plane-title">Values</h2>
      {shape.length > 2 ? (
        <fieldset class="slices">
          <legend>Slice of the outer dimensions</legend>
          {leading.map((index, dimension) => (
            <NumberField
              key={`d${dimension}`}
              label={`Dimension ${dimension}`}
              value={index}
              max={(shape[dimension] ?? 1) - 1}
              onChange={(next) => setLeading(leading.map((old, i) => (i === dimension ? next : old)))}
            />
          ))}
        </fieldset>
      ) : null}
      <HeatMapView {...shown} onCursor={setCursor} />
      <fieldset class="slices">
        <legend>Numbers from</legend>
        <NumberField
          label="Row"
          value={cursor.row}
          max={plane.rows - 1}
          onChange={(row) => setCursor({ ...cursor, row })}
        />
        <NumberField
          label="Column"
          value={cursor.column}
          max={plane.columns - 1}
          onChange={(column) => setCursor({ ...cursor, column })}
        />
        <span class="soft">
          of {formatInteger(plane.rows)} × {formatInteger(plane.columns)}
        </span>
      </fieldset>
      <ValueGrid {...shown} />
    </section>
  );
}

const ROWS = 12;
const COLUMNS = 10;

/** A few of the values as numbers. */
export function ValueGrid({ session, overview, facts, leading, plane, cursor }: PlaneProps) {
  const row = Math.min(cursor.row, Math.max(0, plane.rows - ROWS));
  const column = Math.min(cursor.column, Math.max(0, plane.columns - COLUMNS));
  const rows = Math.min(ROWS, plane.rows);
  const columns = Math.min(COLUMNS, plane.columns);
  const request = { target: overview.target, name: facts.name, leading, row, column, rows, columns };
  const slice = useCall(session.reader, "slice", request, JSON.stringify(request));
  if (slice.error !== undefined) return <ErrorPanel title="Cannot read the values" error={slice.error} />;
  const { result } = slice;
  if (result === undefined) return null;
  const cells = (values: number): number[] => Array.from({ length: values }, (_, i) => i);
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Numbers">
      <table class="values">
        <caption class="away">
          Values from row {row} and column {column}
        </caption>
        <thead>
          <tr>
            <td />
            {cells(result.columns).map((x) => (
              <th key={x} scope="col">
                {formatInteger(column + x)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {cells(result.rows).map((y) => (
            <tr key={y}>
              <th scope="row">{formatInteger(row + y)}</th>
              {cells(result.columns).map((x) => (
                <td key={x}>{formatValue(result.values[y * result.columns + x] ?? null)}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** A place in a plane. */
export interface Cell {
  readonly row: number;
  readonly column: number;
}

/** A tensor of the opened content. */
export interface TensorPlace {
  readonly session: Session;
  readonly overview: Overview;
  readonly facts: TensorFacts;
}

/** The data for drawing a plane of it, as a picture or as numbers. */
export interface PlaneProps extends TensorPlace {
  /** The slice of the outer dimensions. */
  readonly leading: readonly number[];
  readonly plane: Plane;
  readonly cursor: Cell;
}
