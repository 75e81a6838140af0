import type { Source } from "../../src/bytes/source.ts";
import { FORMATS } from "../../src/formats/registry.ts";
import type { Format, FormatReader, FormatWriter, OpenContext, Opened } from "../../src/model/format.ts";

/** A format with what its descriptor loads to read and to write. */
export interface LoadedFormat {
  readonly format: Format;
  readonly reader: FormatReader;
  readonly writer: FormatWriter | undefined;
}

/** Every format with its readers and writers, for tests that go through all of them. */
export const LOADED: readonly LoadedFormat[] = await Promise.all(
  FORMATS.map(async (format) => ({
    format,
    reader: await format.read(),
    writer: await format.write?.(),
  })),
);

/** What decodes everything that `tare.origin` can carry. */
export const READERS: readonly FormatReader[] = LOADED.map(({ reader }) => reader);

export const WRITERS: readonly FormatWriter[] = LOADED.flatMap(({ writer }) => (writer === undefined ? [] : [writer]));

export function loadedById(id: string): LoadedFormat {
  const loaded = LOADED.find(({ format }) => format.id === id);
  if (loaded === undefined) throw new Error(`There is no format "${id}"`);
  return loaded;
}

export function writerById(id: string): FormatWriter {
  const { writer } = loadedById(id);
  if (writer === undefined) throw new Error(`"${id}" is only read`);
  return writer;
}

/** Opens a file by that format, without asking its content what it is. */
export async function openedBy(format: Format, source: Source, context: OpenContext): Promise<Opened> {
  const reader = await format.read();
  return { container: await reader.open(source, context), format, reader, notes: [] };
}
