import type { HttpTransport } from "../../src/bytes/http/transport.ts";
import { type Meter, withMeter } from "../../src/bytes/layers/base.ts";
import type { ResolveOptions } from "../../src/bytes/resolver.ts";
import type { Source } from "../../src/bytes/source.ts";
import { openingBytesFor } from "../../src/formats/registry.ts";
import type { OpenRequest } from "../shared/protocol.ts";
import type { Place } from "./open-targets.ts";

/** Opens an address for reading by ranges; what a model refers to is reached from the same server. */
export async function openUrl(
  request: Extract<OpenRequest, { readonly kind: "url" }>,
  watch: Meter,
  signal: AbortSignal,
): Promise<Place> {
  // Files on this machine need none of it.
  const { fetchTransport, httpResolver, openHttp, parseOrigin } = await import("../../src/bytes/http/index.ts");
  let requests = 0;
  const { conditions, request: send } = fetchTransport();
  const transport: HttpTransport = {
    conditions,
    request: (exchange) => {
      requests++;
      return send(exchange);
    },
  };
  const open = async (url: string, { pinned }: ResolveOptions = {}): Promise<Source> => {
    const headBytes = openingBytesFor(new URL(url).pathname);
    return withMeter(await openHttp(url, { transport, headBytes, pinned, signal }), watch);
  };
  const source = await open(request.url);
  const allowedOrigins = new Set((request.allowOrigins ?? []).map(parseOrigin));
  const resolver = httpResolver(request.url, open, { allowedOrigins });
  return { source, resolver, name: resolver.name, place: "remote", requests: () => requests };
}
