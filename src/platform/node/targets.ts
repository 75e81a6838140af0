import { realpath, stat } from "node:fs/promises";
import { basename, resolve } from "node:path";
import { isTareError, UnsupportedError } from "../../base/errors.ts";
import type { LimitOverrides } from "../../base/limits.ts";
import { overlaidSource, overlayBytes } from "../../bytes/derived.ts";
import { hubFileAddress } from "../../bytes/http/hub.ts";
import { type Meter, withMeter, withOwner } from "../../bytes/layers/base.ts";
import { INNER_MARK, type Resolver, splitInnerPaths } from "../../bytes/resolver.ts";
import type { Spool } from "../../bytes/sink.ts";
import type { Source } from "../../bytes/source.ts";
import type { Container } from "../../model/archive.ts";
import type { Finding } from "../../model/finding.ts";
import type { EncryptionRule, Format, Opened, PasswordSource } from "../../model/format.ts";
import { openThrough } from "../../open.ts";
import type { Engine } from "../../primitives/engine.ts";
import { errnoOf } from "./errors.ts";
import { directoryResolver } from "./files/directory.ts";
import { findInterruptedEdit } from "./files/patch.ts";
import { identityOf, openFile, openStdin } from "./files/source.ts";
import { findModelIn } from "./folders.ts";
import type { HttpSettings, RemoteFiles, SpooledCopies } from "./http/remote-files.ts";
import { findForeignJournal, findMendedHeader } from "./vault/journal.ts";

export type { HttpSettings } from "./http/remote-files.ts";

export interface OpenTargetOptions {
  readonly engine: Engine;
  readonly limits?: LimitOverrides | undefined;
  readonly signal?: AbortSignal | undefined;
  readonly http?: HttpSettings | undefined;
  /** Most bytes to hold or spool for input of unknown length: standard input, servers without ranges. */
  readonly maxBufferBytes?: number | undefined;
  /** Where to copy remote tensors that must be checked whole and are too long for memory. */
  readonly spoolFolder?: string | undefined;
  /** Called when encrypted bytes are read for the first time. */
  readonly password?: PasswordSource | undefined;
  readonly encryption?: EncryptionRule | undefined;
  /** Formats to consider; all of them if absent. */
  readonly formats?: readonly Format[] | undefined;
  /** "shown" opens a model whose end is missing as far as it goes. */
  readonly cutShort?: "shown" | undefined;
  /** Gets every container on the way to the target, and its place, before any of it is used; throwing refuses it. */
  readonly onOpened?: ((container: Container, place: OpenedPlace) => Promise<void>) | undefined;
  /** Called with the path of every local file that is opened because the target is in its company. */
  readonly onFile?: ((path: string) => void) | undefined;
  /** Gets what is read instead of what was named. */
  readonly onNote?: ((text: string) => void) | undefined;
  /** Gets what is doubtful about the files beside the target. */
  readonly onDoubt?: ((finding: Finding) => void) | undefined;
  /** Called when what was opened is closed. May be called more than once. */
  readonly onClose?: (() => Promise<void>) | undefined;
}

/** Where a container was found: a path, URL or `-`, and names inside archives. */
export interface OpenedPlace {
  readonly outer: string;
  readonly inner: readonly string[];
}

/** The cost of looking at a target: reads of files, and requests for remote ones. */
export interface Cost extends Meter {
  requests: number;
}

export interface OpenedTarget extends Opened {
  /** The target as typed, without credentials. */
  readonly label: string;
  readonly cost: Cost;
  /** Opens the files beside it; absent for standard input and for files inside archives. */
  readonly resolver?: Resolver | undefined;
  /** The same, and for a file inside an archive the entries beside it: for reading only. */
  readonly siblings?: Resolver | undefined;
  /** Name of the folder that was named; absent for a file. */
  readonly folder?: string | undefined;
  /** Closes it, then drops the cached bytes of the target's remote files: some of them proved wrong. */
  distrust(): Promise<void>;
  /** May be called again. */
  close(): Promise<void>;
}

