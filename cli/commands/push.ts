import { stat } from "node:fs/promises";
import { basename, resolve } from "node:path";
import { SourceError, UsageError } from "../../src/base/errors.ts";
import { printable } from "../../src/base/text.ts";
import { s3Address } from "../../src/bytes/s3/address.ts";
import { chooseCondition, LEAST_PART_BYTES } from "../../src/bytes/s3/commit.ts";
import { isS3Url, parseS3Address, type S3Address, type S3Client } from "../../src/bytes/s3/open.ts";
import { formatForName } from "../../src/formats/registry.ts";
import { type PushItem, type PushJournal, type PushResult, pushObject } from "../../src/operations/push.ts";
import { fileError } from "../../src/platform/node/errors.ts";
import type { FolderFiles, LinkRule, PushFile } from "../../src/platform/node/push-files.ts";
import { defineCommand } from "../command.ts";
import type { Context } from "../context.ts";
import { EXIT } from "../exit-codes.ts";
import { formatSize, plural } from "../render/sizes.ts";
import { s3ClientFor } from "../s3-settings.ts";

/** "model-00001-of-00003.gguf": a file that is one of several. */
const NUMBERED = /-\d{5}-of-\d{5}\.[a-z]+$/i;

export const pushCommand = defineCommand({
  positionals: { names: ["PATH", "DESTINATION"], min: 2, max: 2 },
  flags: {
    "part-size": { kind: "size", value: "SIZE", summary: "bytes of one part of an upload, 5 MiB or more (16 MiB)" },
    "follow-links": { kind: "switch", summary: "upload what links lead to, also outside of the folder" },
  },
  details: [
    "PATH is a file, a directory, or the index or first file of a set, which is uploaded whole, its index last. DESTINATION is s3://bucket/key, or s3://bucket/prefix/ to keep the names.",
    "An object appears when it is complete, and never over one that exists, unless --force; of two writers one wins and the other is told. An upload that was interrupted, in whatever way, goes on where it stopped when the command is run again.",
    "Which store, and the key to it, come from AWS_ENDPOINT_URL_S3, AWS_REGION, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN and AWS_PROFILE, as for the AWS tools.",
  ],
  examples: [
    { command: "tare push model.aero s3://models/llama/", says: "one file" },
    { command: "tare push model.aeroset.json s3://models/llama/", says: "a set: every part, then its index" },
    { command: "tare push out/ s3://models/llama/ --concurrency 8", says: "a directory, eight parts at a time" },
  ],
  output: "report",
  async run(context, { flags, positionals }) {
    const [path = "", destination = ""] = positionals;
    checkPartSize(flags["part-size"]);
    const links = flags["follow-links"] === true ? "follow" : "inside";
    const targets = await planTargets(context, { path, destination, links });
    const client = await s3ClientFor(context);
    const isDryRun = context.flags["dry-run"] === true;
    const job = { client, targets, partBytes: flags["part-size"] };
    const rows = isDryRun ? await rehearse(context, job) : await pushAll(context, job);
    await report(context, rows);
    return EXIT.success;
  },
});

interface Target {
  readonly file: PushFile;
  readonly address: S3Address;
  readonly byteLength: number;
}

interface Job {
  readonly client: S3Client;
  readonly targets: readonly Target[];
  readonly partBytes: number | undefined;
}

interface Row {
  readonly path: string;
  readonly url: string;
  readonly byteLength: number;
  readonly sentBytes: number;
  readonly state: PushResult["state"] | "planned";
}

function checkPartSize(byteLength: number | undefined): void {
  if (byteLength === undefined || (byteLength >= LEAST_PART_BYTES && byteLength <= 5 * 2 ** 30)) return;
  throw new UsageError("usage/flag-value", `Cannot use --part-size ${byteLength}: must be 5 MiB to 5 GiB`, {
    source: "command line",
  });
}

