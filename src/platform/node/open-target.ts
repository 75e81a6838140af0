import { stat } from "node:fs/promises";
import { isTareError, UnsupportedError } from "../../base/errors.ts";
import type { LimitOverrides } from "../../base/limits.ts";
import { type Meter, withMeter, withOwner } from "../../bytes/layers/base.ts";
import { INNER_MARK, type Resolver } from "../../bytes/resolver.ts";
import type { Spool } from "../../bytes/sink.ts";
import type { Source } from "../../bytes/source.ts";
import type { Container } from "../../model/archive.ts";
import type { EncryptionRule, Opened, PasswordSource } from "../../model/format.ts";
import { openThrough } from "../../open.ts";
import type { Engine } from "../../primitives/engine.ts";
import { directoryResolver } from "./directory-resolver.ts";
import { identityOf, openFile, openStdin } from "./file-source.ts";
import { completedSource } from "./interrupted-writes.ts";
import { findModelIn } from "./model-directory.ts";
import type { HttpSettings, RemoteFiles, SpooledCopies } from "./remote-files.ts";
import { literalTarget, parseTarget, type Target } from "./target.ts";

export type { HttpSettings } from "./remote-files.ts";

export interface OpenTargetOptions {
  readonly engine: Engine;
  readonly limits?: LimitOverrides | undefined;
  readonly signal?: AbortSignal | undefined;
  readonly http?: HttpSettings | undefined;
  /** Most bytes to hold or spool for input whose length nobody says: standard input, servers without ranges. */
  readonly maxBufferBytes?: number | undefined;
  /** Where remote tensors that must be checked whole, and are too long for memory, are copied to. */
  readonly spoolFolder?: string | undefined;
  /** Asked when encrypted bytes are read for the first time. */
  readonly password?: PasswordSource | undefined;
  readonly encryption?: EncryptionRule | undefined;
  /** Sees every container on the way to the target, and where it is, before anything of it is used: throwing refuses it. */
  readonly onOpened?: ((container: Container, place: OpenedPlace) => Promise<void>) | undefined;
}

/** Where a container was found: a path, URL or `-`, and names inside archives. */
export interface OpenedPlace {
  readonly outer: string;
  readonly inner: readonly string[];
}

/** What looking has cost: reads of files, and requests of remote targets. */
export interface Cost extends Meter {
  requests: number;
}

export interface OpenedTarget extends Opened {
  /** The target as typed, without credentials. */
  readonly label: string;
  readonly cost: Cost;
  /** Reaches the files beside it; absent for standard input and for files inside archives. */
  readonly resolver?: Resolver | undefined;
  /** The same, and for a file inside an archive the entries beside it: for reading only. */
  readonly siblings?: Resolver | undefined;
  /** Forgets what is cached of the target's remote files: some of it was found to be wrong. */
  distrust(): Promise<void>;
  close(): Promise<void>;
}

/** Opens whatever a TARGET names: a path, `-`, a URL, a directory, a file inside an archive. */
export async function openTarget(text: string, options: OpenTargetOptions): Promise<OpenedTarget> {
  const target = await findTarget(text);
  for (let again = 0; ; again++) {
    const before = await stampOf(target);
    try {
      return await openOnce(target, options);
    } catch (error) {
      if (!isTareError(error) || again === MAX_REOPENS) throw error;
      // Replaced between two requests, or written to between two reads: a fresh start sees the new version whole.
      const isReplaced = error.code === "source/http.changed" && again === 0;
      const isWritten = /^(format|integrity|source)\//.test(error.code) && before !== (await stampOf(target));
      if (!isReplaced && !isWritten) throw error;
    }
  }
}

/** How often a file that changes while it is opened is opened once more. */
const MAX_REOPENS = 3;

/** Which file a path leads to, and when it was last written to; undefined for what is no local file. */
async function stampOf(target: Target): Promise<string | undefined> {
  if (target.kind !== "path") return undefined;
  return stat(target.outer, { bigint: true }).then(identityOf, () => undefined);
}