/** Opens a TARGET: a path, `-`, a URL, a directory, a file inside an archive. */
export async function openTarget(text: string, options: OpenTargetOptions): Promise<OpenedTarget> {
  const target = hubTarget(await findTarget(text), options);
  for (let again = 0; ; again++) {
    const before = await stampOf(target);
    try {
      return await openOnce(target, options);
    } catch (error) {
      if (!isTareError(error) || again === MAX_REOPENS) throw error;
      // Replaced between two requests, or written to between two reads: a fresh start sees the whole new version.
      const isReplaced = error.code === "source/http.changed" && again === 0;
      const isWritten = /^(format|integrity|source)\//.test(error.code) && before !== (await stampOf(target));
      if (!isReplaced && !isWritten) throw error;
    }
  }
}

/** How often to open a file again that changes while it is opened. */
const MAX_REOPENS = 3;

/** Which file a path leads to, and when it was last written to; undefined for other targets. */
async function stampOf(target: Target): Promise<string | undefined> {
  if (target.kind !== "path") return undefined;
  return stat(target.outer, { bigint: true }).then(identityOf, () => undefined);
}

/** What the text names: a file with `::` in its own name wins over a place inside a file with a shorter name. */
async function findTarget(text: string): Promise<Target> {
  const target = parseTarget(text);
  if (target.kind !== "path" && !(await isFile(text))) return target;
  for (let taken = target.inner.length; taken >= 0; taken--) {
    const path = [target.outer, ...target.inner.slice(0, taken)].join(INNER_MARK);
    if (await isFile(path)) return { outer: path, kind: "path", inner: target.inner.slice(taken) };
  }
  return target;
}

/** The page of a file on the hub means the file. */
function hubTarget(target: Target, { http, onNote }: OpenTargetOptions): Target {
  const mirror = (http?.environment ?? process.env)["HF_ENDPOINT"];
  return target.kind === "http" ? { ...target, outer: hubFileAddress(target.outer, { mirror, onNote }) } : target;
}

/** The local file that a TARGET is or is inside of; undefined for URLs, folders and standard input. */
export async function localFileOf(text: string): Promise<string | undefined> {
  const { kind, outer } = await findTarget(text);
  return kind === "path" && (await isFile(outer)) ? outer : undefined;
}

/** Where a TARGET's bytes are, before their format is known. The caller closes its source. */
export interface TargetPlace extends Place {
  /** Paths inside archives that follow the file in the TARGET. */
  readonly inner: readonly string[];
}

/** Finds the bytes of a TARGET without opening them as a format: for callers that only pass them on. */
export async function openTargetPlace(text: string, options: OpenTargetOptions): Promise<TargetPlace> {
  const target = hubTarget(await findTarget(text), options);
  return { ...(await openPlace(target, options, { reads: 0, bytes: 0, requests: 0 })), inner: target.inner };
}

