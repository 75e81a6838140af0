import { join } from "node:path";
import { SourceError, UsageError } from "../../src/base/errors.ts";
import { parseHttpUrl, parseOrigin } from "../../src/bytes/http/url.ts";
import type { PulledFile } from "../../src/operations/pull/file-job.ts";
import { type PullOptions, planPull, pull } from "../../src/operations/pull.ts";
import { type PullConnector, pullConnector } from "../../src/platform/node/pull-connect.ts";
import { openPullStore } from "../../src/platform/node/pull-store.ts";
import { defineCommand } from "../command.ts";
import type { Context } from "../context.ts";
import { EXIT } from "../exit-codes.ts";
import { collectHeaders } from "../http-headers.ts";
import { requireOutput } from "../output-target.ts";
import { pullSelection } from "../pull-selection.ts";
import { formatRate, formatSize, formatTime, plural } from "../render/sizes.ts";

const CONNECTIONS = 8;

export interface PullReport {
  readonly files: readonly PulledFile[];
  readonly format: string | undefined;
  readonly requests: number;
  readonly milliseconds: number;
}

export const pullCommand = defineCommand({
  positionals: { names: ["URL"], min: 1, max: 1 },
  flags: {
    mirror: { kind: "list", value: "URL", summary: "a folder elsewhere with the same files; repeatable" },
    "limit-rate": { kind: "size", value: "RATE", summary: "most bytes a second, over all connections: 20MB" },
    include: { kind: "list", value: "GLOB", summary: "only tensors that match, as a smaller model; repeatable" },
  },
  details: [
    "Mirrors a file or a whole set (AEROSET, sharded SafeTensors, sharded GGUF) into DIR, over several connections. What was fetched is kept when a pull ends early, whatever ends it: run the same command again. Files that are here and current are not fetched again.",
    "Everything is compared with the digests there are before it gets its name: pages as they arrive, whole files by the SHA-256 of their index. A set's index comes last.",
    "With --include only the needed ranges are fetched, and what is written is a model of its own in the same format.",
  ],
  examples: [
    { command: "tare pull https://host/model.aeroset.json -o models", says: "a set with all its parts" },
    { command: "tare pull URL -o DIR --mirror https://b/m/ --limit-rate 20MB", says: "two servers, 20 MB/s" },
    { command: 'tare pull URL -o DIR --include "*.layers.0.*"', says: "one layer of a model" },
  ],
  output: "data",
  async run(context, { flags, positionals: [url = ""] }) {
    const directory = requireOutput(context, "a directory");
    checkUrls(context, [url, ...(flags.mirror ?? [])]);
    const rate = flags["limit-rate"];
    if (rate === 0) throw usage("Cannot use --limit-rate 0: must be at least 1 byte a second");
    const startedAt = performance.now();
    let report: Omit<PullReport, "milliseconds">;
    if (flags.include === undefined) report = await pullFiles(context, { url, directory, mirrors: flags.mirror, rate });
    else {
      if (flags.mirror !== undefined) throw usage("Cannot use --mirror with --include: ranges come from the URL alone");
      report = await pullSelection(context, { url, directory, include: flags.include, rate });
    }
    await show(context, { ...report, milliseconds: performance.now() - startedAt }, directory);
    return EXIT.success;
  },
});

function usage(message: string): UsageError {
  return new UsageError("usage/arguments", message, { source: "command line" });
}

