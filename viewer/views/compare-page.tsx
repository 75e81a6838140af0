import { useEffect, useState } from "preact/hooks";
import { formatInteger, formatSize, formatValue } from "../../src/base/figures.ts";
import type { TensorChange } from "../../src/operations/diff.ts";
import { ErrorPanel } from "../app/error-panel.tsx";
import type { ViewProps } from "../app/lazy-view.tsx";
import { at, formatRoute } from "../app/route.ts";
import { chosenFiles } from "../app/start-page.tsx";
import type { Comparison } from "../shared/calls.ts";
import { sumBytes } from "../shared/calls.ts";
import type { ChosenFile, OpenRequest, Overview } from "../shared/protocol.ts";
import { lastName } from "../shared/protocol.ts";
import { AddressForm } from "../widgets/fields.tsx";
import { TensorName } from "../widgets/tensor-name.tsx";
import { type ColumnHead, columnHeads, VirtualRows } from "../widgets/virtual-rows.tsx";

const ROW_HEIGHT = 34;

/** Two models side by side, of any formats. */
export function ComparePage({ session, overview, route }: ViewProps) {
  const [other, setOther] = useState<Overview | undefined>(undefined);
  const [files, setFiles] = useState<readonly ChosenFile[]>([]);
  const [candidates, setCandidates] = useState<readonly string[]>([]);
  const [error, setError] = useState<unknown>(undefined);
  const openOther = (request: OpenRequest): void => {
    setError(undefined);
    session.reader.call("open", request).then((reply) => {
      if (reply.kind === "opened") setOther(reply.overview);
      else setCandidates(reply.candidates);
    }, setError);
  };
  useEffect(() => {
    if (route.with === undefined) return;
    openOther({ kind: "url", url: new URL(route.with, location.href).href, allowOrigins: route.allow });
  }, [route.with]);
  if (other !== undefined) {
    return <Compared session={session} overview={overview} other={other} onAgain={() => setOther(undefined)} />;
  }
  return (
    <div class="narrow">
      <h1>Compare with another</h1>
      <p class="lead">
        The other one may be of any format: tensors are matched by name, compared by bytes where types agree and by
        value where they do not.
      </p>
      <div class="choices">
        <label class="button primary">
          Choose the other file or its shards
          <input
            type="file"
            multiple
            class="away"
            onChange={(event) => {
              const list = event.currentTarget.files;
              if (list === null || list.length === 0) return;
              setFiles(chosenFiles(list));
              openOther({ kind: "files", files: chosenFiles(list) });
            }}
          />
        </label>
      </div>
      <AddressForm
        label={
          route.url === undefined
            ? "or read the other one from an address; the page then loads again, and asks for your file once more"
            : "or read the other one from an address"
        }
        button="Compare"
        onUrl={(url) => reopenWith(at(route, { view: "compare", with: url }))}
      />
      {candidates.length === 0 ? null : (
        <ul class="rows">
          {candidates.map((primary) => (
            <li key={primary}>
              <button type="button" class="link mono" onClick={() => openOther({ kind: "files", files, primary })}>
                {primary}
              </button>
            </li>
          ))}
        </ul>
      )}
      {error === undefined ? null : <ErrorPanel title="Cannot open the other one" error={error} />}
    </div>
  );
}

/** The policy of the page must allow the second address too, which only a reload can do. */
function reopenWith(route: Parameters<typeof formatRoute>[0]): void {
  location.hash = formatRoute(route);
  location.reload();
}

interface ComparedProps extends Pick<ViewProps, "session" | "overview"> {
  readonly other: Overview;
  readonly onAgain: () => void;
}

function Compared({ session, overview, other, onAgain }: ComparedProps) {
  const [result, setResult] = useState<Comparison | undefined>(undefined);
  const [error, setError] = useState<unknown>(undefined);
  const [done, setDone] = useState(0);
  useEffect(() => {
    const controller = new AbortController();
    const onProgress = sumBytes(setDone);
    session.reader
      .call("compare", { a: overview.target, b: other.target }, { signal: controller.signal, onProgress })
      .then(setResult, (problem: unknown) => {
        if (!controller.signal.aborted) setError(problem);
      });
    return () => controller.abort();
  }, [other.target]);
  return (
    <div class="fill compare">
      <header class="sides">
        <h1>
          <span class="mono">{lastName(overview.label)}</span>
          <span class="soft"> and </span>
          <span class="mono">{lastName(other.label)}</span>
        </h1>
        <p class="soft">
          {overview.formatName}, {formatSize(overview.byteLength)} · {other.formatName}, {formatSize(other.byteLength)}{" "}
          <button type="button" class="link" onClick={onAgain}>
            Choose another
          </button>
        </p>
      </header>
      {error === undefined ? null : <ErrorPanel title="Cannot compare" error={error} />}
      {result === undefined && error === undefined ? (
        <p role="status" class="busy">
          Comparing, {formatSize(done)} so far
        </p>
      ) : null}
      {result === undefined ? null : <Result result={result} />}
    </div>
  );
}

