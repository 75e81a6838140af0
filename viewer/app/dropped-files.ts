import type { ChosenFile } from "../shared/protocol.ts";

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
