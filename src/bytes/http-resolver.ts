import { type AllowedOrigins, checkOrigin } from "./http-origin.ts";
import { parseHttpUrl } from "./http-url.ts";
import { checkRelativeName, escapeError } from "./relative-name.ts";
import { isFolderOfKind, type ResolveOptions, type Resolver } from "./resolver.ts";
import type { Source } from "./source.ts";

/** Opens a URL that the resolver has approved, with whatever credentials its own origin is entitled to. */
export type OpenUrl = (url: string, options: ResolveOptions) => Promise<Source>;

export interface HttpResolverOptions {
  /** Servers that full addresses may lead to beside the file's own; none where absent. */
  readonly allowedOrigins?: AllowedOrigins | undefined;
}

/** Spellings by which a server could be made to see a separator or a dot segment that we did not. */
const ENCODED = /%(2e|2f|5c|00)/i;

/**
 * Resolver for the siblings of a file on a web server: same origin, same folder or below it. The query string
 * of the file is kept, since that is where signatures and revisions stand. Full addresses stay on the same origin unless
 * another one was allowed, and are opened as they stand.
 */
export function httpResolver(url: string, open: OpenUrl, options: HttpResolverOptions = {}): Resolver {
  const { label } = parseHttpUrl(url);
  const base = new URL(url);
  const folder = base.pathname.slice(0, base.pathname.lastIndexOf("/") + 1);
  const outer = new URL(base);
  outer.pathname = folder.slice(0, -1);
  return {
    name: decodeName(base.pathname.slice(folder.length)),
    above: isFolderOfKind(outer.pathname.split("/").at(-1) ?? "") ? httpResolver(outer.href, open, options) : undefined,
    async resolve(name: string, resolveOptions: ResolveOptions = {}): Promise<Source> {
      const at = { source: label };
      checkRelativeName(name, at);
      if (ENCODED.test(name)) throw escapeError(name, "it contains an encoded separator or dot", at);
      const path = name.split("/").map(encodeURIComponent).join("/");
      const sibling = new URL(base);
      sibling.hash = "";
      sibling.pathname = folder + path;
      // What the URL parser makes of it must be exactly what was built.
      if (sibling.pathname !== folder + path) throw escapeError(name, "it does not stay in its folder", at);
      return open(sibling.href, { ...resolveOptions, namedBy: url });
    },
    async resolveUrl(address: string, resolveOptions: ResolveOptions = {}): Promise<Source> {
      const judge = (target: string): void =>
        checkOrigin(target, { label, own: base.origin, allowed: options.allowedOrigins ?? new Set() });
      judge(address);
      return open(address, { ...resolveOptions, namedBy: url, onRedirect: judge });
    },
  };
}

function decodeName(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment; // not UTF-8 behind the percent signs: shown as it stands
  }
}
