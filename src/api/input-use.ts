import type { Bytes } from "../base/bytes.ts";
import { isTareError, LimitError, UsageError } from "../base/errors.ts";
import { type DirectoryHandle, isDirectoryHandle } from "../bytes/handles/handle.ts";
import { INNER_MARK } from "../bytes/resolver.ts";
import type { Source } from "../bytes/source.ts";
import { parseVocabularyFile } from "../model/bert/sidecars.ts";
import type { Vocabulary } from "../model/bert/vocabulary.ts";
import { decodeJsonText } from "../struct/strict-json.ts";
import type { NamedFile, VerbHost } from "./host.ts";
import { type Input, type InputHost, type OpenedInput, type OpenRequest, openInput, unusableInput } from "./inputs.ts";
import { sourceOf } from "./object-inputs.ts";

/** The bytes of an input that holds text for a verb, not a model. The caller closes them. */
export async function bytesOf(host: InputHost, input: Input, options: OpenRequest): Promise<Source> {
  options.signal?.throwIfAborted();
  if (typeof input === "string") return host.openBytes(input, options);
  if (typeof input !== "object" || input === null) throw unusableInput();
  if (input instanceof URL) return host.openBytes(input.href, options);
  if (isDirectoryHandle(input) || ("kind" in input && "parts" in input)) throw unusableInput();
  return sourceOf(input as Exclude<Input, string | URL | DirectoryHandle>, options);
}

/** All bytes of an input that an option takes: a vocabulary, for example. Opens no format. */
export async function bytesOfInput(
  host: VerbHost,
  input: Input,
  options: OpenRequest,
  what: NamedFile,
): Promise<Bytes> {
  const text = input instanceof URL ? input.href : input;
  // What is inside an archive opens like an input.
  const isFile = typeof text === "string" && !text.includes(INNER_MARK);
  if (isFile && host.readNamed !== undefined) return host.readNamed(text, options, what);
  const source = await bytesOf(host, input, options);
  try {
    checkNamedLength(source.byteLength, source.label, what);
    return await source.read(0, source.byteLength, { signal: options.signal });
  } finally {
    if (typeof text === "string") await source.close();
  }
}

/** Most bytes of metadata, a vocabulary or a list that an option names. No file that people write comes near it. */
export const NAMED_FILE_BYTES = 64 << 20;

/** Refuses a file that is too long to be what an option asks for. */
export function checkNamedLength(byteLength: number, source: string, { option, maxBytes }: NamedFile): void {
  if (byteLength <= maxBytes) return;
  const message = `Cannot read the option ${option}: must be <= ${maxBytes} bytes, found more`;
  const hint = "Name a file that holds nothing else";
  throw new LimitError("limit/flag-file", message, { source }, { hint });
}

/** True for an error that bytes are to blame for. They may be wrong only in a cache. */
export function provesDamage(error: unknown): boolean {
  return isTareError(error) && /^(format|integrity)\//.test(error.code);
}

/**
 * Opens an input for as long as `work` needs it. Bytes that proved wrong may be wrong only in a cache, which then drops
 * them. An abort is the signal's reason, whatever the work made of it.
 */
export async function withInput<T>(
  host: InputHost,
  input: Input,
  options: OpenRequest,
  work: (opened: OpenedInput) => Promise<T>,
): Promise<T> {
  const opened = await openInput(host, input, options);
  try {
    return await work(opened);
  } catch (error) {
    options.signal?.throwIfAborted();
    if (provesDamage(error)) await opened.distrust();
    throw error;
  } finally {
    await opened.close();
  }
}

/** The tokens in a vocab.txt or a tokenizer.json that the option vocab names. */
export async function readVocabulary(host: VerbHost, vocab: Input, request: OpenRequest): Promise<Vocabulary> {
  const source = typeof vocab === "string" ? vocab : "vocab";
  const bytes = await bytesOfInput(host, vocab, request, { option: "vocab", maxBytes: NAMED_FILE_BYTES });
  const text = decodeJsonText(bytes, { source, offset: 0, what: "the option vocab" });
  const vocabulary = parseVocabularyFile(text, { source });
  if (vocabulary !== undefined) return vocabulary;
  const message = "Cannot use the option vocab: the tokenizer is no WordPiece tokenizer of BERT";
  throw new UsageError("usage/vocabulary", message, { source });
}
