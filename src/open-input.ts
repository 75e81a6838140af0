import type { Bytes } from "./base/bytes.ts";
import { UsageError } from "./base/errors.ts";
import { blobSource } from "./bytes/blob.ts";
import { type HttpOptions, httpResolver, openHttp } from "./bytes/http/index.ts";
import { parseOrigin } from "./bytes/http/url.ts";
import { memorySource } from "./bytes/memory.ts";
import { type ResolveOptions, type Resolver, splitInnerPaths } from "./bytes/resolver.ts";
import type { Source } from "./bytes/source.ts";
import { openingBytesFor } from "./formats/registry.ts";
import type { Container } from "./model/archive.ts";
import type { Model } from "./model/model.ts";
import { type OpenOptions, requireModel } from "./open.ts";
import { type OpenedThrough, openThrough } from "./open-inside.ts";

/** What can be opened everywhere: an http(s) address, one of a vault with `::path/inside` behind it, a File or Blob, bytes, or any Source. */
export type Input = string | URL | Blob | ArrayBuffer | Bytes | Source;

export interface OpenInputOptions extends OpenOptions {
  readonly http?: OpenHttpOptions | undefined;
}

export interface OpenHttpOptions extends Omit<HttpOptions, "signal" | "pinned"> {
  /** Servers, by URL, that files may refer to beside their own. */
  readonly allowOrigins?: readonly string[] | undefined;
}

/** Opens a model or an archive; only its control region is read. Close the result when done. */
export async function open(input: Input, options: OpenInputOptions = {}): Promise<Container> {
  const { container } = await openWithSiblings(input, options);
  return container;
}

/** The same with what reaches the files beside it, for those who need more than the file itself. */
export async function openWithSiblings(input: Input, options: OpenInputOptions = {}): Promise<OpenedThrough> {
  const { source, resolver, inner = [] } = await sourceOf(input, options);
  return openThrough(source, inner, { resolver, ...options });
}

/** Like `open`, for callers that want tensors: an archive is refused. */
export async function openModel(input: Input, options: OpenInputOptions = {}): Promise<Model> {
  return requireModel(await open(input, options));
}

/** Where the bytes of an input are, what reaches its siblings, and which paths inside of it are meant. */
export async function sourceOf(
  input: Input,
  options: OpenInputOptions,
): Promise<{ readonly source: Source; readonly resolver?: Resolver; readonly inner?: readonly string[] }> {
  if (typeof input === "string" || input instanceof URL) {
    const [url = "", ...inner] = splitInnerPaths(String(input));
    if (!/^https?:\/\//i.test(url)) {
      throw new UsageError(
        "usage/not-a-url",
        `Cannot open "${url}": without a file system only http(s) addresses are text`,
        {
          source: url,
        },
        { hint: 'Paths open with: import { open } from "tare/node"' },
      );
    }
    const { allowOrigins = [], headers, ...http } = options.http ?? {};
    const { origin } = new URL(url);
    const address = (href: string, { pinned, namedBy, onRedirect }: ResolveOptions = {}): Promise<Source> => {
      // What may be a credential stays with the server that it was meant for.
      const own = new URL(href).origin === origin ? headers : undefined;
      const headBytes = openingBytesFor(new URL(href).pathname);
      return openHttp(href, { headBytes, ...http, headers: own, pinned, namedBy, onRedirect, signal: options.signal });
    };
    const allowedOrigins = new Set(allowOrigins.map(parseOrigin));
    return { source: await address(url), resolver: httpResolver(url, address, { allowedOrigins }), inner };
  }
  if (input instanceof Blob) return { source: blobSource(input) };
  if (input instanceof ArrayBuffer) return { source: memorySource(new Uint8Array(input)) };
  return { source: input instanceof Uint8Array ? memorySource(input) : input };
}
