import { UsageError } from "../base/errors.ts";
import type { DirectoryHandle, FileHandle } from "../bytes/handles/handle.ts";
import type { Meter } from "../bytes/layers/base.ts";
import type { Resolver } from "../bytes/resolver.ts";
import type { Source } from "../bytes/source.ts";
import { type OpenWithOptions, openedOf, openThroughWith } from "../formats/open.ts";
import type { Container } from "../model/archive.ts";
import type { EncryptionRule, Format, Opened } from "../model/format.ts";
import { passwordSource } from "../model/password.ts";
import type { Engine } from "../primitives/engine.ts";
import type { CommonOptions } from "./options.ts";

/** What can be read. A container that was opened before stays open; everything else is closed by the call that opened it. */
export type Input =
  | string
  | URL
  | Blob
  | ArrayBuffer
  | Uint8Array
  | FileHandle
  | DirectoryHandle
  | ReadableStream<Uint8Array>
  | AsyncIterable<Uint8Array>
  | Source
  | Container;

/** The cost of looking at an input: reads of files, and requests for remote ones. */
export interface Cost extends Meter {
  requests: number;
}

/** An opened input, as verbs use it. */
export interface OpenedInput extends Opened {
  /** The input as the user named it, without credentials. */
  readonly label: string;
  readonly cost: Cost;
  /** Opens the files beside it, for reading. */
  readonly siblings?: Resolver | undefined;
  /** Name of the folder that was named; absent for a file. */
  readonly folder?: string | undefined;
  /** Opens itself and the files beside it, by name: a signature, for example. Absent for what has no name, or is in an archive. */
  readonly resolver?: Resolver | undefined;
  /** Closes what this call opened, then drops cached bytes of the input's remote files: some of them proved wrong. */
  distrust(): Promise<void>;
  /** Closes what this call opened. May be called again. */
  close(): Promise<void>;
}

/** How a runtime opens text, and who computes there. */
export interface InputHost {
  /** The formats that it knows, for callers that name none. */
  readonly formats: readonly Format[];
  /** Names what none of them can open; hosts of one format leave that out. */
  readonly explain?: OpenWithOptions["explain"];
  /** Opens a text: an address, and where there is a file system also a path. */
  openText(text: string, options: OpenRequest): Promise<OpenedInput>;
  /** Called with what a call reads that is not text: no output of the call replaces its files. */
  reads?(container: Container): void;
  /** The bytes that a text names, whatever they are: a list of texts, a vocabulary. The caller closes them. */
  openBytes(text: string, options: OpenRequest): Promise<Source>;
}

/** The options of opening, as formats and sources take them. */
export interface OpenRequest extends CommonOptions {
  readonly engine: Engine;
  /** "shown" by verbs that can do with a part of a model: one whose end is missing opens as far as it goes. */
  readonly cutShort?: "shown" | undefined;
  /** Added by the host. */
  readonly explain?: OpenWithOptions["explain"];
}

/** Opens any Input. */
export async function openInput(host: InputHost, input: Input, options: OpenRequest): Promise<OpenedInput> {
  options.signal?.throwIfAborted();
  if (typeof input === "string") return host.openText(input, options);
  if (typeof input !== "object" || input === null) throw unusableInput();
  if (input instanceof URL) return host.openText(input.href, options);
  const within = { ...options, formats: options.formats ?? host.formats, explain: host.explain };
  // Most pages open addresses alone.
  const opened = earlierInput(input) ?? (await (await import("./object-inputs.ts")).openObject(input, within));
  host.reads?.(opened.container);
  return opened;
}

/** The resolver of what was opened by its name; undefined if an archive is around it. */
export function resolverOf({ stored, siblings }: Pick<OpenedInput, "stored" | "siblings">): Resolver | undefined {
  return stored === undefined ? siblings : undefined;
}

/** The options of opening, once it is known which formats count. */
export type WithFormats = OpenRequest & { readonly formats: readonly Format[] };

/** A container that the caller has opened: it stays the caller's. */
function earlierInput(input: object): OpenedInput | undefined {
  if (!("kind" in input) || !("close" in input)) return undefined;
  const opened = openedOf(input as Container);
  if (opened === undefined) return undefined;
  const label = opened.container.parts[0]?.label ?? opened.format.id;
  const resolver = resolverOf(opened);
  const close = async (): Promise<void> => opened.release?.();
  return { ...opened, label, resolver, cost: noCost(), distrust: close, close };
}

export async function openBytes(source: Source, options: WithFormats, resolver?: Resolver): Promise<OpenedInput> {
  const { formats } = options;
  const opened = await openThroughWith(source, [], { ...openOptionsOf(options), formats, resolver });
  const close = (): Promise<void> => opened.container.close();
  return { ...opened, label: source.label, resolver, cost: noCost(), distrust: close, close };
}

function noCost(): Cost {
  return { reads: 0, bytes: 0, requests: 0 };
}

export function unusableInput(): UsageError {
  const message = "Cannot open an input of this kind";
  const hint = "Pass an address, in Node a path, Blob, bytes, stream, handle, Source or model";
  return new UsageError("usage/input", message, { source: "input" }, { hint });
}

/** What formats are told about opening. */
export function openOptionsOf({
  engine,
  limits,
  signal,
  password,
  encryption,
  formats,
  cutShort,
  explain,
}: OpenRequest): Omit<OpenWithOptions, "formats"> & Pick<OpenRequest, "formats"> {
  return {
    engine,
    limits,
    signal,
    formats,
    cutShort,
    explain,
    password: passwordSource(password, signal),
    encryption: encryptionRule({ password, encryption }),
  };
}

/** A caller who gives a password expects an encrypted vault. A function may be asked for other files, so it says nothing. */
export function encryptionRule({
  password,
  encryption,
}: Pick<CommonOptions, "password" | "encryption">): EncryptionRule | undefined {
  if (encryption === false) return "waived";
  return password === undefined || typeof password === "function" ? undefined : "expected";
}
