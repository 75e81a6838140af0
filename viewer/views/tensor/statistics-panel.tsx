import { useEffect, useState } from "preact/hooks";
import { formatInteger, formatShare, formatSize, formatValue } from "../../../src/base/figures.ts";
import type { Histogram, TensorStatistics } from "../../../src/operations/stats.ts";
import { ErrorPanel } from "../../app/error-panel.tsx";
import type { Session } from "../../app/session.ts";
import { sumBytes } from "../../shared/calls.ts";
import type { Overview } from "../../shared/protocol.ts";
import type { TensorFacts } from "./tensor-page.tsx";

const BINS = 64;
/** Larger tensors are read on request, not as soon as their page is shown. */
const AT_ONCE_BYTES = 64 << 20;

interface StatisticsPanelProps {
  readonly session: Session;
  readonly overview: Overview;
  readonly facts: TensorFacts;
}

export function StatisticsPanel({ session, overview, facts }: StatisticsPanelProps) {
  const isRemote = overview.cost.requests > 0;
  const [wanted, setWanted] = useState(!isRemote && facts.byteLength <= AT_ONCE_BYTES);
  const [result, setResult] = useState<TensorStatistics | undefined>(undefined);
  const [error, setError] = useState<unknown>(undefined);
  const [done, setDone] = useState(0);
  useEffect(() => {
    if (!wanted) return undefined;
    const controller = new AbortController();
    const onProgress = sumBytes(setDone);
    const request = { target: overview.target, name: facts.name, bins: BINS };
    session.reader
      .call("statistics", request, { signal: controller.signal, onProgress })
      .then(setResult, (problem: unknown) => {
        if (!controller.signal.aborted) setError(problem);
      });
    return () => controller.abort();
  }, [wanted, facts.name]);
  return (
    <section aria-labelledby="statistics-title">
      <h2 id="statistics-title">Statistics</h2>
      {error === undefined ? null : <ErrorPanel title="Cannot read the values" error={error} />}
      {wanted ? null : (
        <p>
          <button type="button" onClick={() => setWanted(true)}>
            Read all {formatSize(facts.byteLength)}
          </button>
        </p>
      )}
      {wanted && result === undefined && error === undefined ? (
        <p class="soft" role="status">
          Reading {formatSize(done)} of {formatSize(facts.byteLength)}
        </p>
      ) : null}
      {result === undefined ? null : <Summary result={result} />}
    </section>
  );
}

function Summary({ result }: { readonly result: TensorStatistics }) {
  if (result.skipped !== undefined) return <p class="soft">{result.skipped}.</p>;
  const { min, max, mean, std, nan, inf, zero, elementCount, histogram } = result;
  const rows: readonly (readonly [string, string])[] = [
    ["Minimum", formatValue(min)],
    ["Maximum", formatValue(max)],
    ["Mean", formatValue(mean)],
    ["Deviation", formatValue(std)],
    ["Zeros", formatShare(zero, elementCount)],
    ["NaN", formatInteger(nan)],
    ["Infinite", formatInteger(inf)],
  ];
  return (
    <>
      <dl class="figures small-figures">
        {rows.map(([name, value]) => (
          <div key={name} class={(name === "NaN" || name === "Infinite") && value !== "0" ? "bad" : ""}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
      {histogram === undefined ? null : <HistogramChart histogram={histogram} />}
    </>
  );
}

/** Heights are the square root of the counts: weights pile up at zero, and the tails are of interest. */
function HistogramChart({ histogram }: { readonly histogram: Histogram }) {
  const { low, high, counts } = histogram;
  const top = Math.sqrt(Math.max(...counts, 1));
  const width = 100 / counts.length;
  const text = `Histogram of ${counts.length} bins from ${formatValue(low)} to ${formatValue(high)}; the fullest has ${formatInteger(Math.max(...counts))} values`;
  return (
    <figure class="histogram">
      <svg viewBox="0 0 100 30" preserveAspectRatio="none" role="img" aria-label={text}>
        {counts.map((count, i) => {
          const height = (30 * Math.sqrt(count)) / top;
          return <rect key={i * width} x={i * width} y={30 - height} width={width * 0.86} height={height} />;
        })}
      </svg>
      <figcaption>
        <span>{formatValue(low)}</span>
        <span class="soft">height is the square root of the count</span>
        <span>{formatValue(high)}</span>
      </figcaption>
    </figure>
  );
}
