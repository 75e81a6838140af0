import { plainBytes } from "../base/bytes.ts";
import { SourceError, UsageError } from "../base/errors.ts";
import { untilAborted } from "../bytes/abort.ts";
import { blobSource } from "../bytes/blob.ts";
import { handleResolver, namesIn } from "../bytes/handles/folders.ts";
import { type DirectoryHandle, fileHandleSource, isDirectoryHandle, isFileHandle } from "../bytes/handles/handle.ts";
import { foreignSource } from "../bytes/layers/foreign.ts";
import { memorySource } from "../bytes/memory.ts";
import type { Resolver } from "../bytes/resolver.ts";
import { sliceSource } from "../bytes/slice.ts";
import type { Source } from "../bytes/source.ts";
import { collectStream } from "../bytes/stream.ts";
import { candidatesAmong } from "../formats/recognise.ts";
import {
  type Input,
  type OpenedInput,
  type OpenRequest,
  openBytes,
  unusableInput,
  type WithFormats,
} from "./inputs.ts";
import { HELD_BYTES, sizeIn } from "./options.ts";

/** Inputs that are neither text nor containers: bytes, Blobs, handles, streams and Sources. */

/** Opens an object that gives bytes. */
export async function openObject(input: Exclude<Input, string | URL>, options: WithFormats): Promise<OpenedInput> {
  if (isDirectoryHandle(input)) return openFolder(input, options);
  const source = await sourceOf(input, options);
  const opened = await openBytes(source, options);
  const name = nameOf(input);
  return name === undefined ? opened : { ...opened, resolver: ownResolver(name, source) };
}

/** Files that the user picked know their names; what else has bytes does not. */
function nameOf(input: object): string | undefined {
  const isFile = isFileHandle(input) || input instanceof Blob;
  return isFile && "name" in input && typeof input.name === "string" && input.name !== "" ? input.name : undefined;
}

/** Opens the file itself, and nothing beside it: a picked file says nothing about its folder. */
function ownResolver(name: string, source: Source): Resolver {
  return {
    name,
    async resolve(wanted) {
      if (wanted === name) return sliceSource(source, 0, source.byteLength);
      const message = `Cannot find "${wanted}" beside "${name}"`;
      throw new SourceError("source/not-found", message, { source: name });
    },
  };
}

/** The bytes of an input that is neither text nor a container. */
export async function sourceOf(
  input: Exclude<Input, string | URL | DirectoryHandle>,
  options: OpenRequest,
): Promise<Source> {
  if (input instanceof Blob) return blobSource(input);
  if (input instanceof ArrayBuffer || input instanceof Uint8Array) return memorySource(plainBytes(input));
  if (isFileHandle(input)) return untilAborted(fileHandleSource(input), options.signal);
  if (isSource(input)) return foreignSource(input);
  if (input instanceof ReadableStream || Symbol.asyncIterator in input) {
    // It has no length and cannot be read twice, so it is held in memory.
    const maxBytes = sizeIn(options.memory) ?? HELD_BYTES;
    return memorySource(await collectStream(input, { maxBytes, signal: options.signal }), "stream");
  }
  throw unusableInput();
}

function isSource(input: object): input is Source {
  return "read" in input && "stream" in input && "byteLength" in input;
}

/** The one model in a folder that the user picked. */
async function openFolder(folder: DirectoryHandle, options: WithFormats): Promise<OpenedInput> {
  const names = await untilAborted(namesIn(folder), options.signal);
  const [only, ...others] = candidatesAmong(names, options.formats);
  if (only === undefined) {
    const message = `Cannot find a model among the ${names.length} files of the directory`;
    const hint = "Name a file; content decides its format, whatever the extension";
    throw new SourceError("source/no-model", message, { source: folder.name }, { hint });
  }
  if (others.length > 0) {
    const message = `Cannot choose: the directory holds ${others.length + 1} models`;
    const hint = `Name one of them: ${[only, ...others].join("  ")}`;
    throw new UsageError("usage/ambiguous-target", message, { source: folder.name }, { hint });
  }
  const resolver = handleResolver(folder, only, options.signal);
  const opened = await openBytes(await resolver.resolve(only), options, resolver);
  return { ...opened, folder: folder.name };
}
