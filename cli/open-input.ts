import { SourceError } from "../src/base/errors.ts";
import type { HttpSettings, OpenedTarget } from "../src/platform/node/open-target.ts";
import type { Context } from "./context.ts";
import { collectHeaders } from "./http-headers.ts";

/** Opens a TARGET with everything the global flags say about it. */
export async function openForCommand(context: Context, target: string): Promise<OpenedTarget> {
  const { flags, signal } = context;
  const isUrl = /^https?:\/\//i.test(target);
  if (isUrl && flags.offline === true) {
    throw new SourceError("source/offline", "Cannot open a URL: --offline forbids the network", {
      source: "command line",
    });
  }
  // Loading code takes longer than running it: both at once.
  const [engine, { openTarget }] = await Promise.all([context.engine(), import("../src/platform/node/open-target.ts")]);
  return openTarget(target, {
    engine,
    limits: await context.limits(),
    signal,
    http: isUrl ? await httpSettings(context, target) : undefined,
    maxBufferBytes: flags.memory,
  });
}

async function httpSettings(context: Context, url: string): Promise<HttpSettings> {
  const { timeout, retries, concurrency } = context.flags;
  return { headers: await collectHeaders(context, url), timeoutMs: timeout, retries, connections: concurrency };
}
