import { access, stat } from "node:fs/promises";
import type { Disk, OwnFile, OwnFileRule } from "../../api/host.ts";
import { checkOptions, switchRule } from "../../api/options.ts";
import type { Sink } from "../../bytes/sink.ts";
import { disposable, type OpenSource } from "../../bytes/source.ts";
import { checkInputsKept, type InputFile } from "./files/output-place.ts";
import { finishPatch, patchFile } from "./files/patch.ts";
import { readKeyText, readWhole } from "./files/reads.ts";
import { checkReplaceable, fileSink as openSink } from "./files/sink.ts";
import { openFile } from "./files/source.ts";
import { findModelIn } from "./folders.ts";
import type { Environment } from "./http/proxy-environment.ts";
import { checkPath, pathOf } from "./paths.ts";

export interface DiskOptions {
  /** The files that the call reads. */
  inputs(): readonly InputFile[];
  /** Gets the paths of further ones. */
  readonly onRead?: ((path: string) => void) | undefined;
  /** Tells where the user's state is kept: `process.env` if absent. */
  readonly environment?: Environment | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** The files of this machine, for verbs that edit them or sign beside them. */
export function localDisk({ inputs, onRead = () => undefined, environment, signal }: DiskOptions): Disk {
  const read = (named: string): string => {
    const path = pathOf(named);
    onRead(path);
    return path;
  };
  return {
    readKey: async (path) => readKeyText(read(path), signal),
    // A byte order mark stays, like everything else: the parser of the text decides what it allows.
    readText: async (path, action) =>
      new TextDecoder("utf-8", { ignoreBOM: true }).decode(await readWhole(read(path), { action, signal })),
    has: (path) =>
      access(path).then(
        () => true,
        () => false,
      ),
    finishEdit: (named) => finishEdit(named, environment),
    fileAt: (path, rule) => ownFile(path, rule, { inputs, environment }),
  };
}

function ownFile(path: string, rule: OwnFileRule, { inputs, environment }: DiskOptions): OwnFile {
  const { inputs: kept, links, existing } = rule;
  return {
    checkInputs: () => checkInputsKept(path, inputs(), { inputs: kept }),
    checkReplaceable: () => checkReplaceable(path, links),
    async create() {
      // Checked again, because the files of a model are known by now.
      await checkInputsKept(path, inputs(), { sidecars: "written", inputs: kept });
      return openSink(path, { overwrite: existing === "refused" ? "refuse" : "replace", links });
    },
    patch: (patches) => patchFile(path, patches, environment),
  };
}

/** An edit that a crash interrupted may have left a file that does not open. */
async function finishEdit(named: string, environment: Environment | undefined): Promise<string | undefined> {
  const input = pathOf(named);
  if (input === "-" || /^[a-z][a-z0-9+.-]+:\/\//i.test(input)) return undefined;
  const facts = await stat(input).catch(() => undefined); // opening reports what is missing
  const path = facts?.isDirectory() === true ? await findModelIn(input) : input;
  return (await finishPatch(path, environment)) ? path : undefined;
}

/** A file as a Source. */
export async function fileSource(path: string | URL): Promise<OpenSource> {
  return disposable(await openFile(checkPath("fileSource", "path", path)));
}

/** A Sink that becomes the file when it is committed. Its folder must exist. */
export async function fileSink(
  path: string | URL,
  options: { readonly force?: boolean | undefined } = {},
): Promise<Sink> {
  checkOptions("fileSink", options, { force: switchRule });
  return openSink(checkPath("fileSink", "path", path), { overwrite: options.force === true ? "replace" : "refuse" });
}
