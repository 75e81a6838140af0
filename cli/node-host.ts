import type { CommonOptions, WriteOptions } from "../src/api/options.ts";
import { printable } from "../src/base/text.ts";
import type { NodeHost } from "../src/platform/node/host.ts";
import { type Context, doubtLine } from "./context.ts";
import { collectHeaders } from "./flags/values.ts";
import { commandHost, readOptions } from "./host.ts";
import { targetOptions } from "./targets/inputs.ts";
import { s3ClientFor } from "./targets/outputs.ts";

/** What a command does for a verb that exists only in Node. */
export async function nodeCommandHost(context: Context): Promise<NodeHost> {
  const { abortAllSinks } = await import("../src/platform/node/files/sink.ts");
  context.onExit(abortAllSinks);
  return {
    ...commandHost(context),
    get inputs() {
      return context.inputs;
    },
    s3: () => s3ClientFor(context),
    async opening(text) {
      const { options } = await targetOptions(context, text);
      return { options, close: async () => undefined }; // the cache is closed when the command ends
    },
    warn: (text) => context.warn(`tare: warning: ${printable(text)}`),
    doubt: (finding) => context.warn(doubtLine(finding)),
  };
}

/** Every global flag, as options of a verb that looks up everything by them. `url` is what it reads. */
export async function nodeReadOptions(context: Context, url = ""): Promise<CommonOptions> {
  const { flags, env } = context;
  return {
    ...(await readOptions(context)),
    env,
    timeout: flags.timeout,
    retries: flags.retries,
    memory: flags.memory,
    allowOrigin: flags["allow-origin"],
    offline: flags.offline,
    headers: /^https?:\/\//i.test(url) ? await collectHeaders(context, url) : undefined,
  };
}

/** The same for a verb that writes. */
export async function nodeWriteOptions(context: Context, url?: string): Promise<WriteOptions> {
  const { force, "dry-run": dryRun } = context.flags;
  return { ...(await nodeReadOptions(context, url)), force, dryRun };
}