/** What the text names: a file whose own name has `::` in it wins over a place inside a file of a shorter name. */
async function findTarget(text: string): Promise<Target> {
  const target = parseTarget(text);
  if (target.kind !== "path" && !(await isFile(text))) return target;
  for (let taken = target.inner.length; taken >= 0; taken--) {
    const path = [target.outer, ...target.inner.slice(0, taken)].join(INNER_MARK);
    if (await isFile(path)) return { ...literalTarget(path), inner: target.inner.slice(taken) };
  }
  return target;
}

/** The file of this machine that a TARGET is or is in; undefined for URLs, folders and standard input. */
export async function localFileOf(text: string): Promise<string | undefined> {
  const { kind, outer } = await findTarget(text);
  return kind === "path" && (await isFile(outer)) ? outer : undefined;
}

/** Where a TARGET's bytes are, before anybody looks at what they are. Whoever gets it closes its source. */
export interface TargetPlace extends Place {
  /** Paths inside archives that the TARGET names behind its file. */
  readonly inner: readonly string[];
}

/** Finds the bytes of a TARGET without opening them as a format: for those who only hand them on. */
export async function openTargetPlace(text: string, options: OpenTargetOptions): Promise<TargetPlace> {
  const target = await findTarget(text);
  return { ...(await openPlace(target, options, { reads: 0, bytes: 0, requests: 0 })), inner: target.inner };
}

async function openOnce(target: Target, options: OpenTargetOptions): Promise<OpenedTarget> {
  const cost: Cost = { reads: 0, bytes: 0, requests: 0 };
  const place = await openPlace(target, options, cost);
  const { engine, limits, signal, password, encryption } = options;
  const { source, resolver, name, spool } = place;
  const { outer } = target;
  const onOpened = async (container: Container, inner: readonly string[]): Promise<void> =>
    options.onOpened?.(container, { outer, inner });
  try {
    const within = { engine, limits, signal, password, encryption, resolver, name, spool, onOpened };
    const opened = await openThrough(source, target.inner, within);
    const distrust = place.distrust ?? (() => Promise.resolve());
    const beside = target.inner.length === 0 ? resolver : undefined;
    const label = [source.label, ...target.inner].join(INNER_MARK);
    return { ...opened, label, cost, resolver: beside, distrust, close: () => opened.container.close() };
  } catch (error) {
    // Bytes that cannot be right may be so only in the cache.
    if (isTareError(error) && /^(format|integrity)\//.test(error.code)) await place.distrust?.();
    throw error;
  }
}

interface Place {
  readonly source: Source;
  readonly resolver?: Resolver | undefined;
  readonly name?: string | undefined;
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
          // What was meant is not known, so nothing of it is repeated that could be secret.
          source: target.outer.replace(/\/\/[^/]*@/, "//").replace(/[?#].*/s, "?…"),
        },
        { hint: "Use a path, http://, https:// or s3://" },
      );
    default: {
      const path = (await isDirectory(target.outer)) ? await findModelIn(target.outer) : target.outer;
      const file = await openFile(path, { signal, maxSpoolBytes: options.maxBufferBytes });
      const source = withMeter(await completedSource(path, file), cost);
      const local = directoryResolver(path);
      const resolve: Resolver["resolve"] = async (name, resolveOptions) =>
        withMeter(await local.resolve(name, resolveOptions), cost);
      return referringPlace(
        { source, resolver: { name: local.name, resolve, above: local.above }, name: local.name },
        options,
        cost,
      );
    }
  }
}

/** A local file that may refer to files on servers: what reaches them is loaded when it does. */
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
    source: withOwner(source, { close: async () => (await loading)?.close() }),
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

/** Loaded on demand: most runs read local files, and start-up is part of every answer. */
async function loadRemote(url: string | undefined, options: OpenTargetOptions, cost: Cost): Promise<RemotePlace> {
  const remote = await import("./remote-files.ts");
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
  return { files, copies, close: async () => void (await Promise.all([copies.close(), files.close()])) };
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
  const { openS3Place } = await import("./s3-target.ts");
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
