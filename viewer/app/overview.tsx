import { formatCount, formatInteger, formatShare, formatSize } from "../../src/base/figures.ts";
import type { ModelDescription } from "../../src/operations/inspect.ts";
import type { Overview } from "../shared/protocol.ts";
import { lastName } from "../shared/protocol.ts";
import { whereOf, withShortDigests } from "./error-panel.tsx";
import { at, formatRoute, type Route } from "./route.ts";

interface OverviewProps {
  readonly overview: Overview;
  readonly route: Route;
}

/** The output of `tare inspect` as a page. */
export function OverviewPage({ overview, route }: OverviewProps) {
  if (overview.kind === "unreadable") return <Unreadable overview={overview} route={route} />;
  return (
    <div class="overview">
      <Headline overview={overview} />
      <Fault overview={overview} route={route} />
      {overview.kind === "model" ? <Types overview={overview} /> : <Storage overview={overview} />}
      <div class="columns">
        <Facts overview={overview} />
        <Integrity overview={overview} route={route} />
      </div>
      <Warnings overview={overview} />
      {overview.largest.length === 0 ? null : <Largest overview={overview} route={route} />}
      {overview.metadataCount === 0 ? null : <MetadataGlance overview={overview} route={route} />}
      <Cost overview={overview} />
    </div>
  );
}

