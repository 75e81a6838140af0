import { useEffect, useMemo, useState } from "preact/hooks";
import { formatInteger, formatShare, formatSize } from "../../src/base/figures.ts";
import { ErrorPanel } from "../app/error-panel.tsx";
import type { ViewProps } from "../app/lazy-view.tsx";
import { at, formatRoute } from "../app/route.ts";
import { useCall } from "../app/use-call.ts";
import type { EntryRow, Preview } from "../pages/vault-entries.ts";
import { sumBytes } from "../shared/calls.ts";
import { saveBlob } from "../widgets/browser.ts";
import { SearchField } from "../widgets/fields.tsx";
import { type ColumnHead, columnHeads, toggled, VirtualRows } from "../widgets/virtual-rows.tsx";
import { type TreeRow, treeRows } from "./entry-tree.ts";

const ROW_HEIGHT = 34;
const COLUMNS: readonly ColumnHead[] = [
  ["Name", "name"],
  ["Size", "number"],
  ["Takes", "number takes"],
  ["Modified", "modified"],
];

/** The files of a vault, as a tree. */
export function FilesPage(props: ViewProps) {
  const { session, overview } = props;
  const { target, storage } = overview;
  const entries = useCall(session.reader, "entries", { target }, String(target));
  const [filter, setFilter] = useState("");
  const [closed, setClosed] = useState<ReadonlySet<string>>(new Set());
  const [chosen, setChosen] = useState<EntryRow | undefined>(undefined);
  const rows = useMemo(() => treeRows(entries.result ?? [], { filter, closed }), [entries.result, filter, closed]);
  if (entries.error !== undefined) return <ErrorPanel title="Cannot list the files" error={entries.error} />;
  if (entries.result === undefined) return <p class="busy">Listing …</p>;
  const open = (index: number): void => {
    const entry = rows[index]?.entry;
    if (entry?.type === "file") setChosen(entry);
    else if (entry !== undefined) setClosed(toggled(closed, entry.path));
  };
  const used = storage === undefined ? 0 : storage.storedBytes - storage.unusedBytes;
  const saved = storage === undefined ? 0 : Math.max(0, storage.logicalBytes - used);
  return (
    <div class="files">
      <div class="toolbar">
        <h1 class="away">Files</h1>
        <SearchField label="Filter files" value={filter} onText={setFilter} />
        <p class="soft">
          {formatInteger(entries.result.filter(({ type }) => type === "file").length)} files
          {storage === undefined
            ? ""
            : `, ${formatSize(storage.logicalBytes)} kept in ${formatSize(used)}: ${formatShare(saved, storage.logicalBytes)} saved`}
        </p>
      </div>
      <div class="files-columns">
        <VirtualRows
          label="Files of the vault"
          class="entries"
          count={rows.length}
          rowHeight={ROW_HEIGHT}
          head={columnHeads(COLUMNS)}
          onOpen={open}
          rowClass={(index) => (rows[index]?.entry === chosen ? "chosen" : "")}
          row={(index) => cells(rows[index] as TreeRow, closed)}
        />
        {chosen === undefined ? (
          <p class="soft preview">Choose a file to look into it.</p>
        ) : (
          <PreviewPanel key={chosen.path} {...props} entry={chosen} />
        )}
      </div>
    </div>
  );
}

function cells({ entry, depth, name }: TreeRow, closed: ReadonlySet<string>) {
  const isFolder = entry.type === "directory";
  return (
    <>
      <div role="gridcell" class="name" style={{ paddingLeft: `${0.5 + depth * 1.1}rem` }} title={entry.path}>
        <span aria-hidden="true" class="twist">
          {isFolder ? (closed.has(entry.path) ? "▸" : "▾") : ""}
        </span>
        {isFolder ? `${name}/` : name}
      </div>
      <div role="gridcell" class="number size">
        {isFolder ? "" : formatSize(entry.size)}
      </div>
      <div role="gridcell" class="number soft takes" title={describeStorage(entry)}>
        {briefStorage(entry)}
      </div>
      <div role="gridcell" class="soft modified">
        {entry.modified === undefined ? "" : new Date(entry.modified).toISOString().slice(0, 10)}
      </div>
    </>
  );
}

