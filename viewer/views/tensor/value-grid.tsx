import { formatInteger, formatValue } from "../../../src/base/figures.ts";
import { ErrorPanel } from "../../app/error-panel.tsx";
import { useCall } from "../../app/use-call.ts";
import type { PlaneProps } from "./plane-props.ts";

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
