import type { HttpTransport } from "../../bytes/http/transport.ts";
import { objectUrl } from "../../bytes/s3/address.ts";
import { isS3Url, parseS3Address } from "../../bytes/s3/open.ts";
import { S3Session, signedTransport } from "../../bytes/s3/session.ts";
import type { RemoteAddress } from "../../operations/pull/remote.ts";
import type { Engine } from "../../primitives/engine.ts";
import { nodeTransport } from "./http-transport.ts";
import type { Environment } from "./proxy-environment.ts";
import { readS3Settings } from "./s3-settings.ts";

export interface PullConnectorOptions {
  readonly engine: Engine;
  readonly environment?: Environment | undefined;
  /** Connections at once. */
  readonly connections: number;
  readonly timeoutMs?: number | undefined;
  /** What may be sent to the server of a URL. */
  readonly headersFor: (url: string) => Promise<Readonly<Record<string, string>>>;
}

/** The way from the URLs of a pull to their servers: http, https and s3 over one set of connections. */
export interface PullConnector {
  /** Requests that were sent. */
  readonly requests: number;
  connect(url: string): Promise<RemoteAddress>;
  close(): Promise<void>;
}

export function pullConnector(options: PullConnectorOptions): PullConnector {
  const { environment, connections, timeoutMs, engine, headersFor } = options;
  const direct = nodeTransport({ environment, connections, timeoutMs });
  let requests = 0;
  const transport: HttpTransport = {
    conditions: direct.conditions,
    request(request) {
      requests++;
      return direct.request(request);
    },
  };
  return {
    get requests() {
      return requests;
    },
    async connect(url) {
      if (!isS3Url(url)) return { url, transport, headers: await headersFor(url) };
      const address = parseS3Address(url);
      const settings = await readS3Settings(environment);
      const session = new S3Session({ ...settings, transport, sha256: (bytes) => engine.digest("sha256", bytes) });
      const signed = signedTransport(session, transport.conditions, address.label);
      return { url: objectUrl(address, session.endpoint), transport: signed, headers: {} };
    },
    close: () => direct.close(),
  };
}