/** The storage of a file in its vault, for a narrow column. */
function briefStorage({ storage }: EntryRow): string {
  if (storage === undefined) return "";
  const { ownBytes, sharedBytes } = storage;
  if (sharedBytes === 0) return formatSize(ownBytes);
  return ownBytes === 0 ? "shared" : `${formatSize(ownBytes)} + shared`;
}

/** The same as a sentence; undefined if it is not known. */
function describeStorage({ storage }: EntryRow): string | undefined {
  if (storage === undefined) return undefined;
  const { ownBytes, sharedBytes } = storage;
  if (sharedBytes === 0) return `Takes ${formatSize(ownBytes)} of the vault`;
  return `Takes ${formatSize(ownBytes)} of its own; ${formatSize(sharedBytes)} are stored once for it and other files`;
}

function PreviewPanel({ session, overview, route, entry }: ViewProps & { readonly entry: EntryRow }) {
  const request = { target: overview.target, path: entry.path };
  const { result, error } = useCall(session.reader, "preview", request, entry.path);
  const [problem, setProblem] = useState<unknown>(undefined);
  const [done, setDone] = useState<string>("");
  const download = (): void => {
    const onProgress = sumBytes((bytes) => setDone(`${formatSize(bytes)} of ${formatSize(entry.size)}`));
    session.reader
      .call("downloadEntry", request, { onProgress })
      .then((blob) => saveBlob(blob, entry.path.slice(entry.path.lastIndexOf("/") + 1)), setProblem)
      .finally(() => setDone(""));
  };
  const openInPlace = (): void => {
    const inside = [...route.inside, entry.path];
    void session.openEntry(entry.path).then(() => {
      location.hash = formatRoute(at(route, { inside, view: "overview" }));
    });
  };
  return (
    <section class="preview" aria-label={`Preview of ${entry.path}`}>
      <h2 class="mono">{entry.path}</h2>
      <p class="soft">{formatInteger(entry.size)} bytes</p>
      {entry.storage === undefined ? null : <p class="soft">{describeStorage(entry)}.</p>}
      <div class="buttons">
        {result?.kind === "container" ? (
          <button type="button" class="primary" onClick={openInPlace}>
            Open in place
          </button>
        ) : null}
        <button type="button" onClick={download}>
          Download
        </button>
        <span class="soft" role="status">
          {done}
        </span>
      </div>
      {error === undefined ? null : <ErrorPanel title="Cannot read the file" error={error} />}
      {problem === undefined ? null : <ErrorPanel title="Cannot download the file" error={problem} />}
      {result === undefined ? null : <PreviewContent preview={result} name={entry.path} />}
    </section>
  );
}

function PreviewContent({ preview, name }: { readonly preview: Preview; readonly name: string }) {
  if (preview.kind === "image") return <PreviewImage image={preview.image} name={name} />;
  if (preview.kind === "container") return <p>{preview.formatName}: opens here without being unpacked.</p>;
  if (preview.kind === "bytes") {
    const text = [...preview.bytes].map((byte) => byte.toString(16).padStart(2, "0")).join(" ");
    return <pre class="whole">{text}</pre>;
  }
  return (
    <>
      <pre class="whole" tabIndex={0}>
        {preview.text}
      </pre>
      {preview.rest > 0 ? <p class="soft">and {formatInteger(preview.rest)} bytes more</p> : null}
    </>
  );
}

function PreviewImage({ image, name }: { readonly image: Blob; readonly name: string }) {
  const [url, setUrl] = useState<string | undefined>(undefined);
  useEffect(() => {
    const made = URL.createObjectURL(image);
    setUrl(made);
    return () => URL.revokeObjectURL(made);
  }, [image]);
  return url === undefined ? null : <img class="picture" src={url} alt={name} />;
}
