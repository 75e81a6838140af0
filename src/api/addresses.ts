import { UnsupportedError, UsageError } from "../base/errors.ts";
import { type HttpOptions, httpResolver, openHttp } from "../bytes/http/index.ts";
import { fetchTransport, type HttpTransport } from "../bytes/http/transport.ts";
import { parseOrigin } from "../bytes/http/url.ts";
import { withMeter } from "../bytes/layers/base.ts";
import { type ResolveOptions, type Resolver, splitInnerPaths } from "../bytes/resolver.ts";
import type { Source } from "../bytes/source.ts";
import { openThroughWith } from "../formats/open.ts";
import { openingBytesAmong } from "../formats/recognise.ts";
import type { Format } from "../model/format.ts";
import type { Engine } from "../primitives/engine.ts";
import type { VerbHost } from "./host.ts";
import { type Cost, type InputHost, type OpenedInput, type OpenRequest, openOptionsOf, resolverOf } from "./inputs.ts";
import { durationIn, listOf, sizeIn } from "./options.ts";
import type { Destination, OutputRequest } from "./outputs.ts";

/** What a host without a file system is made of: the formats that it knows, and who computes. */
export interface AddressHostParts {
  readonly formats: readonly Format[];
  readonly explain?: InputHost["explain"];
  engine(): Engine;
}

/** A host that only reads. */
export type ReadingHost = Omit<VerbHost, "destinationOf">;

/** Reading in pages, workers, and in Node without its file system: text is an address. */
export function addressHost({ formats, explain, engine: ownEngine }: AddressHostParts): ReadingHost {
  return {
    formats,
    explain,

    async engine({ engine }) {
      if (engine === "native") throw noNativeEngine();
      return typeof engine === "object" ? engine : ownEngine();
    },

    openText: (text, request) => openAddress(text, { ...request, formats: request.formats ?? formats, explain }),

    async openBytes(text, request) {
      return (await placeOf(text, { ...request, formats: request.formats ?? formats, explain })).source;
    },
  };
}

/** Writing where there are no paths: `s3://` addresses alone. */
export async function addressDestination(text: string, request: OutputRequest): Promise<Destination> {
  if (isObject(text)) return (await import("./object-outputs.ts")).objectDestination(text, request);
  const message = `Cannot write to "${text}": without a file system there are no paths`;
  const hint = 'Pass memory(), a file handle or a stream; paths are written with the same function of "tare/node"';
  throw new UsageError("usage/output", message, { source: text }, { hint });
}

function noNativeEngine(): UnsupportedError {
  const message = "Cannot use the native engine: only the entry for Node has it";
  const hint = 'Import the same function from "tare/node", or leave out the option engine';
  return new UnsupportedError("unsupported/engine.native", message, { source: "options" }, { hint });
}

type AddressRequest = OpenRequest & { readonly formats: readonly Format[] };

/** Where requests are counted, if anybody wants to know. */
export interface Counting {
  readonly cost?: Cost | undefined;
}

/** The bytes at an address, what opens the files beside them, and the paths inside that the address names. */
export interface AddressPlace {
  readonly source: Source;
  readonly resolver: Resolver;
}

async function openAddress(text: string, request: AddressRequest): Promise<OpenedInput> {
  const [, ...inner] = splitInnerPaths(text);
  const cost: Cost = { reads: 0, bytes: 0, requests: 0 };
  const { source, resolver } = await placeOf(text, { ...request, cost });
  const { formats } = request;
  const opened = await openThroughWith(withMeter(source, cost), inner, {
    ...openOptionsOf(request),
    formats,
    resolver,
  });
  const label = opened.container.parts[0]?.label ?? opened.format.id;
  const close = (): Promise<void> => opened.container.close();
  return { ...opened, label, resolver: resolverOf(opened), cost, distrust: close, close };
}

async function placeOf(text: string, request: AddressRequest & Counting): Promise<AddressPlace> {
  const [address = ""] = splitInnerPaths(text);
  if (isObject(address)) return (await import("./objects.ts")).openObject(address, request);
  if (/^https?:\/\//i.test(address)) return openUrl(address, request);
  const message = `Cannot open "${address}": without a file system only http(s) and s3 addresses are text`;
  // A page means a file beside itself; other programs mean a path.
  const isOfPage = "location" in globalThis && !address.includes(":");
  const hint = isOfPage
    ? `Pass new URL(${JSON.stringify(address)}, location.href)`
    : 'Paths open with the same function of "tare/node"';
  throw new UsageError("usage/not-a-url", message, { source: address }, { hint });
}

export function isObject(text: string): boolean {
  return /^s3:\/\//i.test(text);
}

/** The page of a file on the hub means the file. */
async function meantAddress(address: string, { explain, env, onNote }: AddressRequest): Promise<string> {
  const explainer = address.includes("/blob/") ? await explain?.() : undefined;
  return explainer?.hubFileAddress(address, { mirror: env?.["HF_ENDPOINT"], onNote }) ?? address;
}

async function openUrl(address: string, request: AddressRequest & Counting): Promise<AddressPlace> {
  const { headers, allowOrigin, signal, formats } = request;
  const url = await meantAddress(address, request);
  const allowedOrigins = new Set((listOf(allowOrigin) ?? []).map(parseOrigin));
  const settings = httpSettings(request);
  const originOf = (href: string): string | undefined => (URL.canParse(href) ? new URL(href).origin : undefined);
  const origin = originOf(url);
  const open = (href: string, { pinned, namedBy, onRedirect }: ResolveOptions = {}): Promise<Source> => {
    // Headers may be credentials, so send them only to the server that they are meant for.
    const own = originOf(href) === origin ? headers : undefined;
    const headBytes = openingBytesAmong(URL.canParse(href) ? new URL(href).pathname : href, formats);
    return openHttp(href, { headBytes, ...settings, headers: own, pinned, namedBy, onRedirect, signal });
  };
  return { source: await open(url), resolver: httpResolver(url, open, { allowedOrigins }) };
}

/** What the options say about requests, but for headers: those belong to one server. */
export function httpSettings({
  timeout,
  retries,
  memory,
  fetch: send,
  cost,
}: OpenRequest & Counting): Pick<HttpOptions, "timeoutMs" | "maxMemoryBytes" | "retry" | "transport"> {
  const transport = fetchTransport(send);
  return {
    timeoutMs: durationIn(timeout),
    maxMemoryBytes: sizeIn(memory),
    ...(retries === undefined ? {} : { retry: { retries } }),
    transport: cost === undefined ? transport : countedTransport(transport, cost),
  };
}

function countedTransport(transport: HttpTransport, cost: Cost): HttpTransport {
  return {
    conditions: transport.conditions,
    request(request) {
      cost.requests++;
      return transport.request(request);
    },
  };
}
