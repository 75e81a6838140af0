import type { S3Options } from "../../../api/options.ts";
import type { HttpTransport } from "../../../bytes/http/transport.ts";
import { objectUrl } from "../../../bytes/s3/address.ts";
import { isS3Url, parseS3Address } from "../../../bytes/s3/open.ts";
import { S3Session, signedTransport } from "../../../bytes/s3/session.ts";
import type { RemoteAddress } from "../../../operations/pull/remote.ts";
import type { Engine } from "../../../primitives/engine.ts";
import type { Environment } from "../http/proxy-environment.ts";
import { type NodeTransport, nodeTransport } from "../http/transport.ts";
import { storeSettings } from "../s3/client.ts";

export interface PullConnectorOptions {
  readonly engine: Engine;
  readonly environment?: Environment | undefined;
  /** The object store, where the caller names it. */
  readonly s3?: S3Options | undefined;
  /** Sends every request in place of tare's own client. */
  readonly transport?: HttpTransport | undefined;
  /** Connections at the same time. */
  readonly connections: number;
  readonly timeoutMs?: number | undefined;
  /** The headers that may be sent to the server of a URL. */
  readonly headersFor: (url: string) => Promise<Readonly<Record<string, string>>>;
}

/** Connects the URLs of a pull to their servers: http, https and s3 over one set of connections. */
export interface PullConnector {
  /** Requests that were sent. */
  readonly requests: number;
  connect(url: string): Promise<RemoteAddress>;
  close(): Promise<void>;
}

export function pullConnector(options: PullConnectorOptions): PullConnector {
  const { environment, s3, connections, timeoutMs, engine, headersFor } = options;
  const own = options.transport === undefined ? nodeTransport({ environment, connections, timeoutMs }) : undefined;
  const direct = options.transport ?? (own as NodeTransport);
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
      const settings = await storeSettings(environment, s3);
      const session = new S3Session({ ...settings, transport, sha256: (bytes) => engine.digest("sha256", bytes) });
      const signed = signedTransport(session, transport.conditions, address.label);
      return { url: objectUrl(address, session.endpoint), transport: signed, headers: {} };
    },
    close: async () => own?.close(),
  };
}
