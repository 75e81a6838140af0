import { useState } from "preact/hooks";
import { formatInteger, formatValue } from "../../../src/base/figures.ts";
import { ErrorPanel } from "../../app/error-panel.tsx";
import { useCall } from "../../app/use-call.ts";
import { NumberField } from "../../widgets/fields.tsx";
import type { TensorPlace } from "./plane-view.tsx";

const BLOCKS = 4;

/** Quantised blocks as they are stored: scales and quants, and their decoded values. */
export function BlockView({ session, overview, facts }: TensorPlace) {
  const [first, setFirst] = useState(0);
  const request = { target: overview.target, name: facts.name, first, count: BLOCKS };
  const { result, error } = useCall(session.reader, "blocks", request, JSON.stringify(request));
  return (
    <section aria-labelledby="blocks-title">
      <h2 id="blocks-title">Blocks</h2>
      {error === undefined ? null : <ErrorPanel title="Cannot read the blocks" error={error} />}
      {result === undefined ? null : (
        <>
          <p class="soft">
            {formatInteger(result.blockCount)} blocks of {result.blockElements} elements in {result.blockBytes} bytes
          </p>
          <fieldset class="slices">
            <legend class="away">Which blocks</legend>
            <NumberField
              label="From block"
              value={first}
              max={Math.max(0, result.blockCount - 1)}
              onChange={setFirst}
            />
          </fieldset>
          {result.blocks.map(({ index, stored, values }) => (
            <article key={index} class="block" aria-label={`Block ${index}`}>
              <h3>Block {formatInteger(index)}</h3>
              <dl class="facts wide">
                {result.fields.map(({ name, type }, i) => (
                  <div key={name}>
                    <dt class="mono">
                      {name} <span class="soft">{type}</span>
                    </dt>
                    <dd class="mono small">{(stored[i] ?? []).map(formatValue).join(" ")}</dd>
                  </div>
                ))}
                {values.length === 0 ? null : (
                  <div>
                    <dt>
                      values <span class="soft">f32</span>
                    </dt>
                    <dd class="mono small">{values.map(formatValue).join(" ")}</dd>
                  </div>
                )}
              </dl>
            </article>
          ))}
        </>
      )}
    </section>
  );
}
