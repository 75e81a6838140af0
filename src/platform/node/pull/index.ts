import { join } from "node:path";
import { requestOf } from "../../../api/host.ts";
import type { S3Options } from "../../../api/options.ts";
import {
  durationIn,
  listOf,
  type OneOrMany,
  type OptionRule,
  type OptionRules,
  type Size,
  sizeIn,
  textsRule,
  WRITE_RULES,
  type WriteOptions,
} from "../../../api/options.ts";
import type { OutputRequest } from "../../../api/outputs.ts";
import { type ProgressMeter, startProgress } from "../../../api/progress.ts";
import { SourceError, UsageError } from "../../../base/errors.ts";
import { withReason } from "../../../bytes/abort.ts";
import { hubFileAddress, hubHeaders } from "../../../bytes/http/hub.ts";
import type { HttpTransport } from "../../../bytes/http/transport.ts";
import { fetchTransport } from "../../../bytes/http/transport.ts";
import { parseHttpUrl, parseOrigin } from "../../../bytes/http/url.ts";
import { objectUrl } from "../../../bytes/s3/address.ts";
import { isS3Url, parseS3Address } from "../../../bytes/s3/open.ts";
import { S3Session, signedTransport } from "../../../bytes/s3/session.ts";
import type { PulledFile } from "../../../operations/pull/file-job.ts";
import type { RemoteAddress } from "../../../operations/pull/remote.ts";
import { type PullOptions as PullJob, planPull, pull as pullFiles } from "../../../operations/pull.ts";
import type { Engine } from "../../../primitives/engine.ts";
import { fullPath } from "../errors.ts";
import { checkInputsKept, refuseVaultPath } from "../files/output-place.ts";
import { firstMissing, removeEmptyFolders } from "../files/own-folder.ts";
import { checkReplaceable } from "../files/sink.ts";
import { environmentOf, type NodeHost, nodeHost } from "../host.ts";
import type { Environment } from "../http/proxy-environment.ts";
import { type NodeTransport, nodeTransport } from "../http/transport.ts";
import { checkPath, writtenPath } from "../paths.ts";
import { storeSettings } from "../s3/client.ts";
import { type Pulled, pullSelection } from "./selection.ts";
import { openPullStore } from "./store.ts";

/** Options of `pull`: the command's flags. */
export interface PullOptions extends WriteOptions {
  /** Folders elsewhere with the same files. */
  readonly mirror?: OneOrMany<string> | undefined;
  /** Most bytes a second, over all connections. */
  readonly limitRate?: Size | undefined;
  /** Only tensors that match one of these, as a smaller model. */
  readonly include?: OneOrMany<string> | undefined;
}

/** What `tare pull --json` prints. */
export interface PullResult {
  /** Null if the format of the content is not known. */
  readonly format: string | null;
  readonly dryRun: boolean;
  /** In the order in which they were put in place: an index comes last. */
  readonly files: readonly PulledFile[];
  readonly byteLength: number;
  readonly requests: number;
  readonly seconds: number;
}

const rateRule: OptionRule = {
  must: 'at least 1 byte a second, as a number or text such as "20MB"',
  test: (value) => (sizeIn(value) ?? 0) >= 1,
};

const RULES: OptionRules = { ...WRITE_RULES, mirror: textsRule, limitRate: rateRule, include: textsRule };

const CONNECTIONS = 8;

/** Mirrors a file or a whole set into a folder: in parallel, resumable, compared with every digest there is. */
export function pull(url: string | URL, output: string | URL, options?: PullOptions): Promise<PullResult> {
  return pullOn(nodeHost(), url, output, options);
}

export async function pullOn(
  host: NodeHost,
  address: string | URL,
  output: string | URL,
  options: PullOptions = {},
): Promise<PullResult> {
  const start = performance.now();
  const request = await requestOf(host, "pull", options, RULES);
  const mirror = environmentOf(request)["HF_ENDPOINT"];
  const url = hubFileAddress(checkPath("pull", "url", address), { mirror, onNote: request.onNote });
  const directory = writtenPath(checkPath("pull", "output", output));
  checkUrls([url, ...(listOf(options.mirror) ?? [])]);
  await refuseVaultPath(directory, "what pull writes");
  if (options.offline === true) {
    throw new SourceError("source/offline", "Cannot pull: the option offline forbids the network", { source: "pull" });
  }
  if (options.include !== undefined && options.mirror !== undefined) {
    const message = "Cannot use the option mirror with the option include: ranges come from the URL alone";
    throw new UsageError("usage/arguments", message, { source: "pull" });
  }
  const run = options.include === undefined ? pullAll : pullSelection;
  const missing = firstMissing(fullPath(directory));
  const { format, files, requests } = await withReason(options.signal, () =>
    run(host, url, directory, request).catch((error: unknown) => {
      // What can be gone on with stays, and its folder with it.
      removeEmptyFolders(fullPath(directory), missing);
      throw error;
    }),
  );
  const dryRun = options.dryRun === true;
  if (!dryRun) noteUnverified(files, options);
  return {
    format: format ?? null,
    dryRun,
    files,
    byteLength: files.reduce((total, { byteLength }) => total + byteLength, 0),
    requests,
    seconds: Math.round(performance.now() - start) / 1000,
  };
}