function Result({ result }: { readonly result: Comparison }) {
  const { rows, unchanged } = changeRows(result);
  const count = (what: ChangeRow["what"]): number => rows.filter((row) => row.what === what).length;
  const largest = rows.reduce((most, { change }) => Math.max(most, change?.delta?.meanAbs ?? 0), 0);
  return (
    <>
      <dl class="figures">
        {(["added", "removed", "changed"] as const).map((what) => (
          <div key={what}>
            <dt>{what}</dt>
            <dd>{formatInteger(count(what))}</dd>
          </div>
        ))}
        <div>
          <dt>the same</dt>
          <dd>{formatInteger(unchanged)}</dd>
        </div>
      </dl>
      {rows.length === 0 ? <p>Everything that has a name is the same in both.</p> : null}
      {rows.length === 0 ? null : (
        <VirtualRows
          label="Differences"
          class="changes"
          count={rows.length}
          rowHeight={ROW_HEIGHT}
          head={columnHeads(CHANGE_COLUMNS)}
          row={(index) => changeCells(rows[index] as ChangeRow, largest)}
        />
      )}
    </>
  );
}

const CHANGE_COLUMNS: readonly ColumnHead[] = [
  ["Name", "name"],
  ["What", "what"],
  ["Largest", "number", "The largest difference between two values"],
  ["Mean", "number", "The mean of the differences, without their signs"],
  ["Cosine", "number", "1 where both point in the same direction"],
  ["Mean, compared", "bar-cell", "The mean difference, as a share of the largest in this list"],
];

function changeCells({ name, what, change }: ChangeRow, largest: number) {
  const delta = change?.delta;
  const share = delta === undefined || largest === 0 ? 0 : Math.min(1, delta.meanAbs / largest);
  return (
    <>
      <div role="gridcell" class="name mono" title={name} aria-label={name}>
        <TensorName name={name} />
      </div>
      <div role="gridcell" class={`what ${what}`}>
        {change === undefined ? what : describeChange(change)}
      </div>
      <div role="gridcell" class="number">
        {delta === undefined ? "" : formatValue(delta.maxAbs)}
      </div>
      <div role="gridcell" class="number">
        {delta === undefined ? "" : formatValue(delta.meanAbs)}
      </div>
      <div role="gridcell" class="number">
        {delta === undefined || delta.cosine === null ? "" : delta.cosine.toFixed(5)}
      </div>
      <div role="gridcell" class="bar-cell">
        <span class="bar" style={{ width: `${100 * share}%` }} />
      </div>
    </>
  );
}

function describeChange({ what, a, b }: TensorChange): string {
  return what
    .map((kind) => {
      if (kind === "dtype") return `${a.dtype} → ${b.dtype}`;
      if (kind === "shape") return `${a.shape.join("×")} → ${b.shape.join("×")}`;
      return "values";
    })
    .join(", ");
}

export interface ChangeRow {
  readonly name: string;
  readonly what: "added" | "removed" | "changed";
  /** For a tensor that both have. */
  readonly change?: TensorChange | undefined;
}

/** The differences, the largest change first. */
export function changeRows({ models, archives }: Comparison): {
  readonly rows: readonly ChangeRow[];
  readonly unchanged: number;
} {
  const report = models ?? archives;
  if (report === undefined) return { rows: [], unchanged: 0 };
  const changed: ChangeRow[] =
    models === undefined
      ? (archives?.changed ?? []).map(({ name }) => ({ name, what: "changed" as const }))
      : [...models.changed]
          .sort((a, b) => (b.delta?.meanAbs ?? 0) - (a.delta?.meanAbs ?? 0))
          .map((change) => ({ name: change.name, what: "changed" as const, change }));
  const rows: ChangeRow[] = [
    ...changed,
    ...report.removed.map((name) => ({ name, what: "removed" as const })),
    ...report.added.map((name) => ({ name, what: "added" as const })),
  ];
  return { rows, unchanged: report.unchanged };
}
