import { useState } from "preact/hooks";
import { formatInteger, formatOffset, formatSize } from "../../../src/base/figures.ts";
import type { DType } from "../../../src/model/dtype.ts";
import { blockFields } from "../../../src/model/ggml/block-fields.ts";
import { ErrorPanel } from "../../app/error-panel.tsx";
import type { ViewProps } from "../../app/lazy-view.tsx";
import { at, formatRoute } from "../../app/route.ts";
import { useCall } from "../../app/use-call.ts";
import type { TensorTable } from "../../pages/tensor-table.ts";
import { sumBytes } from "../../shared/calls.ts";
import { saveBlob } from "../../widgets/browser.ts";
import { BlockView } from "./block-view.tsx";
import { PlaneView } from "./plane-view.tsx";
import { StatisticsPanel } from "./statistics-panel.tsx";

export interface TensorFacts {
  readonly name: string;
  readonly dtype: string;
  readonly shape: readonly number[];
  readonly byteLength: number;
  readonly offset: number;
  /** Index of the file that has the bytes. */
  readonly part: number;
}

export function TensorPage(props: ViewProps & { readonly name: string }) {
  const { session, overview, route, name } = props;
  const table = useCall(session.reader, "tensors", { target: overview.target }, String(overview.target));
  const back = (
    <p class="back">
      <a href={formatRoute(at(route, { view: "tensors" }))}>← All tensors</a>
    </p>
  );
  if (table.result === undefined) {
    return table.error === undefined ? (
      <p class="busy">Looking …</p>
    ) : (
      <ErrorPanel title="Cannot list" error={table.error} />
    );
  }
  const facts = factsOf(table.result, name);
  if (facts === undefined) {
    return (
      <div class="narrow">
        {back}
        <ErrorPanel title="No such tensor" error={new Error(`There is no tensor called "${name}" in this model.`)} />
      </div>
    );
  }
  return (
    <div class="tensor">
      {back}
      <h1 class="mono">{facts.name}</h1>
      <TensorFactsList {...props} facts={facts} />
      <Downloads {...props} facts={facts} />
      <StatisticsPanel session={session} overview={overview} facts={facts} />
      <PlaneView session={session} overview={overview} facts={facts} />
      {blockFields(facts.dtype as DType) === undefined ? null : (
        <BlockView session={session} overview={overview} facts={facts} />
      )}
    </div>
  );
}

function factsOf(table: TensorTable, name: string): TensorFacts | undefined {
  const index = table.names.indexOf(name);
  if (index < 0) return undefined;
  const text = table.shapes[index] ?? "";
  return {
    name,
    dtype: table.dtypeNames[table.dtype[index] as number] ?? "",
    shape: text === "scalar" ? [] : text.split(" × ").map(Number),
    byteLength: table.byteLength[index] as number,
    offset: table.offset[index] as number,
    part: table.part[index] as number,
  };
}

function TensorFactsList({ route, facts }: ViewProps & { readonly facts: TensorFacts }) {
  const { dtype, shape, byteLength, offset, part } = facts;
  const elements = shape.reduce((product, dimension) => product * dimension, 1);
  return (
    <dl class="figures">
      <div>
        <dt>Type</dt>
        <dd class="mono">{dtype}</dd>
      </div>
      <div>
        <dt>Shape</dt>
        <dd>{shape.length === 0 ? "scalar" : shape.join(" × ")}</dd>
      </div>
      <div>
        <dt>Elements</dt>
        <dd>{formatInteger(elements)}</dd>
      </div>
      <div>
        <dt>Size</dt>
        <dd>{formatSize(byteLength)}</dd>
      </div>
      <div>
        <dt>Bytes</dt>
        <dd>
          <a class="mono" href={formatRoute(at(route, { view: "hex", part, offset }))}>
            {formatOffset(offset)}
          </a>
        </dd>
      </div>
    </dl>
  );
}

function Downloads({ session, overview, facts }: ViewProps & { readonly facts: TensorFacts }) {
  const [busy, setBusy] = useState<string | undefined>(undefined);
  const [error, setError] = useState<unknown>(undefined);
  const download = (as: "npy" | "raw"): void => {
    setError(undefined);
    setBusy("…");
    const onProgress = sumBytes((done) => setBusy(formatSize(done)));
    session.reader
      .call("downloadTensor", { target: overview.target, name: facts.name, as }, { onProgress })
      .then((blob) => saveBlob(blob, `${facts.name}.${as === "npy" ? "npy" : "bin"}`), setError)
      .finally(() => setBusy(undefined));
  };
  return (
    <div class="buttons">
      <button type="button" disabled={busy !== undefined} onClick={() => download("npy")}>
        Download .npy
      </button>
      <button type="button" disabled={busy !== undefined} onClick={() => download("raw")}>
        Download stored bytes
      </button>
      <span class="soft" role="status">
        {busy === undefined ? "" : `Reading ${busy}`}
      </span>
      {error === undefined ? null : <ErrorPanel title="Cannot download" error={error} />}
    </div>
  );
}