function Headline({ overview }: { readonly overview: Overview }) {
  const { description, formatName, version, byteLength, tensorCount, parameterCount, entryCount, files } = overview;
  const { quantization, bitsPerWeight } = overview;
  const figures: (readonly [string, string])[] = [
    ["Format", version === undefined ? formatName : `${formatName} ${version}`],
    ["Size", formatSize(byteLength)],
  ];
  if (parameterCount !== undefined) figures.push(["Parameters", formatCount(parameterCount)]);
  if (quantization !== undefined) figures.push(["Type", quantization]);
  if (bitsPerWeight !== undefined) figures.push(["Bits per weight", String(bitsPerWeight)]);
  if (tensorCount !== undefined) figures.push(["Tensors", formatInteger(tensorCount)]);
  if (entryCount !== undefined) figures.push(["Entries", formatInteger(entryCount)]);
  if (description.layers !== undefined) figures.push(["Layers", formatInteger(description.layers)]);
  if (files.length > 1) figures.push(["Files", formatInteger(files.length)]);
  return (
    <header class="headline">
      <h1>{description.name ?? lastName(overview.label)}</h1>
      {description.name === undefined ? null : <p class="soft mono">{lastName(overview.label)}</p>}
      <dl class="figures">
        {figures.map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
    </header>
  );
}

function Types({ overview }: { readonly overview: Overview }) {
  const { dtypes } = overview;
  const total = dtypes.reduce((sum, { byteLength }) => sum + byteLength, 0);
  if (total === 0) return null;
  return (
    <section aria-labelledby="types-title">
      <h2 id="types-title">Types by share of bytes</h2>
      <div class="share" aria-hidden="true">
        {dtypes.map(({ dtype, byteLength }, i) => (
          <span key={dtype} class={`tone-${Math.min(i, 5)}`} style={{ flexGrow: byteLength / total }} />
        ))}
      </div>
      <ul class="legend">
        {dtypes.map(({ dtype, byteLength, tensorCount }, i) => (
          <li key={dtype}>
            <span class={`swatch tone-${Math.min(i, 5)}`} aria-hidden="true" />
            <span class="mono strong">{dtype}</span>
            <span>{formatShare(byteLength, total)}</span>
            <span class="soft">
              {formatInteger(tensorCount)} {tensorCount === 1 ? "tensor" : "tensors"}, {formatSize(byteLength)}
            </span>
          </li>
        ))}
      </ul>
    </section>
  );
}

function Storage({ overview }: { readonly overview: Overview }) {
  const { storage } = overview;
  if (storage === undefined) return null;
  const { logicalBytes, storedBytes, unusedBytes, gapBytes, chunkCount } = storage;
  const used = storedBytes - unusedBytes;
  const saved = Math.max(0, logicalBytes - used);
  const share = formatShare(saved, logicalBytes).replace(" ", "\u00a0");
  return (
    <section aria-labelledby="storage-title">
      <h2 id="storage-title">Files and what they take</h2>
      <div class="share" aria-hidden="true">
        <span class="tone-0" style={{ flexGrow: used / Math.max(1, used + saved) }} />
        <span class="tone-4" style={{ flexGrow: saved / Math.max(1, used + saved) }} />
      </div>
      <p>
        {formatSize(logicalBytes)} of files take {formatSize(used)} in {formatInteger(chunkCount)} chunks
        {saved > 0 ? `; sharing and compression save ${formatSize(saved)} (${share})` : ""}.
        {unusedBytes + gapBytes > 0 ? ` ${formatSize(unusedBytes + gapBytes)} belong to no file any more.` : ""}
      </p>
    </section>
  );
}

const DESCRIBED: readonly (readonly [keyof ModelDescription, string])[] = [
  ["architecture", "Architecture"],
  ["layers", "Layers"],
  ["width", "Width"],
  ["heads", "Attention heads"],
  ["keyValueHeads", "Key and value heads"],
  ["feedForward", "Feed-forward width"],
  ["contextLength", "Context"],
  ["vocabulary", "Vocabulary"],
  ["license", "License"],
];

function Facts({ overview }: { readonly overview: Overview }) {
  const { description, facts } = overview;
  const described = DESCRIBED.flatMap(([key, name]) => {
    const value = description[key];
    return value === undefined ? [] : [[name, typeof value === "number" ? formatInteger(value) : value] as const];
  });
  const rows = [...described, ...facts];
  if (rows.length === 0) return null;
  return (
    <section aria-labelledby="facts-title">
      <h2 id="facts-title">Facts</h2>
      <dl class="facts">
        {rows.map(([name, value], i) => (
          <div key={`${i} ${name}`}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
    </section>
  );
}

function Integrity({ overview, route }: OverviewProps) {
  const carries = overview.integrity === "digests";
  return (
    <section aria-labelledby="integrity-title">
      <h2 id="integrity-title">Integrity</h2>
      <p>
        {carries
          ? "The file carries digests of what it holds. Nothing was compared with them yet beyond what opening needs."
          : "The file carries no digests: its structure can be checked, its weights cannot."}
      </p>
      <p>
        <a class="button" href={formatRoute(at(route, { view: "layout" }))}>
          {carries ? "Verify, and watch it" : "Look at the layout"}
        </a>
      </p>
    </section>
  );
}

function Warnings({ overview }: { readonly overview: Overview }) {
  const { warnings } = overview;
  if (warnings.length === 0) return null;
  return (
    <section class="warnings" aria-labelledby="warnings-title">
      <h2 id="warnings-title">{warnings.length === 1 ? "One thing to know" : `${warnings.length} things to know`}</h2>
      <ul>
        {warnings.slice(0, 50).map(({ severity, code, message, at: place }, i) => (
          <li key={`${i} ${code}`} class={severity}>
            <span title={message}>{withShortDigests(message)}</span>
            <p class="soft small mono">
              {code}
              {whereOf(place)}
            </p>
          </li>
        ))}
      </ul>
    </section>
  );
}

function Largest({ overview, route }: OverviewProps) {
  return (
    <section aria-labelledby="largest-title">
      <h2 id="largest-title">Largest tensors</h2>
      <ul class="rows">
        {overview.largest.map(({ name, dtype, shape, byteLength }) => (
          <li key={name}>
            <a class="mono" href={formatRoute(at(route, { view: "tensors", tensor: name }))}>
              {name}
            </a>
            <span class="soft">
              {dtype} · {shape.join(" × ")}
            </span>
            <span class="number">{formatSize(byteLength)}</span>
          </li>
        ))}
      </ul>
    </section>
  );
}

function MetadataGlance({ overview, route }: OverviewProps) {
  const { metadata, metadataCount } = overview;
  return (
    <section aria-labelledby="metadata-title">
      <h2 id="metadata-title">Metadata</h2>
      <dl class="facts wide">
        {metadata.map(({ key, text, length }) => (
          <div key={key}>
            <dt class="mono">{key}</dt>
            <dd class="clip">{length === undefined ? text : `${formatInteger(length)} items`}</dd>
          </div>
        ))}
      </dl>
      <p>
        <a href={formatRoute(at(route, { view: "metadata" }))}>
          {metadataCount > metadata.length ? `All ${formatInteger(metadataCount)} keys` : "As a tree"}
        </a>
      </p>
    </section>
  );
}

function Cost({ overview }: { readonly overview: Overview }) {
  const { requests, bytes } = overview.cost;
  const asked = requests === 0 ? "" : ` in ${requests} ${requests === 1 ? "request" : "requests"}`;
  return (
    <p class="soft small">
      Seen by reading {formatSize(bytes)} of {formatSize(overview.byteLength)}
      {asked}.
    </p>
  );
}

function titleOf({ format, formatName, error }: Overview): string {
  if (error?.code.startsWith("source/") === true) return "Something is missing";
  if (format === "unknown") return "Not a format that tare reads";
  return error?.code.startsWith("unsupported/") === true
    ? `${formatName} that tare does not read`
    : `Damaged ${formatName}`;
}

/** A file that no reader understood: the reason, and its bytes. */
function Unreadable({ overview, route }: OverviewProps) {
  return (
    <div class="overview">
      <Headline overview={overview} />
      <Fault overview={overview} route={route} />
    </div>
  );
}

function Fault({ overview, route }: OverviewProps) {
  const { error } = overview;
  if (error === undefined) return null;
  return (
    <section class="panel problem-panel" role="alert">
      <h2>{titleOf(overview)}</h2>
      <p>{error.message}</p>
      {error.hint === undefined ? null : <p class="soft">{error.hint}</p>}
      <p class="soft small mono">
        {error.code}
        {whereOf(error.at)}
      </p>
      <p>
        <a class="button" href={formatRoute(at(route, { view: "hex", part: 0, offset: error.at.offset ?? 0 }))}>
          Look at the bytes there
        </a>
      </p>
    </section>
  );
}
