import { useState } from "preact/hooks";
import { formatInteger } from "../../../src/base/figures.ts";
import { type DType, dtypeFacts } from "../../../src/model/dtype.ts";
import { planeOf } from "../../shared/planes.ts";
import { NumberField } from "../../widgets/number-field.tsx";
import { HeatMapView } from "./heat-map-view.tsx";
import type { Cell, PlaneProps, TensorPlace } from "./plane-props.ts";
import { ValueGrid } from "./value-grid.tsx";

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
