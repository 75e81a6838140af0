import { useEffect, useState } from "preact/hooks";
import { formatSize } from "../../src/base/figures.ts";
import type { ChosenFile } from "../shared/protocol.ts";
import { lastName } from "../shared/protocol.ts";
import { AddressForm } from "../widgets/fields.tsx";

export interface StartPageProps {
  /** The address that waits to be compared with the file opened here. */
  readonly comparing?: string | undefined;
  readonly onFiles: (files: readonly ChosenFile[]) => void;
  readonly onUrl: (url: string) => void;
}

/** The start of a visit: drop, choose, or enter an address. */
export function StartPage({ comparing, onFiles, onUrl }: StartPageProps) {
  const take = (event: Event): void => {
    const { files } = event.currentTarget as HTMLInputElement;
    if (files !== null) onFiles(chosenFiles(files));
  };
  return (
    <div class="start">
      <h1>{comparing === undefined ? "What is in this file?" : "Compare which file?"}</h1>
      <p class="lead">
        {comparing === undefined ? null : (
          <>
            It is put beside <span class="mono">{lastName(comparing)}</span>.{" "}
          </>
        )}
        Drop a model, a folder of shards or a vault anywhere on this page. It is read here, in your browser: nothing is
        uploaded.
      </p>
      <div class="choices">
        <label class="button primary">
          Choose files
          <input type="file" multiple class="away" onChange={take} />
        </label>
        <label class="button">
          Choose a folder
          <input type="file" multiple class="away" onChange={take} ref={asFolder} />
        </label>
      </div>
      <AddressForm label="or read an address, by ranges" button="Open" onUrl={onUrl} />
      <ServerListing onUrl={onUrl} />
      <p class="soft small formats">
        GGUF · SafeTensors · AERO and AEROSET · APR · EMBD .weights · ONNX weights · AeroVault
      </p>
    </div>
  );
}

/** The types have no property for this attribute. */
function asFolder(input: HTMLInputElement | null): void {
  input?.setAttribute("webkitdirectory", "");
}

interface ListedFile {
  readonly name: string;
  readonly path: string;
  readonly size?: number;
  readonly type: "file" | "directory";
  readonly format?: string;
}

/** The models of the folder that `tare serve` serves; empty elsewhere. */
function ServerListing({ onUrl }: { readonly onUrl: (url: string) => void }) {
  const [files, setFiles] = useState<readonly ListedFile[]>([]);
  useEffect(() => {
    if (document.documentElement.dataset["listing"] === undefined) return;
    void readListing().then(setFiles, () => undefined); // the page works without a list
  }, []);
  const shown = files.filter(({ format, type }) => format !== undefined && type === "file");
  if (shown.length === 0) return null;
  return (
    <section class="listing" aria-labelledby="listing-title">
      <h2 id="listing-title">On this server</h2>
      <ul>
        {shown.map(({ name, path, size, format }) => (
          <li key={path}>
            <a
              href={`#url=${path}`}
              onClick={(event) => {
                event.preventDefault();
                onUrl(path);
              }}
            >
              {name}
            </a>
            <span class="soft">{format}</span>
            <span class="soft number">{size === undefined ? "" : formatSize(size)}</span>
          </li>
        ))}
      </ul>
    </section>
  );
}

async function readListing(): Promise<readonly ListedFile[]> {
  const reply = await fetch(location.pathname, { headers: { accept: "application/json" } });
  const { entries } = (await reply.json()) as { readonly entries: readonly ListedFile[] };
  return entries;
}

/** More files than this in a dropped folder are a mistake, such as a home directory. */
const MAX_FILES = 20_000;

/** The dropped files, and everything in dropped folders. */
export async function droppedFiles(transfer: DataTransfer): Promise<readonly ChosenFile[]> {
  // The list is only valid until the first await.
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry());
  const plain = [...transfer.files];
  const found: ChosenFile[] = [];
  for (const [i, entry] of entries.entries()) {
    const file = plain[i];
    if (entry?.isDirectory === true) await walk(entry as FileSystemDirectoryEntry, "", found);
    else if (file !== undefined) found.push({ path: file.name, file });
  }
  return found;
}

/** The files of a file input, with their paths inside a chosen folder. */
export function chosenFiles(list: FileList): readonly ChosenFile[] {
  return [...list].slice(0, MAX_FILES).map((file) => {
    const path = file.webkitRelativePath;
    // The folder's own name is not part of the names inside it.
    return { path: path === "" ? file.name : path.slice(path.indexOf("/") + 1), file };
  });
}

async function walk(folder: FileSystemDirectoryEntry, prefix: string, found: ChosenFile[]): Promise<void> {
  const reader = folder.createReader();
  for (;;) {
    // At most a hundred at a time; an empty answer is the end.
    const entries = await new Promise<FileSystemEntry[]>((resolve, reject) => reader.readEntries(resolve, reject));
    if (entries.length === 0) return;
    for (const entry of entries) {
      if (found.length >= MAX_FILES || entry.name.startsWith(".")) continue;
      if (entry.isDirectory) await walk(entry as FileSystemDirectoryEntry, `${prefix}${entry.name}/`, found);
      else found.push({ path: prefix + entry.name, file: await fileOf(entry as FileSystemFileEntry) });
    }
  }
}

function fileOf(entry: FileSystemFileEntry): Promise<File> {
  return new Promise((resolve, reject) => entry.file(resolve, reject));
}
