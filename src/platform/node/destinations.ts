import { lstat, stat, unlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import type { Destination, OutputUse } from "../../api/outputs.ts";
import { UsageError } from "../../base/errors.ts";
import { isS3Url } from "../../bytes/s3/address.ts";
import { openS3, parseS3Address, type S3Address, type S3Client, s3Output, s3Resolver } from "../../bytes/s3/open.ts";
import { existsError } from "../../bytes/sink.ts";
import type { Container } from "../../model/archive.ts";
import { cacheFolder } from "./cache/folder.ts";
import { fullPath } from "./errors.ts";
import { directoryOutput } from "./files/directory.ts";
import {
  areSeveralFiles,
  checkInputsKept,
  findVaultPath,
  type InputFile,
  type KeepOptions,
  refuseAddress,
  refuseVaultPath,
  type VaultPath,
  vaultPathText,
} from "./files/output-place.ts";
import { firstMissing, makeOwnFolder, removeEmptyFolders } from "./files/own-folder.ts";
import { checkReplaceable, type Overwrite } from "./files/sink.ts";
import type { VaultWriteContext } from "./vault/change.ts";
import type { StateEnvironment } from "./vault/memory.ts";

/** What writing to a place on disk, in a bucket or in a vault needs of a call. */
export interface Writing {
  readonly overwrite: Overwrite;
  /** "dry" if the call only plans. */
  readonly run?: "dry" | undefined;
  /** Every file that the call reads, as far as is known by now: no output replaces them. */
  inputs(): readonly InputFile[];
  /** A client for the object store. */
  s3(): Promise<S3Client>;
  /** What changing a vault needs. */
  vault(): Promise<VaultWriteContext>;
  /** Opens a vault to look at its names. */
  openVault(path: string): Promise<Container>;
  readonly env: StateEnvironment;
  readonly concurrency?: number | undefined;
  readonly signal?: AbortSignal | undefined;
  readonly onNote?: ((text: string) => void) | undefined;
}

/** The place that a text names: a path, `s3://bucket/key`, or `VAULT::path`. Nothing is written yet. */
export async function placeOf(text: string, writing: Writing, use: OutputUse = {}): Promise<Destination> {
  const place = await findPlace(text, writing, use);
  if (use.names !== "file") return place;
  return { ...place, pathOf: (name) => (name === place.fileName ? text : place.pathOf(name)) };
}

async function findPlace(text: string, writing: Writing, use: OutputUse): Promise<Destination> {
  if (isS3Url(text) && !text.includes("::")) return objectPlace(text, writing, use);
  refuseAddress(text, "s3");
  if (use.names === "folder") await refuseVaultPath(text, "a folder of files");
  const inside = await findVaultPath(text);
  if (inside === undefined) return diskPlace(text, writing, use);
  return vaultPlace(inside, /[\\/]$/.test(text) ? "folder" : "file", writing);
}

/** A path on disk: a file, or a folder if it is one or ends with a slash. */
async function diskPlace(text: string, writing: Writing, use: OutputUse): Promise<Destination> {
  const { overwrite } = writing;
  const isNamed = use.names !== undefined;
  const isFolder = isNamed ? use.names === "folder" : /[\\/]$/.test(text) || (await isDirectory(text));
  const directory = isFolder ? text : dirname(text);
  let missing: string | undefined;
  // A link is followed only if the user typed its name.
  const linksOf = (name: string): "replace" | undefined =>
    isFolder || name !== basename(text) ? "replace" : undefined;
  return {
    label: text,
    fileName: isFolder ? undefined : basename(text),
    holds: "files",
    isDisk: true,
    async open(name) {
      const inputs = use.inputs ?? "rewritten";
      const check = (path: string): Promise<void> => checkInputsKept(path, writing.inputs(), { inputs });
      missing ??= firstMissing(fullPath(directory));
      return directoryOutput(directory, name, { overwrite, links: isFolder ? "replace" : undefined, check });
    },
    pathOf: (name) => join(directory, name),
    async checkAbsent(names) {
      const inputs = writing.inputs();
      // Files of a set get their names one after the other, so the inputs must stay until the last one has its name.
      const isRewritten = use.inputs !== "kept" && names.length === 1 && !(await areSeveralFiles(inputs));
      for (const name of names) {
        writing.signal?.throwIfAborted();
        const path = join(directory, name);
        await checkInputsKept(path, inputs, { inputs: isRewritten ? "rewritten" : "kept" });
        if (overwrite === "replace") await checkReplaceable(path, linksOf(name));
        else if ((await lstat(path).catch(() => undefined)) !== undefined) throw existsError(path);
      }
    },
    async undo(names) {
      for (const name of names) await unlink(join(directory, name)).catch(() => undefined); // reported by what led here
      removeEmptyFolders(fullPath(directory), missing);
    },
  };
}

/** What may be replaced, and how. */
export interface FileRules extends KeepOptions {
  readonly overwrite: Overwrite;
  /** "replace" if a link in the place of the output is replaced, not followed: for names that the user did not give. */
  readonly links?: "replace" | undefined;
}

/** Refuses a path that no file may be written to, before any work is done. Sinks check again. */
export async function checkFilePlace(
  path: string,
  inputs: readonly InputFile[],
  { overwrite, links, ...keep }: FileRules,
): Promise<void> {
  refuseAddress(path, "none");
  await refuseVaultPath(path, "this");
  await checkInputsKept(path, inputs, keep);
  if (overwrite === "replace") await checkReplaceable(path, links);
  else if ((await lstat(path).catch(() => undefined)) !== undefined) throw existsError(path);
}

/** An object; the other objects of a set are put beside it. A key that ends with a slash is a folder. */
function objectPlace(text: string, writing: Writing, { names }: OutputUse): Destination {
  const isFolder = text.endsWith("/") || names === "folder";
  const folder = isFolder ? text.replace(/\/*$/, "/") : text.slice(0, text.lastIndexOf("/") + 1);
  const addressOf = (name: string): S3Address => outputAddress(`${folder}${name}`);
  const upload = async (name: string) =>
    s3Output(await writing.s3(), addressOf(name), {
      overwrite: writing.overwrite,
      concurrency: writing.concurrency,
      onNote: writing.onNote,
    });
  if (!isFolder) outputAddress(text);
  return {
    label: text,
    fileName: isFolder ? undefined : text.slice(folder.length),
    holds: "files",
    async open(name, use) {
      const output = await upload(name);
      if (use !== "reads back") return output;
      const { stagedOutput } = await import("./s3/staged-output.ts");
      // The system's temporary folder is often in memory, but no other user can change our files there.
      const own = await makeOwnFolder(cacheFolder(writing.env));
      return stagedOutput(output, own === undefined ? tmpdir() : join(own, "uploads"));
    },
    pathOf: (name) => `${folder}${name}`,
    async checkAbsent(names) {
      if (writing.overwrite === "replace") return;
      const client = await writing.s3();
      for (const name of names) {
        const address = addressOf(name);
        if ((await client.head(address, { signal: writing.signal })) !== undefined) throw existsError(address.label);
      }
    },
    async written(name) {
      const client = await writing.s3();
      return s3Resolver(addressOf(name), (address) => openS3(client, address, { signal: writing.signal }));
    },
  };
}

function outputAddress(text: string): S3Address {
  const address = parseS3Address(text);
  if (address.key !== "" && !address.key.endsWith("/")) return address;
  throw new UsageError("usage/s3.address", `Cannot write to "${address.label}": the key must name an object`, {
    source: address.label,
  });
}

/** A file inside a vault, or a folder for one file. The vault stays locked from opening the file to its end. */
function vaultPlace(named: VaultPath, kind: "file" | "folder", writing: Writing): Destination {
  const { vault, entry } = named;
  const folder = kind === "folder" ? `${entry}/` : entry.slice(0, entry.lastIndexOf("/") + 1);
  const pathTo = (name: string): VaultPath => ({ vault, entry: `${folder}${name}` });
  const label = vaultPathText(named);
  return {
    label,
    fileName: kind === "folder" ? undefined : entry.slice(folder.length),
    holds: "files",
    async open(name) {
      const { vaultOutput } = await import("./vault/output.ts");
      return vaultOutput(pathTo(name), await writing.vault(), writing.overwrite);
    },
    pathOf: (name) => vaultPathText(pathTo(name)),
    checkCount(count) {
      if (count > 1) throw setError(count, label);
    },
    async checkAbsent(names) {
      if (names.length > 1) throw setError(names.length, label);
      const { checkVaultPlace } = await import("./vault/create.ts");
      await checkVaultPlace(vault);
      const [name] = names;
      // Opening the vault to write to it compares the names, so only a dry run does that here.
      if (name === undefined || writing.run !== "dry" || writing.overwrite === "replace") return;
      const container = await writing.openVault(vault);
      const path = pathTo(name);
      const isTaken = container.kind === "archive" && container.entries.some((one) => one.path === path.entry);
      await container.close();
      if (isTaken) throw existsError(vaultPathText(path));
    },
  };
}

function setError(count: number, source: string): UsageError {
  const message = `Cannot write ${count} files into a vault: a set is not stored directly`;
  const hint = "Write it to disk, and store it with tare vault add";
  return new UsageError("usage/vault.output", message, { source }, { hint });
}

function isDirectory(path: string): Promise<boolean> {
  return stat(path).then(
    (facts) => facts.isDirectory(),
    () => false,
  );
}
