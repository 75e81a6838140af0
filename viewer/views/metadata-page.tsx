import { useEffect, useState } from "preact/hooks";
import { formatInteger } from "../../src/base/figures.ts";
import { ErrorPanel } from "../app/error-panel.tsx";
import type { ViewProps } from "../app/lazy-view.tsx";
import type { Session } from "../app/session.ts";
import { useCall } from "../app/use-call.ts";
import type { MetadataNode } from "../pages/metadata-tree.ts";
import { SearchField } from "../widgets/fields.tsx";
import { VirtualRows } from "../widgets/virtual-rows.tsx";

/** Lists up to this length are shown completely; longer ones as far as the user scrolls. */
const WHOLE = 100;
/** Elements fetched together. */
const RUN = 200;
const ROW_HEIGHT = 26;
const ALL_KEYS = 100_000;

interface Place {
  readonly session: Session;
  readonly target: number;
}

export function MetadataPage({ session, overview }: ViewProps) {
  const [text, setText] = useState("");
  const place = { session, target: overview.target };
  return (
    <div class="metadata">
      <div class="toolbar">
        <h1 class="away">Metadata</h1>
        <SearchField label="Search keys and values" value={text} onText={setText} />
        <p class="soft">{formatInteger(overview.metadataCount)} keys</p>
      </div>
      {text.trim() === "" ? <Tree {...place} /> : <Matches {...place} text={text.trim()} />}
    </div>
  );
}

function Tree({ session, target }: Place) {
  const request = { target, path: [], start: 0, end: ALL_KEYS };
  const { result, error } = useCall(session.reader, "metadata", request, String(target));
  if (error !== undefined) return <ErrorPanel title="Cannot read the metadata" error={error} />;
  if (result === undefined) return <p class="busy">Reading …</p>;
  if (result.length === 0) return <p class="soft">The file has no metadata.</p>;
  return <Nodes nodes={result} session={session} target={target} />;
}

function Matches({ session, target, text }: Place & { readonly text: string }) {
  const { result, error } = useCall(session.reader, "searchMetadata", { target, text }, `${target} ${text}`);
  if (error !== undefined) return <ErrorPanel title="Cannot search" error={error} />;
  if (result === undefined) return <p class="busy">Searching …</p>;
  const { nodes, more } = result;
  return (
    <>
      <p class="soft" role="status">
        {nodes.length === 0 ? "Nothing found" : `${formatInteger(nodes.length + more)} found`}
        {more > 0 ? `, the first ${nodes.length} shown` : ""}
      </p>
      <Nodes nodes={nodes} session={session} target={target} />
    </>
  );
}

function Nodes({ nodes, ...place }: Place & { readonly nodes: readonly MetadataNode[] }) {
  return (
    <ul class="tree">
      {nodes.map((node) => (
        <Branch key={node.path.join(".")} node={node} {...place} />
      ))}
    </ul>
  );
}

function Branch({ node, ...place }: Place & { readonly node: MetadataNode }) {
  const [isOpen, setOpen] = useState(false);
  const isLong = node.type === "string" && node.text.endsWith("…");
  const canOpen = (node.length ?? 0) > 0 || isLong;
  const line = (
    <>
      <span class="key mono">{node.key}</span>
      <span class="type soft">
        {node.length === undefined ? node.type : `${node.type} · ${formatInteger(node.length)}`}
      </span>
      <span class="value">{node.text}</span>
    </>
  );
  return (
    <li>
      {canOpen ? (
        <button type="button" class="branch" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
          {line}
        </button>
      ) : (
        <div class="branch leaf">{line}</div>
      )}
      {isOpen ? <Inside node={node} {...place} /> : null}
    </li>
  );
}

function Inside({ node, session, target }: Place & { readonly node: MetadataNode }) {
  const length = node.length ?? 1;
  const isWhole = length <= WHOLE;
  const request = { target, path: node.path, start: 0, end: WHOLE };
  const { result, error } = useCall(
    session.reader,
    "metadata",
    isWhole ? request : undefined,
    `${target} ${node.path.join(".")}`,
  );
  if (error !== undefined) return <ErrorPanel title="Cannot read the value" error={error} />;
  if (!isWhole) return <LongList node={node} session={session} target={target} />;
  if (result === undefined) return null;
  if (node.type === "string")
    return (
      <pre class="whole" tabIndex={0}>
        {result[0]?.text}
      </pre>
    );
  return <Nodes nodes={result} session={session} target={target} />;
}

/** A list of any length: the visible part is fetched, run by run. */
function LongList({ node, session, target }: Place & { readonly node: MetadataNode }) {
  const [items, setItems] = useState<ReadonlyMap<number, MetadataNode>>(new Map());
  const [window, setWindow] = useState({ first: 0, end: 40 });
  useEffect(() => {
    const first = Math.floor(window.first / RUN) * RUN;
    const end = Math.ceil(window.end / RUN) * RUN;
    if (items.has(window.first) && items.has(Math.min(window.end, node.length ?? 0) - 1)) return undefined;
    const controller = new AbortController();
    session.reader.call("metadata", { target, path: node.path, start: first, end }, { signal: controller.signal }).then(
      (nodes) => setItems(new Map(nodes.map((item, i) => [first + i, item]))),
      () => undefined, // the next scroll asks again
    );
    return () => controller.abort();
  }, [window.first, window.end]);
  return (
    <VirtualRows
      label={`Elements of ${node.key}`}
      class="long-list"
      count={node.length ?? 0}
      rowHeight={ROW_HEIGHT}
      onShown={(first, end) => setWindow({ first, end })}
      row={(index) => (
        <>
          <div role="gridcell" class="number soft">
            {formatInteger(index)}
          </div>
          <div role="gridcell" class="mono value">
            {items.get(index)?.text ?? ""}
          </div>
        </>
      )}
    />
  );
}
