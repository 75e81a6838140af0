import { S3Client } from "../../bytes/s3/client.ts";
import type { Engine } from "../../primitives/engine.ts";
import { nodeTransport } from "./http-transport.ts";
import type { Environment } from "./proxy-environment.ts";
import { readS3Settings } from "./s3-settings.ts";

export interface NodeS3Options {
  readonly engine: Engine;
  /** Where AWS_* and proxies are looked up: `process.env` where absent. */
  readonly environment?: Environment | undefined;
  readonly timeoutMs?: number | undefined;
  readonly retries?: number | undefined;
  /** Connections at a time. */
  readonly connections?: number | undefined;
  /** Hears of every request that is sent. */
  readonly onRequest?: (() => void) | undefined;
}

/** A client for whatever store the environment and ~/.aws name. Idle connections do not keep the process alive. */
export async function nodeS3Client(options: NodeS3Options): Promise<S3Client> {
  const { engine, environment, timeoutMs, retries, connections, onRequest } = options;
  const settings = await readS3Settings(environment);
  const inner = nodeTransport({ environment, timeoutMs, connections });
  return new S3Client({
    ...settings,
    transport: {
      conditions: inner.conditions,
      request: (request) => {
        onRequest?.();
        return inner.request(request);
      },
      close: () => inner.close(),
    },
    sha256: (bytes) => engine.digest("sha256", bytes),
    ...(retries === undefined ? {} : { retry: { retries } }),
  });
}
