import type { EmbeddingHost, NamedFile, VerbHost } from "../../api/host.ts";
import { checkNamedLength } from "../../api/input-use.ts";
import { encryptionRule, type OpenedInput, type OpenRequest, openOptionsOf } from "../../api/inputs.ts";
import { type CommonOptions, durationIn, listOf, sizeIn } from "../../api/options.ts";
import type { OutputRequest } from "../../api/outputs.ts";
import type { VaultOptions } from "../../api/vault/options.ts";
import type { Bytes } from "../../base/bytes.ts";
import { UsageError } from "../../base/errors.ts";
import { sizeOf } from "../../base/quantities.ts";
import { hubHeaders } from "../../bytes/http/hub.ts";
import { fetchTransport } from "../../bytes/http/transport.ts";
import { withOwner } from "../../bytes/layers/base.ts";
import { INNER_MARK } from "../../bytes/resolver.ts";
import type { S3Client } from "../../bytes/s3/open.ts";
import type { Source } from "../../bytes/source.ts";
import { VaultArchive } from "../../formats/aerovault/read.ts";
import { explain, FORMATS } from "../../formats/registry.ts";
import type { Container } from "../../model/archive.ts";
import type { Finding } from "../../model/finding.ts";
import { passwordSource } from "../../model/password.ts";
import { CACHE_BYTES, DiskCache, sessionIn } from "./cache/disk-cache.ts";
import { cacheFolder } from "./cache/folder.ts";
import { placeOf, type Writing } from "./destinations.ts";
import { sharedEngine } from "./engine/engine.ts";
import type { InputFile } from "./files/output-place.ts";
import { readNamedPath } from "./files/reads.ts";
import { openFile } from "./files/source.ts";
import type { HttpSettings } from "./http/remote-files.ts";
import { pathOf, writtenPath } from "./paths.ts";
import { localFileOf, type OpenedPlace, type OpenTargetOptions, openTarget, openTargetPlace } from "./targets.ts";
import type { VaultWriteContext } from "./vault/change.ts";
import { recallLane, recallOpened } from "./vault/memory.ts";

/** What a call that exists only in Node needs besides: files are guarded, stores are written, bytes are passed on. */
export interface NodeHost extends VerbHost {
  /** Every file that the call is known to read by now: no output replaces them. */
  readonly inputs: readonly InputFile[];
  /** A client that writes to the object store. */
  s3(options: OpenRequest): Promise<S3Client>;
  /** How a text is opened, for callers that look at its bytes before its format. */
  opening(text: string, options: OpenRequest): Promise<Opening>;
  /** Tells what is wrong with something that is read, if that is no error. If absent, `onNote` gets it. */
  doubt?(finding: Finding): void;
}

/** The host of a call of the library: what is doubtful goes into the call's result. */
export interface LibraryHost extends NodeHost {
  /** The options of a call, with where to tell what is doubtful. */
  listening<O extends CommonOptions>(options: O): O & Listening;
}

interface Listening {
  readonly onDoubt?: ((finding: Finding) => void) | undefined;
}

/** How a text is opened; closing it frees what the options hold. */
export interface Opening {
  readonly options: OpenTargetOptions;
  close(): Promise<void>;
}

