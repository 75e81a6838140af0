import { LimitError, SourceError } from "../../base/errors.ts";
import { fileIn, folderIn, namesIn } from "../../bytes/handles/folders.ts";
import { type DirectoryHandle, isDirectoryHandle } from "../../bytes/handles/handle.ts";
import type { Source } from "../../bytes/source.ts";
import {
  compareNames,
  isTextName,
  MAX_TEXT_BYTES,
  type NumberedText,
  paragraphsOf,
  readTexts,
  type TextUnit,
} from "../../embedding/texts.ts";
import type { Request, TextFile, VerbHost } from "../host.ts";
import { bytesOf } from "../input-use.ts";
import type { Input } from "../inputs.ts";
import { sizeIn } from "../options.ts";

/** What a search ranks: a list, the lines of a file, or those of the files in a folder. */
export async function corpusOf(
  host: VerbHost,
  search: readonly string[] | Input,
  request: Request,
  unit: TextUnit,
): Promise<NumberedText[]> {
  if (Array.isArray(search)) {
    const texts = (search as readonly string[]).map(numberedText);
    return unit === "line" ? texts : paragraphsOf(texts);
  }
  const files = await filesOf(host, search as Input, request);
  return files === undefined
    ? textsOf(host, search as Input, request, unit)
    : textsBelow(files, labelOf(search as Input), request, unit);
}

export function numberedText(text: string, i: number): NumberedText {
  return { text, line: i + 1 };
}

/** The texts of one file. */
export async function textsOf(
  host: VerbHost,
  file: Input,
  request: Request,
  unit: TextUnit = "line",
): Promise<NumberedText[]> {
  const { signal } = request;
  return closing(await bytesOf(host, file, request), (source) =>
    readTexts(source, { unit, maxBytes: sizeIn(request.memory), signal }),
  );
}

async function closing<T>(source: Source, use: (source: Source) => Promise<T>): Promise<T> {
  try {
    return await use(source);
  } finally {
    await source.close();
  }
}

/** The text files of a folder; undefined for everything else. */
async function filesOf(host: VerbHost, input: Input, { signal }: Request): Promise<readonly TextFile[] | undefined> {
  if (typeof input === "object" && input !== null && isDirectoryHandle(input)) return handlesBelow(input);
  const text = input instanceof URL ? input.href : input;
  return typeof text === "string" && text !== "-" ? host.embedding?.textFiles(text, signal) : undefined;
}

function labelOf(input: Input): string {
  if (typeof input === "string" || input instanceof URL) return String(input);
  return (input as DirectoryHandle).name;
}

/** All files together have the memory of one. */
async function textsBelow(
  files: readonly TextFile[],
  folder: string,
  { memory, signal }: Request,
  unit: TextUnit,
): Promise<NumberedText[]> {
  if (files.length === 0) throw noTexts(folder);
  const maxBytes = sizeIn(memory) ?? MAX_TEXT_BYTES;
  let left = maxBytes;
  const texts: NumberedText[] = [];
  for (const { name, open } of files) {
    signal?.throwIfAborted();
    const found = await closing(await open(), (source) => {
      left -= source.byteLength;
      if (left < 0) throw tooLong(folder, maxBytes);
      return readTexts(source, { unit, maxBytes, signal });
    });
    for (const text of found) texts.push({ ...text, file: name });
  }
  return texts;
}

function noTexts(folder: string): SourceError {
  const message = `Cannot search "${folder}": there is no text or Markdown file in it`;
  const hint = "Files are read whose names end in .txt, .text, .md or .markdown, also those in folders below";
  return new SourceError("source/no-texts", message, { source: folder }, { hint });
}

function tooLong(folder: string, maxBytes: number): LimitError {
  const message = `Cannot hold the texts: the files of the folder must have <= ${maxBytes} bytes together, found more`;
  const hint = "Search a smaller folder, or raise the option memory";
  return new LimitError("limit/budget", message, { source: folder }, { hint });
}

/** The text files of a folder that the user picked. */
async function handlesBelow(folder: DirectoryHandle, prefix = ""): Promise<readonly TextFile[]> {
  const files: TextFile[] = [];
  for (const own of [...(await namesIn(folder))].sort(compareNames)) {
    const name = prefix + own;
    const below = await folderIn(folder, own);
    if (below !== undefined) for (const file of await handlesBelow(below, `${name}/`)) files.push(file);
    else if (isTextName(own)) files.push({ name, open: () => fileIn(folder, own) });
  }
  return files;
}
