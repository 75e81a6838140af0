import { SourceError } from "../src/base/errors.ts";
import type { S3Client } from "../src/bytes/s3/open.ts";
import type { Context } from "./context.ts";

/** Parts are sent whole, and a slow line needs minutes for one: silence counts only after this. */
const WRITE_TIMEOUT_MS = 300_000;

/** A client that writes, for the store that the environment names, with what the global flags say. */
export async function s3ClientFor(context: Context): Promise<S3Client> {
  const { flags, env } = context;
  if (flags.offline === true) {
    throw new SourceError("source/offline", "Cannot reach object storage: --offline forbids the network", {
      source: "command line",
    });
  }
  const { nodeS3Client } = await import("../src/platform/node/s3-client.ts");
  return nodeS3Client({
    engine: await context.engine(),
    environment: env,
    timeoutMs: flags.timeout ?? WRITE_TIMEOUT_MS,
    retries: flags.retries,
    connections: flags.concurrency,
  });
}