function checkUrls(urls: readonly string[]): void {
  for (const url of urls) {
    if (/^https?:\/\//i.test(url)) parseHttpUrl(url);
    if (/^(https?|s3):\/\//i.test(url)) continue;
    const scheme = /^[a-z][a-z0-9+.-]*:/i.exec(url)?.[0] ?? "a path";
    const message = `Cannot pull: must be given an address with http://, https:// or s3://, found ${scheme}`;
    throw new UsageError("usage/arguments", message, { source: "pull" });
  }
}

async function pullAll(
  host: NodeHost,
  url: string,
  directory: string,
  request: PullOptions & OutputRequest,
): Promise<Pulled> {
  const { engine, limits, env, s3, fetch: send, retries, signal, dryRun, onProgress } = request;
  const timeoutMs = durationIn(request.timeout);
  const connections = request.concurrency ?? CONNECTIONS;
  const allowedOrigins = new Set((listOf(request.allowOrigin) ?? []).map(parseOrigin));
  const check = async (path: string): Promise<void> => {
    await checkInputsKept(path, host.inputs);
    await checkReplaceable(path, "replace");
  };
  const store = await openPullStore(directory, {
    environment: environmentOf(request),
    check,
    run: dryRun === true ? "dry" : undefined,
  });
  const connector = pullConnector({
    engine,
    environment: env,
    s3,
    transport: send === undefined ? undefined : fetchTransport(send),
    connections,
    timeoutMs,
    headersFor: async (to) => headersFor(to, url, request),
  });
  let progress: ProgressMeter | undefined;
  const job: PullJob = {
    url,
    mirrors: listOf(request.mirror),
    connect: (to) => connector.connect(to),
    store,
    engine,
    limits,
    concurrency: connections,
    limitRate: sizeIn(request.limitRate),
    allowedOrigins,
    overwrite: request.force === true ? "replace" : "refuse",
    timeoutMs,
    ...(retries === undefined ? {} : { retry: { retries } }),
    signal,
    onTotal: (total) => progress?.expect(total),
    onProgress: (byteLength) => progress?.add(byteLength),
  };
  try {
    progress = startProgress({ label: "pulling" }, onProgress);
    const { format, files } = await (dryRun === true ? planPull(job) : pullFiles(job));
    progress.end();
    return {
      format,
      files: files.map((file) => ({ ...file, path: join(directory, file.path) })),
      requests: connector.requests,
    };
  } finally {
    await store.close();
    await connector.close();
  }
}

/** What the caller gives goes only to the first server, never to another one. */
function headersFor(url: string, first: string, request: PullOptions): Readonly<Record<string, string>> {
  const isFirst = /^https?:/i.test(first) && new URL(url).origin === new URL(first).origin;
  return isFirst ? { ...hubHeaders(url, environmentOf(request)), ...request.headers } : {};
}

/** Silence would look like proof. The index is exempt, because the other files are compared with it. */
function noteUnverified(files: readonly PulledFile[], { onNote }: PullOptions): void {
  const bare = files.filter(({ verified, fetchedBytes, path }) => {
    return verified === "none" && fetchedBytes > 0 && !path.endsWith(".json");
  });
  if (bare.length === 0) return;
  const which = bare.length === 1 ? `${bare[0]?.path} was` : `${bare.length} files were`;
  onNote?.(`${which} not compared with anything: neither the file nor an index has a digest`);
}

export interface PullConnectorOptions {
  readonly engine: Engine;
  readonly environment?: Environment | undefined;
  /** The object store, where the caller names it. */
  readonly s3?: S3Options | undefined;
  /** Sends every request in place of tare's own client. */
  readonly transport?: HttpTransport | undefined;
  /** Connections at the same time. */
  readonly connections: number;
  readonly timeoutMs?: number | undefined;
  /** The headers that may be sent to the server of a URL. */
  readonly headersFor: (url: string) => Promise<Readonly<Record<string, string>>>;
}

/** Connects the URLs of a pull to their servers: http, https and s3 over one set of connections. */
export interface PullConnector {
  /** Requests that were sent. */
  readonly requests: number;
  connect(url: string): Promise<RemoteAddress>;
  close(): Promise<void>;
}

export function pullConnector(options: PullConnectorOptions): PullConnector {
  const { environment, s3, connections, timeoutMs, engine, headersFor } = options;
  const own = options.transport === undefined ? nodeTransport({ environment, connections, timeoutMs }) : undefined;
  const direct = options.transport ?? (own as NodeTransport);
  let requests = 0;
  const transport: HttpTransport = {
    conditions: direct.conditions,
    request(request) {
      requests++;
      return direct.request(request);
    },
  };
  return {
    get requests() {
      return requests;
    },
    async connect(url) {
      if (!isS3Url(url)) return { url, transport, headers: await headersFor(url) };
      const address = parseS3Address(url);
      const settings = await storeSettings(environment, s3);
      const session = new S3Session({ ...settings, transport, sha256: (bytes) => engine.digest("sha256", bytes) });
      const signed = signedTransport(session, transport.conditions, address.label);
      return { url: objectUrl(address, session.endpoint), transport: signed, headers: {} };
    },
    close: async () => own?.close(),
  };
}
