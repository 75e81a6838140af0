import { createHash } from "node:crypto";
import type { Stats } from "node:fs";
import { constants } from "node:fs";
import { appendFile, rm, stat } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { requestOf, warnOf } from "../../../api/host.ts";
import {
  type OptionRule,
  type OptionRules,
  type Size,
  sizeIn,
  switchRule,
  WRITE_RULES,
  type WriteOptions,
} from "../../../api/options.ts";
import type { OutputRequest } from "../../../api/outputs.ts";
import { startProgress } from "../../../api/progress.ts";
import { SourceError, UsageError } from "../../../base/errors.ts";
import { withReason } from "../../../bytes/abort.ts";
import { s3Address } from "../../../bytes/s3/address.ts";
import { chooseCondition, LEAST_PART_BYTES } from "../../../bytes/s3/commit.ts";
import { isS3Url, parseS3Address, type S3Address, type S3Client } from "../../../bytes/s3/open.ts";
import { formatForName } from "../../../formats/registry.ts";
import {
  encodePushEntry,
  type PushItem,
  type PushJournal,
  type PushRecord,
  parsePushRecord,
  pushObject,
} from "../../../operations/push.ts";
import { cacheFolder } from "../cache/folder.ts";
import { errnoOf, fileError, fullPath } from "../errors.ts";
import { foreignFolder, foreignness, makeFolder } from "../files/own-folder.ts";
import { readOwnFile } from "../files/reads.ts";
import { openFile } from "../files/source.ts";
import { namedFileError } from "../folders.ts";
import { environmentOf, type NodeHost, nodeHost } from "../host.ts";
import type { Environment } from "../http/proxy-environment.ts";
import { checkPath } from "../paths.ts";
import { type FolderFiles, type LinkRule, listFolder, listSet, type PushFile } from "./files.ts";

/** Options of `push`: the command's flags. */
export interface PushOptions extends WriteOptions {
  /** Bytes of one part of an upload, from 5 MiB to 5 GiB; 16 MiB if absent. */
  readonly partSize?: Size | undefined;
  /** Uploads what links lead to, also outside of the folder. */
  readonly followLinks?: boolean | undefined;
}

/** What `tare push --json` prints. */
export interface PushResult {
  readonly dryRun: boolean;
  readonly files: readonly PushedFile[];
  readonly byteLength: number;
  readonly sentBytes: number;
}

export interface PushedFile {
  readonly path: string;
  readonly url: string;
  readonly byteLength: number;
  /** Bytes that this call sent. */
  readonly sentBytes: number;
  /** "present" if an earlier call had finished it. */
  readonly state: "written" | "present" | "planned";
}

const MOST_PART_BYTES = 5 * 2 ** 30;

const partRule: OptionRule = {
  must: 'from 5 MiB to 5 GiB, as a number of bytes or text such as "16MiB"',
  test(value) {
    const byteLength = sizeIn(value) ?? 0;
    return byteLength >= LEAST_PART_BYTES && byteLength <= MOST_PART_BYTES;
  },
};

const RULES: OptionRules = { ...WRITE_RULES, partSize: partRule, followLinks: switchRule };

/** "model-00001-of-00003.gguf": a file that is one of several. */
const NUMBERED = /-\d{5}-of-\d{5}\.[a-z]+$/i;

/** Uploads a file, a folder or a whole set: atomic for each object, resumable, an index last. */
export function push(path: string | URL, destination: string | URL, options?: PushOptions): Promise<PushResult> {
  return pushOn(nodeHost(), path, destination, options);
}