async function openOnce(target: Target, options: OpenTargetOptions): Promise<OpenedTarget> {
  const cost: Cost = { reads: 0, bytes: 0, requests: 0 };
  const place = await openPlace(target, options, cost);
  const { engine, limits, signal, password, encryption, formats, cutShort } = options;
  const { source, resolver, name, spool } = place;
  const { outer } = target;
  const onOpened = async (container: Container, inner: readonly string[]): Promise<void> =>
    options.onOpened?.(container, { outer, inner });
  try {
    const within = {
      ...{ engine, limits, signal, password, encryption, formats, cutShort },
      ...{ resolver, name, spool, onOpened },
    };
    const opened = await openThrough(source, target.inner, within);
    const close = (): Promise<void> => opened.container.close();
    // Closing waits for bytes that are still being kept. Forgotten before that, they would come back.
    const distrust = async (): Promise<void> => close().finally(place.distrust);
    const beside = target.inner.length === 0 ? resolver : undefined;
    const label = [source.label, ...target.inner].join(INNER_MARK);
    const folder = target.inner.length === 0 ? place.folder : undefined;
    return { ...opened, label, cost, resolver: beside, folder, distrust, close };
  } catch (error) {
    // Bytes that cannot be right may be wrong only in the cache.
    if (isTareError(error) && /^(format|integrity)\//.test(error.code)) await place.distrust?.();
    throw error;
  }
}

interface Place {
  readonly source: Source;
  readonly resolver?: Resolver | undefined;
  readonly name?: string | undefined;
  readonly folder?: string | undefined;
  readonly spool?: Spool | undefined;
  readonly distrust?: (() => Promise<void>) | undefined;
}

async function openPlace(target: Target, options: OpenTargetOptions, cost: Cost): Promise<Place> {
  const { signal } = options;
  switch (target.kind) {
    case "stdin":
      return { source: withMeter(await openStdin({ signal, maxSpoolBytes: options.maxBufferBytes }), cost) };
    case "http":
      return openUrl(target.outer, options, cost);
    case "s3":
      return openObject(target.outer, options, cost);
    case "other-scheme":
      throw new UnsupportedError(
        "unsupported/scheme",
        `Cannot open "${target.outer.replace(/\/\/.*/s, "//…")}": no such scheme`,
        {
          // Its meaning is unknown, so the message does not repeat any part that could be secret.
          source: target.outer.replace(/\/\/[^/]*@/, "//").replace(/[?#].*/s, "?…"),
        },
        { hint: "Use a path, http://, https:// or s3://" },
      );
    default: {
      const isFolder = await isDirectory(target.outer);
      const path = isFolder ? await findModelIn(target.outer) : target.outer;
      const file = await openFile(path, { signal, maxSpoolBytes: options.maxBufferBytes });
      const source = withMeter(await completedSource(path, file, options), cost);
      const local = directoryResolver(path);
      const noting = ({ name: own, folder, resolve }: Resolver): Resolver => ({
        name: own,
        folder,
        async resolve(name, resolveOptions) {
          const found = await resolve(name, resolveOptions);
          if (found.descriptor?.kind === "file") options.onFile?.(found.descriptor.path);
          return withMeter(found, cost);
        },
      });
      const { name, above } = local;
      const resolver = { ...noting(local), above: above === undefined ? undefined : noting(above) };
      const folder = isFolder ? basename(resolve(target.outer)) || undefined : undefined;
      return referringPlace({ source, resolver, name, folder }, options, cost);
    }
  }
}

/** A local file that may refer to files on servers: the code for these is loaded on demand. */
async function referringPlace(place: Place, options: OpenTargetOptions, cost: Cost): Promise<Place> {
  const { source, resolver } = place;
  if (resolver === undefined) return place;
  let loading: Promise<RemotePlace> | undefined;
  const load = (): Promise<RemotePlace> => {
    loading ??= loadRemote(undefined, options, cost);
    return loading;
  };
  return {
    ...place,
    source: withOwner(source, {
      async close() {
        await (await loading)?.close();
        await options.onClose?.();
      },
    }),
    resolver: {
      ...resolver,
      resolveUrl: async (url, resolveOptions) => (await load()).files.openFrom(source.label, url, resolveOptions),
    },
    spool: async (pieces, spoolOptions) => (await load()).copies.spool(pieces, spoolOptions),
    distrust: async () => (await loading)?.files.distrust(),
  };
}

interface RemotePlace {
  readonly files: RemoteFiles;
  readonly copies: SpooledCopies;
  /** Removes the copies and ends the connections. */
  close(): Promise<void>;
}

/** Loaded on demand: most runs read only local files, and start-up time is part of every run. */
async function loadRemote(url: string | undefined, options: OpenTargetOptions, cost: Cost): Promise<RemotePlace> {
  const remote = await import("./http/remote-files.ts");
  const files = new remote.RemoteFiles({
    http: options.http ?? {},
    url,
    maxMemoryBytes: options.maxBufferBytes,
    signal: options.signal,
    onRequest: () => {
      cost.requests++;
    },
  });
  const copies = new remote.SpooledCopies(options.spoolFolder);
  const close = async (): Promise<void> => {
    await Promise.all([copies.close(), files.close()]);
    await options.onClose?.();
  };
  return { files, copies, close };
}

async function openUrl(url: string, options: OpenTargetOptions, cost: Cost): Promise<Place> {
  const remote = await loadRemote(url, options, cost);
  const { files, copies } = remote;
  try {
    return {
      source: withOwner(withMeter(await files.open(url), cost), remote),
      resolver: files.resolver(url),
      spool: copies.spool,
      distrust: () => files.distrust(),
    };
  } catch (error) {
    await remote.close();
    throw error;
  }
}

async function openObject(address: string, options: OpenTargetOptions, cost: Cost): Promise<Place> {
  const { openS3Place } = await import("./s3/target.ts");
  const place = await openS3Place(address, options, cost);
  const referring = await referringPlace(place, options, cost);
  const distrust = async (): Promise<void> => {
    await place.distrust();
    await referring.distrust?.();
  };
  return { ...referring, distrust };
}

async function isFile(path: string): Promise<boolean> {
  return stat(path).then(
    (facts) => !facts.isDirectory(),
    () => false,
  );
}

async function isDirectory(path: string): Promise<boolean> {
  return stat(path).then(
    (facts) => facts.isDirectory(),
    () => false,
  );
}

/** The parts of a TARGET on the command line, before anything is opened. */
export interface Target {
  /** "-", a path, or a URL. */
  readonly outer: string;
  readonly kind: "stdin" | "path" | "http" | "s3" | "other-scheme";
  /** Paths inside archives, outermost first: "v.aerovault::models/a.gguf" has one. */
  readonly inner: readonly string[];
}

/**
 * `::` separates an archive from a path inside it, except within `[…]` (IPv6 hosts). The caller checks first whether a
 * file with the literal name exists, which wins.
 */
export function parseTarget(text: string): Target {
  const [outer = "", ...inner] = splitInnerPaths(text);
  return { outer, kind: kindOf(outer), inner };
}

function kindOf(outer: string): Target["kind"] {
  if (outer === "-") return "stdin";
  if (/^https?:\/\//i.test(outer)) return "http";
  if (/^s3:\/\//i.test(outer)) return "s3";
  // At least two letters: "c:" is a drive.
  return /^[a-z][a-z0-9+.-]+:\/\//i.test(outer) ? "other-scheme" : "path";
}

/**
 * A file as it should have become, if a crash interrupted a write in place: the new bytes come from the journal beside
 * it, and the file is not changed. Needs no permission to write, and no lock: everything that a journal refers to was
 * durable before the journal. Journals are beside the file itself, not beside links to it. A journal of an edit that this
 * user did not write is ignored, and a note says so: otherwise anyone could show other bytes than those of the file.
 */
export async function completedSource(
  path: string,
  source: Source,
  { http, onNote, onDoubt }: Pick<OpenTargetOptions, "http" | "onNote" | "onDoubt"> = {},
): Promise<Source> {
  const real = await realpath(path).catch(() => undefined); // it was a pipe, or is gone again
  if (real === undefined) return source;
  try {
    const doubt = await findForeignJournal(real);
    if (doubt !== undefined) onDoubt?.(doubt);
    const header = await findMendedHeader(real);
    if (header !== undefined) return overlaidSource(source, source.byteLength, [overlayBytes(0, header)]);
    const { patches, ignored } = await findInterruptedEdit(real, http?.environment);
    if (ignored !== undefined) onNote?.(`"${path}" is shown as it is: "${ignored}" is no edit of yours that fits it`);
    if (patches.length === 0) return source;
    const overlays = patches.map(({ offset, after }) => overlayBytes(offset, after));
    return overlaidSource(source, source.byteLength, overlays);
  } catch (error) {
    // The journal may not be read: use the file as it is.
    if (isTareError(error) || errnoOf(error) !== undefined) return source;
    throw error;
  }
}