/** What Node does for one call: paths, stores and vaults, found as the command line finds them. */
export function nodeHost(known: readonly InputFile[] = [], told: readonly Finding[] = []): LibraryHost {
  const inputs: InputFile[] = [...known];
  const doubts: Finding[] = [...told];
  const listening = <O extends CommonOptions>(options: O): O & Listening => ({
    ...options,
    onDoubt(finding) {
      options.onNote?.(finding.message);
      // A vault that is opened again, to be changed, is still the same one.
      if (doubts.every(({ message }) => message !== finding.message)) doubts.push(finding);
    },
  });
  const reads = ({ kind, parts }: Container): void => {
    for (const { source } of parts) {
      if (source.descriptor?.kind === "file")
        inputs.push({ path: source.descriptor.path, kind: kind === "model" ? "plain" : "vault" });
    }
  };
  /** What an option names: it is not made of what the call writes, so it is never replaced. */
  const keptPath = async (text: string): Promise<string> => {
    const path = pathOf(text);
    const file = await localFileOf(path);
    if (file !== undefined) inputs.push({ path: file, kind: file === path ? "kept" : "vault" });
    return path;
  };
  return {
    engine: sharedEngine,
    reads,
    formats: FORMATS,
    explain,
    inputs,
    doubts,
    s3: writingClient,
    listening,
    opening: async (text, options) => openingOf(text, listening(options)),

    // What is open is not replaced by later calls, not even by its own contents.
    fork: () =>
      nodeHost(
        inputs.map(({ path, kind }) => ({ path, kind: kind === "plain" ? "vault" : kind })),
        doubts,
      ),

    vaultPlace: async (text, opened, request) => {
      const path = pathOf(text);
      if ((await localFileOf(path)) !== path) return undefined;
      const { vaultFilePlace } = await import("./vault/verbs/writer.ts");
      return vaultFilePlace(path, opened, request, (change) => vaultContext(listening({ ...request, ...change })));
    },

    async extractTo(archive, entries, extraction) {
      const { extractToFolder } = await import("./vault/verbs/extract.ts");
      const { root, target } = extraction;
      const paths = { root: pathOf(root), target: target === undefined ? undefined : pathOf(target) };
      return extractToFolder(archive, entries, { ...extraction, ...paths }, inputs);
    },

    async openText(text, options) {
      const path = pathOf(text);
      const file = await localFileOf(path);
      if (file !== undefined) inputs.push({ path: file, kind: file === path ? "plain" : "vault" });
      const opened = await openPath(path, listening(options), (beside) => inputs.push({ path: beside, kind: "kept" }));
      if (opened.container.kind === "model") reads(opened.container);
      return opened;
    },

    readNamed: async (text, options, what) => readNamedFile(await keptPath(text), options, what),

    async upgradeVault(old, { label, path, profile, password }, request) {
      const { targetOf, upgradeVault } = await import("./vault/index.ts");
      const { force, dryRun, onProgress } = request;
      const target = targetOf(pathOf(path), vaultContext(listening(request)), {
        dryRun,
        onProgress,
        source: "upgrade",
      });
      const overwrite = force === true ? "replace" : "refuse";
      return upgradeVault(target, old, { label, profile, overwrite, password: async () => password?.(label) });
    },

    openBytes: async (text, options) => openPathBytes(await keptPath(text), listening(options)),
    sourceDate: (options) => environmentOf(options)["SOURCE_DATE_EPOCH"],
    embedding: nodeEmbeddingOnRequest,

    destinationOf: (text, options, use) =>
      placeOf(
        pathOf(text),
        writingOf(listening(options), () => inputs),
        use,
      ),

    async disk(request) {
      const { localDisk } = await import("./disk.ts");
      return localDisk({
        inputs: () => inputs,
        onRead: (path) => inputs.push({ path, kind: "kept" }),
        environment: environmentOf(request),
        signal: request.signal,
      });
    },
  };
}

