import { parseOrigin } from "../../src/bytes/http-origin.ts";
import { httpResolver } from "../../src/bytes/http-resolver.ts";
import { type Meter, withMeter } from "../../src/bytes/metered.ts";
import type { ResolveOptions } from "../../src/bytes/resolver.ts";
import type { Source } from "../../src/bytes/source.ts";
import { openingBytesFor } from "../../src/formats/registry.ts";
import { type Contact, openByFirstRanges } from "./first-ranges.ts";
import type { Addresses } from "./open-address.ts";
import type { Place } from "./open-targets.ts";
import type { OpenRequest } from "./protocol.ts";

/** Opens an address for reading by ranges; what a model refers to is reached from the same server. */
export async function openUrl(
  request: Extract<OpenRequest, { readonly kind: "url" }>,
  watch: Meter,
  signal: AbortSignal,
): Promise<Place> {
  let requests = 0;
  const onRequest = (): void => {
    requests++;
  };
  let loading: Promise<Addresses> | undefined;
  const load = (): Promise<Addresses> => {
    loading ??= import("./open-address.ts").then(({ addresses }) => addresses(onRequest));
    return loading;
  };
  const headBytesOf = (url: string): number => openingBytesFor(new URL(url).pathname);
  const contact: Contact = {
    send(url, range, stop) {
      onRequest();
      // As the library asks: caches that piece ranges together are one more place where two versions could mix.
      return fetch(url, { headers: { range }, signal: stop, cache: "no-store" });
    },
    open: async (url, pinned, stop) => (await load()).open(url, { headBytes: headBytesOf(url), pinned, signal: stop }),
    goOn: async (url, facts) => (await load()).goOn(url, facts),
  };
  const open = async (url: string, { pinned }: ResolveOptions = {}): Promise<Source> =>
    withMeter(await openByFirstRanges(url, headBytesOf(url), contact, { pinned, signal }), watch);
  const source = await open(request.url);
  const allowedOrigins = new Set((request.allowOrigins ?? []).map(parseOrigin));
  const resolver = httpResolver(request.url, open, { allowedOrigins });
  return { source, resolver, name: resolver.name, place: "remote", requests: () => requests };
}
