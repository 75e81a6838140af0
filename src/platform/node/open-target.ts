import { stat } from "node:fs/promises";
import { type ErrorCatalog, isTareError, UnsupportedError, UsageError } from "../../base/errors.ts";
import type { LimitOverrides } from "../../base/limits.ts";
import { type Meter, withMeter } from "../../bytes/metered.ts";
import { withOwner } from "../../bytes/owning.ts";
import type { Resolver } from "../../bytes/resolver.ts";
import type { Source } from "../../bytes/source.ts";
import type { Opened } from "../../model/format.ts";
import { openSource } from "../../open.ts";
import type { Engine } from "../../primitives/engine.ts";
import { directoryResolver } from "./directory-resolver.ts";
import { openFile, openStdin } from "./file-source.ts";
import { findModelIn } from "./model-directory.ts";
import { literalTarget, parseTarget, type Target } from "./target.ts";

export interface OpenTargetOptions {
  readonly engine: Engine;
  readonly limits?: LimitOverrides | undefined;
  readonly signal?: AbortSignal | undefined;
  readonly http?: HttpSettings | undefined;
  /** Most bytes to hold or spool for input whose length nobody says: standard input, servers without ranges. */
  readonly maxBufferBytes?: number | undefined;
}

export interface HttpSettings {
  readonly headers?: Readonly<Record<string, string>> | undefined;
  readonly timeoutMs?: number | undefined;
  readonly retries?: number | undefined;
  /** Connections to one server at a time. */
  readonly connections?: number | undefined;
}

/** What looking has cost: reads of files, and requests of remote targets. */
export interface Cost extends Meter {
  requests: number;
}

export interface OpenedTarget extends Opened {
  /** The target as typed, without credentials. */
  readonly label: string;
  readonly cost: Cost;
  close(): Promise<void>;
}

/** Opens whatever a TARGET names: a path, `-`, a URL, a directory, a file inside an archive. */
export async function openTarget(text: string, options: OpenTargetOptions): Promise<OpenedTarget> {
  const target = (await isFile(text)) ? literalTarget(text) : parseTarget(text);
  try {
    return await openOnce(target, options);
  } catch (error) {
    // The file was replaced between two requests: one fresh start sees the new version whole.
    if (isTareError(error) && error.code === "source/http.changed") return openOnce(target, options);
    throw error;
  }
}

async function openOnce(target: Target, options: OpenTargetOptions): Promise<OpenedTarget> {
  const cost: Cost = { reads: 0, bytes: 0, requests: 0 };
  const place = await openPlace(target, options, cost);
  const { engine, limits, signal } = options;
  // Whatever is open last owns everything before it: closing it closes the whole chain.
  let last: { close(): Promise<void> } = place.source;
  try {
    let opened = await openSource(place.source, { engine, limits, signal, resolver: place.resolver, name: place.name });
    for (const path of target.inner) {
      const { container } = opened;
      last = container;
      if (container.kind !== "archive") throw notAnArchive(path, opened);
      const source = withOwner(container.entry(path).source(), container);
      last = source;
      opened = await openSource(source, { engine, limits, signal, name: path });
    }
    const { container } = opened;
    return { ...opened, label: place.source.label, cost, close: () => container.close() };
  } catch (error) {
    await last.close();
    throw error;
  }
}

interface Place {
  readonly source: Source;
  readonly resolver?: Resolver | undefined;
  readonly name?: string | undefined;
}

async function openPlace(target: Target, options: OpenTargetOptions, cost: Cost): Promise<Place> {
  const { signal } = options;
  switch (target.kind) {
    case "stdin":
      return { source: withMeter(await openStdin({ signal, maxSpoolBytes: options.maxBufferBytes }), cost) };
    case "http":
      return openUrl(target.outer, options, cost);
    case "other-scheme":
      throw new UnsupportedError(
        "unsupported/scheme",
        `Cannot open "${target.outer.replace(/\/\/.*/s, "//…")}": no such scheme`,
        {
          source: target.outer.replace(/\/\/[^/]*@/, "//"),
        },
        { hint: "Use a path, http:// or https://" },
      );
    default: {
      const path = (await isDirectory(target.outer)) ? await findModelIn(target.outer) : target.outer;
      const inner = directoryResolver(path);
      const resolver: Resolver = {
        name: inner.name,
        resolve: async (name, resolveOptions) => withMeter(await inner.resolve(name, resolveOptions), cost),
      };
      return {
        source: withMeter(await openFile(path, { signal, maxSpoolBytes: options.maxBufferBytes }), cost),
        resolver,
        name: inner.name,
      };
    }
  }
}

async function openUrl(url: string, options: OpenTargetOptions, cost: Cost): Promise<Place> {
  // Loaded on demand: most runs read local files, and start-up is part of every answer.
  const [{ httpResolver, openHttp }, { nodeTransport }] = await Promise.all([
    import("../../bytes/http.ts"),
    import("./http-transport.ts"),
  ]);
  const { headers, timeoutMs, retries, connections } = options.http ?? {};
  const inner = nodeTransport({ timeoutMs, connections });
  const transport: typeof inner = {
    ...inner,
    request: (request) => {
      cost.requests++;
      return inner.request(request);
    },
  };
  const open = (address: string): Promise<Source> =>
    openHttp(address, {
      transport,
      headers,
      timeoutMs,
      signal: options.signal,
      maxMemoryBytes: options.maxBufferBytes,
      ...(retries === undefined ? {} : { retry: { retries } }),
    });
  return { source: withMeter(await open(url), cost), resolver: httpResolver(url, open) };
}

function notAnArchive(path: string, current: Opened): UsageError {
  const message = `Cannot look for "${path}" inside: this is a ${current.format.name} model, not an archive`;
  return new UsageError("usage/not-an-archive", message, {
    source: current.container.parts[0]?.label ?? current.format.id,
  });
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

export const TARGET_ERRORS = {
  "source/no-model": {
    what: "The directory holds no file that looks like a model.",
    why: "Directories are searched, without their subdirectories, for the extensions that tare knows.",
    fix: "Name the file itself.",
  },
  "usage/ambiguous-target": {
    what: "The directory holds more than one model.",
    why: "Choosing one silently would be a guess.",
    fix: "Name the file; the error lists them.",
  },
  "usage/not-an-archive": {
    what: "A path behind `::` was given, but the file before it is a model, not an archive.",
    why: "`::` names a file inside a vault.",
    fix: "Leave out everything from `::` on.",
  },
  "unsupported/scheme": {
    what: "The target's scheme is not one that tare opens.",
    why: "This version reads paths, standard input, http:// and https://.",
    fix: "Download the file, or use an http(s) address of it.",
  },
} as const satisfies ErrorCatalog;
