import type { HttpTransport } from "../../src/bytes/http/transport.ts";
import { type Meter, withMeter } from "../../src/bytes/layers/base.ts";
import type { ResolveOptions } from "../../src/bytes/resolver.ts";
import type { Source } from "../../src/bytes/source.ts";
import { explain, openingBytesFor } from "../../src/formats/registry.ts";
import type { OpenRequest } from "../shared/protocol.ts";
import type { Place } from "./open-targets.ts";

/** Opens an address for reading by ranges. Files that a model refers to are reached on the same server. */
export async function openUrl(
  request: Extract<OpenRequest, { readonly kind: "url" }>,
  watch: Meter,
  signal: AbortSignal,
): Promise<Place> {
  // Local files need none of this.
  const { fetchTransport, httpResolver, openHttp, parseOrigin } = await import("../../src/bytes/http/index.ts");
  const { noticingRedirects } = await import("../pages/redirects.ts");
  let requests = 0;
  const { conditions, request: send } = fetchTransport();
  const transport: HttpTransport = noticingRedirects({
    conditions,
    request: (exchange) => {
      requests++;
      return send(exchange);
    },
  });
  const open = async (url: string, { pinned }: ResolveOptions = {}): Promise<Source> => {
    const headBytes = openingBytesFor(new URL(url).pathname);
    return withMeter(await openHttp(url, { transport, headBytes, pinned, signal }), watch);
  };
  // The page of a file on the hub means the file.
  const isPage = request.url.includes("/blob/");
  const url = isPage ? (await explain()).hubFileAddress(request.url, {}) : request.url;
  const source = await open(url);
  const allowedOrigins = new Set((request.allowOrigins ?? []).map(parseOrigin));
  const resolver = httpResolver(url, open, { allowedOrigins });
  return { source, resolver, name: resolver.name, place: "remote", requests: () => requests };
}
