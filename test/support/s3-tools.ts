import { createHash } from "node:crypto";
import { onTestFinished } from "vitest";
import type { Bytes } from "../../src/base/bytes.ts";
import { parseS3Address } from "../../src/bytes/s3/address.ts";
import { S3Client, type S3ClientOptions } from "../../src/bytes/s3/client.ts";
import { nodeTransport } from "../../src/platform/node/http/transport.ts";
import { KEY, type S3Server, type S3ServerOptions, startS3Server } from "./s3-server.ts";

/** The object that most tests are about. */
export const MODEL = parseS3Address("s3://models/folder/a model+.bin");

export interface StartedStore {
  readonly server: S3Server;
  readonly client: S3Client;
  /** Milliseconds that were to be waited before retries. */
  readonly waits: number[];
  close(): Promise<void>;
}

/** A store on loopback and a client that knows its key; waits are written down, not waited for. */
export async function startStore(
  options: S3ServerOptions = {},
  clientOptions: Partial<S3ClientOptions> = {},
): Promise<StartedStore> {
  const server = await startS3Server(options);
  const waits: number[] = [];
  const transport = nodeTransport({ environment: {} });
  const sleep = async (milliseconds: number): Promise<void> => void waits.push(milliseconds);
  const client = new S3Client({
    endpoint: { url: server.endpoint, region: "us-east-1", addressing: "path" },
    credentials: KEY,
    transport,
    sha256: async (bytes) => new Uint8Array(createHash("sha256").update(bytes).digest()),
    retry: { sleep, random: () => 0 },
    ...clientOptions,
  });
  const close = async (): Promise<void> => {
    await transport.close();
    await server.close();
  };
  return { server, client, waits, close };
}

/** As `startStore`, taken down when the test ends. */
export async function startTestStore(
  options: S3ServerOptions = {},
  clientOptions: Partial<S3ClientOptions> = {},
): Promise<StartedStore> {
  const store = await startStore(options, clientOptions);
  onTestFinished(() => store.close());
  return store;
}

/** Puts an object in place behind the protocol's back. */
export function seed(server: S3Server, key: string, bytes: Bytes): void {
  const etag = `"${createHash("md5").update(bytes).digest("hex")}"`;
  server.objects.set(key, { bytes: Buffer.from(bytes), etag, metadata: {} });
}