async function planTargets(
  context: Context,
  { path, destination, links }: { readonly path: string; readonly destination: string; readonly links: LinkRule },
): Promise<Target[]> {
  if (!isS3Url(destination)) {
    throw new UsageError("usage/arguments", `Cannot push to "${destination}": must be s3://bucket/key`, {
      source: "command line",
    });
  }
  const address = parseS3Address(destination);
  const measure = (file: string) =>
    stat(file).catch((error: unknown) => {
      throw fileError(error, `Cannot push "${file}"`, { source: file });
    });
  const facts = await measure(path);
  const files = await import("../../src/platform/node/push-files.ts");
  const isFolder = facts.isDirectory();
  const list = isFolder
    ? noteOutside(context, await files.listFolder(path, links))
    : await listFile(context, path, links);
  const isPrefix = address.key === "" || address.key.endsWith("/");
  // A directory always goes below its destination; a set goes beside the name that its index gets.
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

function noteOutside(context: Context, { files, outside }: FolderFiles): readonly PushFile[] {
  const [first] = outside;
  if (first === undefined) return files;
  const others = outside.length === 1 ? "" : ` and ${outside.length - 1} more`;
  const what = `"${printable(first)}"${others}: not uploaded, as links that lead out of the folder`;
  context.warn(`tare: warning: ${what}; --follow-links uploads what they lead to`);
  return files;
}

/** An index and a numbered file stand for their whole set; any other file for itself, model or not. */
async function listFile(context: Context, path: string, links: LinkRule): Promise<PushFile[]> {
  const name = basename(path);
  const isSet = (name.endsWith(".json") && formatForName(name) !== undefined) || NUMBERED.test(name);
  if (!isSet) return [{ path, name }];
  const { listSet } = await import("../../src/platform/node/push-files.ts");
  const { container } = await context.open(path);
  return listSet(path, container, links);
}

async function rehearse(context: Context, { client, targets }: Job): Promise<Row[]> {
  const overwrite = context.flags.force === true ? "replace" : "refuse";
  const rows: Row[] = [];
  for (const { file, address, byteLength } of targets) {
    await chooseCondition(client, address, { overwrite, signal: context.signal });
    rows.push({ path: file.path, url: address.label, byteLength, sentBytes: 0, state: "planned" });
  }
  return rows;
}

async function pushAll(context: Context, { client, targets, partBytes }: Job): Promise<Row[]> {
  const total = targets.reduce((sum, { byteLength }) => sum + byteLength, 0);
  const progress = context.progress({ label: "uploading", total });
  const journals: PushJournal[] = [];
  const rows: Row[] = [];
  for (const target of targets) {
    const item = await openItem(context, client, target);
    journals.push(item.journal);
    try {
      const { state, byteLength, sentBytes } = await pushObject(client, item, {
        overwrite: context.flags.force === true ? "replace" : "refuse",
        concurrency: context.flags.concurrency,
        partBytes,
        signal: context.signal,
        onProgress: (bytes) => progress.add(bytes),
        onNote: (text) => context.note(`note: ${text}`),
      });
      rows.push({ path: target.file.path, url: target.address.label, byteLength, sentBytes, state });
    } finally {
      await item.source.close();
    }
  }
  progress.end();
  // Only now: until everything is there, a second run must know what the first one finished.
  for (const journal of journals) await journal.clear();
  return rows;
}

async function openItem(context: Context, client: S3Client, { file, address }: Target): Promise<PushItem> {
  const [{ openFile }, { filePushJournal, pushJournalFolder }] = await Promise.all([
    import("../../src/platform/node/file-source.ts"),
    import("../../src/platform/node/push-journal.ts"),
  ]);
  const source = await openFile(file.path, { signal: context.signal });
  const { url = "" } = client.session.endpoint;
  const journal = filePushJournal(pushJournalFolder(context.env), [
    url,
    address.bucket,
    address.key,
    resolve(file.path),
  ]);
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

async function report(context: Context, rows: readonly Row[]): Promise<void> {
  const dryRun = context.flags["dry-run"] === true;
  const sum = (key: "byteLength" | "sentBytes"): number => rows.reduce((total, row) => total + row[key], 0);
  const [byteLength, sentBytes] = [sum("byteLength"), sum("sentBytes")];
  await context.show({
    json: () => ({ dryRun, files: rows, byteLength, sentBytes }),
    text: () => {
      const lines = rows.map(({ url, byteLength: size, state }) => {
        const said = { written: "wrote", present: "already there:", planned: "would write" }[state];
        return `${said} ${url}, ${formatSize(size)}`;
      });
      if (rows.length > 1) lines.push(`${plural(rows.length, "object")}, ${formatSize(byteLength)}`);
      if (sentBytes < byteLength && !dryRun) lines.push(`sent ${formatSize(sentBytes)}, the rest was there already`);
      return lines.join("\n");
    },
  });
}
