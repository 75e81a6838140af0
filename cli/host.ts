import type { VerbHost } from "../src/api/host.ts";
import type { CommonOptions, Progress, WriteOptions } from "../src/api/options.ts";
import { printable } from "../src/base/text.ts";
import type { Source } from "../src/bytes/source.ts";
import { explain, FORMATS } from "../src/formats/registry.ts";
import type { Context } from "./context.ts";
import { commandDestination } from "./targets/destination.ts";
import { overwriteOf } from "./targets/outputs.ts";
import { writeContext } from "./targets/vault-context.ts";

/** What a command does for a verb of the library: opens by the global flags, and writes where the user said. */
export function commandHost(context: Context): VerbHost {
  return {
    engine: () => context.engine(),
    async openText(text, { cutShort }) {
      const opened = await context.open(text, { cutShort });
      // Closed when the command ends, and distrusted by its exit code: what it prints may need the input still.
      return { ...opened, close: async () => undefined, distrust: async () => undefined };
    },
    async readNamed(text, _options, what) {
      const { readNamedPath } = await import("../src/platform/node/files/reads.ts");
      return readNamedPath(text, what, context.signal);
    },
    destinationOf: (text, _options, use) => commandDestination(context, text, use),
    async disk() {
      const [{ localDisk }, { abortAllSinks }] = await Promise.all([
        import("../src/platform/node/disk.ts"),
        import("../src/platform/node/files/sink.ts"),
      ]);
      context.onExit(abortAllSinks);
      return localDisk({ inputs: () => context.inputs, environment: context.env, signal: context.signal });
    },
    formats: FORMATS,
    explain,
    sourceDate: () => context.env["SOURCE_DATE_EPOCH"],
    openBytes: (text) => commandBytes(context, text),
    embedding: {
      runner: async (threads) => (await import("../src/platform/node/verbs/embed.ts")).nodeEmbedding.runner(threads),
      textFiles: async (path, signal) =>
        (await import("../src/platform/node/verbs/embed.ts")).nodeEmbedding.textFiles(path, signal),
      async indexFile(path, signal) {
        const [{ nodeEmbedding }, { abortAllSinks }] = await Promise.all([
          import("../src/platform/node/verbs/embed.ts"),
          import("../src/platform/node/files/sink.ts"),
        ]);
        context.onExit(abortAllSinks);
        return nodeEmbedding.indexFile(path, signal);
      },
    },
    async upgradeVault(old, { label, path, profile, password }) {
      const { targetOf, upgradeVault } = await import("../src/platform/node/vault/index.ts");
      const target = targetOf(path, await writeContext(context), {
        dryRun: context.flags["dry-run"] === true,
        source: "command line",
        onProgress: drawnProgress(context),
      });
      const overwrite = overwriteOf(context);
      return upgradeVault(target, old, { label, profile, overwrite, password: async () => password?.(label) });
    },
    async extractTo(archive, entries, extraction) {
      const { extractToFolder } = await import("../src/platform/node/vault/verbs/extract.ts");
      return extractToFolder(archive, entries, extraction, context.inputs);
    },
    // Only what is known of the place: commands change vaults by their own context.
    async vaultPlace(text, _opened, { engine }) {
      const { localFileOf } = await import("../src/platform/node/targets.ts");
      if ((await localFileOf(text)) !== text) return undefined;
      const { vaultFileFacts } = await import("../src/platform/node/vault/index.ts");
      return { facts: (archive) => vaultFileFacts(archive, text, engine) };
    },
    warn: (text) => context.warn(`tare: warning: ${printable(text)}`),
  };
}

/** A file that is no TARGET, such as a list of texts; "-" is standard input. */
export async function commandBytes({ flags, signal }: Context, text: string): Promise<Source> {
  const options = { signal, maxSpoolBytes: flags.memory };
  const { openFile, openStdin } = await import("../src/platform/node/files/source.ts");
  return text === "-" ? openStdin(options) : openFile(text, options);
}

/** The global flags, as options of a verb that reads. The host opens by the others. */
export async function readOptions(context: Context): Promise<CommonOptions> {
  const { flags, signal } = context;
  return {
    signal,
    concurrency: flags.concurrency,
    limits: await context.limits(),
    onNote: (text) => context.note(`note: ${printable(text)}`),
    onProgress: drawnProgress(context),
  };
}

/** The same for a verb that writes. */
export async function writeOptions(context: Context): Promise<WriteOptions> {
  const { force, "dry-run": dryRun } = context.flags;
  return { ...(await readOptions(context)), force, dryRun };
}

/** Draws what a verb tells. A verb may have several jobs, one after the other. */
export function drawnProgress(context: Context): (progress: Progress) => void {
  let drawn: { readonly label: string; readonly meter: ReturnType<Context["progress"]> } | undefined;
  let shown = 0;
  return ({ label, done, total }) => {
    if (drawn?.label !== label || done < shown) {
      drawn?.meter.end();
      drawn = { label, meter: context.progress({ label, total: total ?? undefined }) };
      shown = 0;
    }
    if (total !== null) drawn.meter.expect(total);
    drawn.meter.add(done - shown);
    shown = done;
  };
}
