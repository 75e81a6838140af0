import { fetchTransport, type HttpTransport } from "../../src/bytes/http-transport.ts";
import { type Meter, withMeter } from "../../src/bytes/metered.ts";
import type { Resolver } from "../../src/bytes/resolver.ts";
import { sourceOf } from "../../src/open-input.ts";
import type { Place } from "./open-targets.ts";
import type { OpenRequest } from "./protocol.ts";

/** Opens an address for reading by ranges; what a model refers to is reached from the same server. */
export async function openUrl(
  request: Extract<OpenRequest, { readonly kind: "url" }>,
  watch: Meter,
  signal: AbortSignal,
): Promise<Place> {
  let requests = 0;
  const { conditions, request: send } = fetchTransport();
  const transport: HttpTransport = {
    conditions,
    request: (exchange) => {
      requests++;
      return send(exchange);
    },
  };
  const http = { transport, allowOrigins: request.allowOrigins };
  const { source, resolver } = await sourceOf(request.url, { http, signal });
  return {
    source: withMeter(source, watch),
    resolver: resolver === undefined ? undefined : watchedResolver(resolver, watch),
    name: resolver?.name,
    place: "remote",
    requests: () => requests,
  };
}

function watchedResolver(resolver: Resolver, watch: Meter): Resolver {
  const { resolveUrl, above } = resolver;
  return {
    name: resolver.name,
    resolve: async (name, options) => withMeter(await resolver.resolve(name, options), watch),
    ...(resolveUrl === undefined
      ? {}
      : { resolveUrl: async (url, options) => withMeter(await resolveUrl.call(resolver, url, options), watch) }),
    ...(above === undefined ? {} : { above: watchedResolver(above, watch) }),
  };
}