export async function pushOn(
  host: NodeHost,
  from: string | URL,
  to: string | URL,
  options: PushOptions = {},
): Promise<PushResult> {
  const request = await requestOf(host, "push", options, RULES);
  const path = checkPath("push", "path", from);
  const destination = checkPath("push", "destination", to);
  if (!isS3Url(destination)) {
    const message = `Cannot push to "${destination}": must be s3://bucket/key`;
    throw new UsageError("usage/arguments", message, { source: "push" });
  }
  return withReason(options.signal, async () => {
    const targets = await planTargets(host, path, parseS3Address(destination), request);
    const client = await host.s3(request);
    try {
      const run = options.dryRun === true ? rehearse : pushAll;
      const files = await run(client, targets, request);
      const sum = (key: "byteLength" | "sentBytes"): number => files.reduce((total, file) => total + file[key], 0);
      return { dryRun: options.dryRun === true, files, byteLength: sum("byteLength"), sentBytes: sum("sentBytes") };
    } finally {
      await client.close();
    }
  });
}

type PushRequest = PushOptions & OutputRequest;

interface Target {
  readonly file: PushFile;
  readonly address: S3Address;
  readonly byteLength: number;
}

async function planTargets(
  host: NodeHost,
  path: string,
  address: S3Address,
  request: PushRequest,
): Promise<readonly Target[]> {
  const links = request.followLinks === true ? "follow" : "inside";
  const isFolder = (await measure(path)).isDirectory();
  const list = isFolder
    ? withoutOutside(await listFolder(path, links), warnOf(host, request))
    : await listFile(host, path, links, request);
  const isPrefix = address.key === "" || address.key.endsWith("/");
  // A directory always goes below its destination; a set goes next to the name that its index gets.
  const folder = isPrefix
    ? address.key
    : isFolder
      ? `${address.key}/`
      : address.key.slice(0, address.key.lastIndexOf("/") + 1);
  return Promise.all(
    list.map(async (file) => {
      const isNamed = !isFolder && !isPrefix && file.name === basename(path);
      const target = isNamed ? address : s3Address(address.bucket, folder + file.name);
      return { file, address: target, byteLength: (await measure(file.path)).size };
    }),
  );
}

function measure(path: string): Promise<Stats> {
  return stat(path).catch((error: unknown) => {
    throw namedFileError(error, `Cannot push "${path}"`, { source: path });
  });
}

function withoutOutside({ files, outside }: FolderFiles, warn: (text: string) => void): readonly PushFile[] {
  const [first] = outside;
  if (first === undefined) return files;
  const others = outside.length === 1 ? "" : ` and ${outside.length - 1} more`;
  const what = `"${first}"${others}: not uploaded, as links that lead out of the folder`;
  warn(`${what}; the option followLinks uploads what they lead to`);
  return files;
}

/** An index or a numbered file means its whole set; any other file means itself, model or not. */
async function listFile(
  host: NodeHost,
  path: string,
  links: LinkRule,
  request: PushRequest,
): Promise<readonly PushFile[]> {
  const name = basename(path);
  const isSet = (name.endsWith(".json") && formatForName(name) !== undefined) || NUMBERED.test(name);
  if (!isSet) return [{ path, name }];
  const opened = await host.openText(path, request);
  try {
    return await listSet(path, opened.container, links);
  } finally {
    await opened.close();
  }
}

async function rehearse(
  client: S3Client,
  targets: readonly Target[],
  { force, signal }: PushRequest,
): Promise<readonly PushedFile[]> {
  const overwrite = force === true ? "replace" : "refuse";
  const files: PushedFile[] = [];
  for (const { file, address, byteLength } of targets) {
    await chooseCondition(client, address, { overwrite, signal });
    files.push({ path: file.path, url: address.label, byteLength, sentBytes: 0, state: "planned" });
  }
  return files;
}