/** The bytes of a file that an option names: a path, or an address. */
async function readNamedFile(text: string, options: CommonOptions, what: NamedFile): Promise<Bytes> {
  if (!/^[a-z][a-z0-9+.-]+:\/\//i.test(text)) return readNamedPath(text, what, options.signal);
  const request = { ...options, engine: await sharedEngine(options) };
  const { source } = await openTargetPlace(text, {
    engine: request.engine,
    signal: options.signal,
    http: httpSettings(text, request, undefined),
  });
  try {
    checkNamedLength(source.byteLength, source.label, what);
    return await source.read(0, source.byteLength, { signal: options.signal });
  } finally {
    await source.close();
  }
}

/** Opens a path or an address. A vault is compared with what this machine remembers of it. */
export async function openPath(
  text: string,
  options: OpenRequest & Listening,
  onFile?: (path: string) => void,
): Promise<OpenedInput> {
  const opening = openingOf(text, options, onFile);
  try {
    // Of what is opened for a program only the container is left, so that must close everything.
    return await openTarget(text, { ...opening.options, onClose: () => opening.close() });
  } catch (error) {
    await opening.close();
    throw error;
  }
}

/** Threads are loaded for those who embed. */
const nodeEmbeddingOnRequest: EmbeddingHost = {
  runner: async (threads) => (await import("./verbs/embed.ts")).nodeEmbedding.runner(threads),
  textFiles: async (path, signal) => (await import("./verbs/embed.ts")).nodeEmbedding.textFiles(path, signal),
  indexFile: async (path, signal) => (await import("./verbs/embed.ts")).nodeEmbedding.indexFile(path, signal),
};

/** The bytes at a path or an address, or of a file inside a vault, whatever they are. */
async function openPathBytes(text: string, options: OpenRequest & Listening): Promise<Source> {
  const { memory, signal } = options;
  const maxBufferBytes = sizeIn(memory);
  const file = await localFileOf(text);
  const isAddress = /^[a-z][a-z0-9+.-]+:\/\//i.test(text);
  if (file === text || (file === undefined && !isAddress)) {
    return openFile(text, { signal, maxSpoolBytes: maxBufferBytes });
  }
  const cut = text.lastIndexOf(INNER_MARK);
  if (file !== undefined || text.includes(INNER_MARK)) {
    const { container } = await openPath(text.slice(0, cut), options);
    try {
      if (container.kind === "archive") {
        return withOwner(container.entry(text.slice(cut + INNER_MARK.length)).source(), container);
      }
      throw new UsageError("usage/not-an-archive", `Cannot look inside "${text}": this is no archive`, {
        source: text,
      });
    } catch (error) {
      await container.close();
      throw error;
    }
  }
  const opening = openingOf(text, options);
  const place = await openTargetPlace(text, { ...opening.options, onClose: () => opening.close() });
  return place.source;
}

function openingOf(text: string, options: OpenRequest & Listening, onFile?: (path: string) => void): Opening {
  const cache = cacheOf(options);
  return {
    options: {
      ...openOptionsOf(options),
      engine: options.engine,
      http: httpSettings(text, options, cache),
      maxBufferBytes: sizeIn(options.memory),
      spoolFolder: cache?.folder,
      onOpened: (container, place) => judgeVault(container, place, options),
      onFile,
      onNote: options.onNote,
      onDoubt: options.onDoubt,
    },
    close: async () => cache?.close(),
  };
}

/** What the options say about requests. */
function httpSettings(text: string, options: OpenRequest, store: DiskCache | undefined): HttpSettings {
  const { headers, allowOrigin, timeout, retries, concurrency, offline, env, s3, fetch: send } = options;
  return {
    headers: { ...hubHeaders(text, environmentOf(options)), ...headers },
    allowOrigins: listOf(allowOrigin),
    timeoutMs: durationIn(timeout),
    retries,
    connections: concurrency,
    store,
    network: offline === true ? "offline" : undefined,
    environment: env,
    s3,
    transport: send === undefined ? undefined : fetchTransport(send),
  };
}

type Environment = Readonly<Record<string, string | undefined>>;

export function environmentOf({ env }: Pick<CommonOptions, "env">): Environment {
  return env ?? process.env;
}

/** The cache of remote bytes that the options name; undefined for none. Its folder is made when something is kept. */
export function cacheOf(options: Pick<CommonOptions, "cache" | "env" | "onNote">): DiskCache | undefined {
  const { cache, onNote } = options;
  const env = environmentOf(options);
  if (cache === false) return undefined;
  const maxBytes = cacheLimit(env);
  if (maxBytes === 0) return undefined;
  const folder = cache === undefined ? cacheFolder(env) : writtenPath(cache);
  return new DiskCache({
    folder,
    maxBytes,
    session: sessionIn(folder),
    onProblem: (message) => onNote?.(message),
  });
}

/** Bytes that the cache may hold: TARE_CACHE_SIZE, else 2 GB. 0 turns it off. */
export function cacheLimit(env: Environment): number {
  const text = env["TARE_CACHE_SIZE"];
  const maxBytes = text === undefined || text === "" ? CACHE_BYTES : sizeOf(text);
  if (maxBytes !== undefined) return maxBytes;
  const message = `Cannot use "${text}" as TARE_CACHE_SIZE: must be a size, such as 500MB or 2GiB`;
  throw new UsageError("usage/flag-value", message, { source: "environment" });
}

/** A vault that was put back to an earlier state is consistent in itself: only our memory of it shows that. */
async function judgeVault(container: Container, place: OpenedPlace, options: OpenRequest & Listening): Promise<void> {
  if (container.kind !== "archive") return;
  const onWarning = doubtsOf(options);
  const recall = {
    engine: options.engine,
    env: environmentOf(options),
    encryption: encryptionRule(options),
    memory: "read",
    onWarning,
  } as const;
  if (!(container instanceof VaultArchive)) return recallLane("encrypted", place, recall);
  const older = await recallOpened(container.vault, place, recall);
  if (older !== undefined) onWarning(older);
}

/** Where and how a call writes. */
export function writingOf(options: OutputRequest & Listening, inputs: () => readonly InputFile[]): Writing {
  const { force, dryRun, concurrency, signal, onNote } = options;
  return {
    overwrite: force === true ? "replace" : "refuse",
    run: dryRun === true ? "dry" : undefined,
    inputs,
    s3: () => writingClient(options),
    vault: async () => vaultContext(options),
    openVault: async (path) => (await openPath(path, options)).container,
    env: environmentOf(options),
    concurrency,
    signal,
    onNote,
  };
}

/** What changing a vault needs. */
export function vaultContext(options: OpenRequest & VaultOptions & Listening): VaultWriteContext {
  const { engine, limits = {}, signal, password, onNote, lockTimeout } = options;
  return {
    lockTimeoutMs: durationIn(lockTimeout),
    engine,
    limits,
    signal,
    password: passwordSource(password, signal),
    encryption: encryptionRule(options),
    env: environmentOf(options),
    memory: "read",
    onNote: (text) => onNote?.(text),
    onWarning: doubtsOf(options),
  };
}

/** Loaded by those who write to a store. */
async function writingClient(options: OpenRequest): Promise<S3Client> {
  return (await import("./s3/client.ts")).writingClient(options);
}

/** Gets what is doubtful: the host of the call, else its notes. */
function doubtsOf({ onDoubt, onNote }: Listening & CommonOptions): (finding: Finding) => void {
  return onDoubt ?? (({ message }) => onNote?.(message));
}

/** Tells a finding that is no error, wherever the runtime shows it. */
export function tellDoubt(host: NodeHost, finding: Finding, { onNote }: CommonOptions): void {
  const { message, hint } = finding;
  if (host.doubt !== undefined) host.doubt(finding);
  else onNote?.(hint === undefined ? message : `${message}; ${hint}`);
}