function checkUrls(context: Context, urls: readonly string[]): void {
  for (const url of urls) {
    if (/^https?:\/\//i.test(url)) parseHttpUrl(url);
    if (/^(https?|s3):\/\//i.test(url)) continue;
    const scheme = /^[a-z][a-z0-9+.-]*:/i.exec(url)?.[0] ?? "a path";
    throw usage(`Cannot pull: must be given an address with http://, https:// or s3://, found ${scheme}`);
  }
  if (context.flags.offline !== true) return;
  const message = "Cannot pull: --offline forbids the network";
  throw new SourceError("source/offline", message, { source: "command line" });
}

interface Request {
  readonly url: string;
  readonly directory: string;
  readonly mirrors: readonly string[] | undefined;
  readonly rate: number | undefined;
}

async function pullFiles(context: Context, request: Request): Promise<Omit<PullReport, "milliseconds">> {
  const { flags } = context;
  const engine = await context.engine();
  const connections = flags.concurrency ?? CONNECTIONS;
  const connector = pullConnector({
    engine,
    environment: context.env,
    connections,
    timeoutMs: flags.timeout,
    headersFor: (url) => headersFor(context, url, request.url),
  });
  const store = await openPullStore(request.directory, { environment: context.env });
  const progress = context.progress({ label: "pulling" });
  const options: PullOptions = {
    url: request.url,
    mirrors: request.mirrors,
    connect: (url) => connector.connect(url),
    store,
    engine,
    limits: await context.limits(),
    concurrency: connections,
    limitRate: request.rate,
    allowedOrigins: new Set((flags["allow-origin"] ?? []).map(parseOrigin)),
    overwrite: flags.force === true ? "replace" : "refuse",
    timeoutMs: flags.timeout,
    ...(flags.retries === undefined ? {} : { retry: { retries: flags.retries } }),
    signal: context.signal,
    onTotal: (total) => progress.expect(total),
    onProgress: (byteLength) => progress.add(byteLength),
  };
  try {
    const result = await (flags["dry-run"] === true ? planPull(options) : pull(options));
    const files = result.files.map((file) => ({ ...file, path: join(request.directory, file.path) }));
    return { format: result.format, files, requests: connector.requests };
  } finally {
    progress.end();
    await closeAll(connector, store);
  }
}

async function closeAll(connector: PullConnector, store: { close(): Promise<void> }): Promise<void> {
  await store.close();
  await connector.close();
}

/** What the user passes is for the server that was named first, never for another one. */
async function headersFor(context: Context, url: string, first: string): Promise<Readonly<Record<string, string>>> {
  const isFirst = /^https?:/i.test(first) && new URL(url).origin === new URL(first).origin;
  return isFirst ? collectHeaders(context, url) : {};
}

async function show(context: Context, report: PullReport, directory: string): Promise<void> {
  const dryRun = context.flags["dry-run"] === true;
  const { files, format, requests, milliseconds } = report;
  if (!dryRun) noteUnverified(context, files);
  await context.show({
    json: () => ({
      format: format ?? null,
      dryRun,
      files,
      byteLength: sum(files, "byteLength"),
      requests,
      seconds: Math.round(milliseconds) / 1000,
    }),
    text: () => {
      const fetched = sum(files, "fetchedBytes");
      const what = `${plural(files.length, "file")}, ${formatSize(sum(files, "byteLength"))}`;
      if (dryRun) return `would pull ${what} into ${directory}`;
      if (fetched === 0) return `${directory} is up to date: ${what}`;
      const resumed = sum(files, "resumedBytes");
      const earlier = resumed === 0 ? "" : `, ${formatSize(resumed)} were here`;
      const speed = `${formatSize(fetched)} in ${formatTime(milliseconds)}, ${formatRate(fetched, milliseconds)}`;
      return `pulled ${what} into ${directory} (${speed}${earlier})`;
    },
  });
}

/** Silence would look like proof. The index is exempt: it is what the others are compared with. */
function noteUnverified(context: Context, files: readonly PulledFile[]): void {
  const bare = files.filter(({ verified, fetchedBytes, path }) => {
    return verified === "none" && fetchedBytes > 0 && !path.endsWith(".json");
  });
  if (bare.length === 0) return;
  const which = bare.length === 1 ? `${bare[0]?.path} was` : `${plural(bare.length, "file")} were`;
  context.note(`note: ${which} not compared with anything: neither the file nor an index has a digest`);
}

function sum(files: readonly PulledFile[], field: "byteLength" | "fetchedBytes" | "resumedBytes"): number {
  return files.reduce((total, file) => total + file[field], 0);
}