async function pushAll(
  client: S3Client,
  targets: readonly Target[],
  request: PushRequest,
): Promise<readonly PushedFile[]> {
  const total = targets.reduce((sum, { byteLength }) => sum + byteLength, 0);
  const progress = startProgress({ label: "uploading", total }, request.onProgress);
  const journals: PushJournal[] = [];
  const files: PushedFile[] = [];
  for (const target of targets) {
    const item = await openItem(client, target, request);
    journals.push(item.journal);
    try {
      const { state, byteLength, sentBytes } = await pushObject(client, item, {
        overwrite: request.force === true ? "replace" : "refuse",
        concurrency: request.concurrency,
        partBytes: sizeIn(request.partSize),
        signal: request.signal,
        onProgress: (bytes) => progress.add(bytes),
        onNote: request.onNote,
      });
      files.push({ path: target.file.path, url: target.address.label, byteLength, sentBytes, state });
    } finally {
      await item.source.close();
    }
  }
  progress.end();
  // Only now: until everything is uploaded, a second run must know what the first one finished.
  for (const journal of journals) await journal.clear();
  return files;
}

async function openItem(client: S3Client, { file, address }: Target, request: PushRequest): Promise<PushItem> {
  const source = await openFile(file.path, { signal: request.signal });
  const { url = "" } = client.session.endpoint;
  const names = [url, address.bucket, address.key, fullPath(file.path)];
  const journal = filePushJournal(pushJournalFolder(environmentOf(request)), names);
  const identity = identityOf(source);
  const checkUnchanged = async (): Promise<void> => {
    const again = await openFile(file.path);
    await again.close();
    if (identityOf(again) === identity) return;
    throw new SourceError("source/changed", `Cannot push "${file.path}": it was written to meanwhile`, {
      source: file.path,
    });
  };
  return { source, identity, address, journal, checkUnchanged };
}

function identityOf(source: PushItem["source"]): string {
  return source.descriptor?.kind === "file" ? source.descriptor.identity : `length ${source.byteLength}`;
}

/** Ten thousand parts take a few megabytes; a longer journal is not ours. */
const MAX_JOURNAL_BYTES = 64 << 20;
/** Do not wait for a reader, if there is a pipe in its place. */
const APPEND_FLAGS = constants.O_WRONLY | constants.O_APPEND | constants.O_CREAT | (constants.O_NONBLOCK ?? 0);

/** Where uploads record their progress: beside the cache, where `tare cache clear` does not remove it. */
export function pushJournalFolder(environment: Environment): string {
  return join(cacheFolder(environment), "push");
}

/**
 * The journal of one object: a file of lines in `folder`, named after the destination. Lines are only added, so a
 * process that is killed loses at most the line that it was writing.
 */
export function filePushJournal(folder: string, destination: readonly string[]): PushJournal {
  const name = createHash("sha256").update(JSON.stringify(destination)).digest("hex").slice(0, 32);
  const path = join(folder, `${name}.jsonl`);
  const at = { source: path };
  // A journal from another user could make us skip parts that were never sent, so it is ignored.
  const isOurs = async (): Promise<boolean> =>
    (await foreignFolder(folder)) === undefined && (await foreignFolder(dirname(folder))) === undefined;
  return {
    async read(): Promise<PushRecord> {
      try {
        const isKnown = (await isOurs()) && foreignness(await stat(path)) === undefined;
        const bytes = isKnown ? await readOwnFile(path, MAX_JOURNAL_BYTES) : undefined;
        return bytes === undefined ? { parts: new Map(), writes: [] } : parsePushRecord(Buffer.from(bytes).toString());
      } catch (error) {
        if (errnoOf(error) === "ENOENT") return { parts: new Map(), writes: [] };
        throw fileError(error, `Cannot read the journal "${path}"`, at);
      }
    },
    async add(entry): Promise<void> {
      try {
        if (!(await isOurs())) return;
        await makeFolder(folder, 0o700);
        await appendFile(path, encodePushEntry(entry), { mode: 0o600, flag: APPEND_FLAGS });
      } catch (error) {
        throw fileError(error, `Cannot write the journal "${path}"`, at);
      }
    },
    async clear(): Promise<void> {
      await rm(path, { force: true });
    },
  };
}
