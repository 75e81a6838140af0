import { continueHttp, fetchTransport, type HttpTransport, openHttp } from "../../src/bytes/http.ts";
import type { PinnedFile } from "../../src/bytes/resolver.ts";
import type { Source } from "../../src/bytes/source.ts";
import type { FileFacts } from "./first-ranges.ts";

/** All that the library does about addresses: repeats, hedges, merges and cuts requests, and explains what went wrong. */
export interface Addresses {
  open(url: string, options: AddressOptions): Promise<Source>;
  /** Goes on with a file whose first ranges were read elsewhere. */
  goOn(url: string, facts: FileFacts): Source;
}

export interface AddressOptions {
  readonly headBytes: number;
  readonly pinned: PinnedFile | undefined;
  readonly signal: AbortSignal | undefined;
}

export function addresses(onRequest: () => void): Addresses {
  const { conditions, request: send } = fetchTransport();
  const transport: HttpTransport = {
    conditions,
    request: (exchange) => {
      onRequest();
      return send(exchange);
    },
  };
  return {
    open: (url, options) => openHttp(url, { transport, ...options }),
    goOn: (url, { byteLength, etag, lastModified }) => {
      const facts = { byteLength, validators: { etag, lastModified }, contentRange: "shown" } as const;
      return continueHttp(url, facts, { transport });
    },
  };
}
