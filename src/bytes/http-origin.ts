import { SourceError, UsageError } from "../base/errors.ts";
import { parseHttpUrl } from "./http-url.ts";

/** Which servers a file may refer to beside its own: origins, as `parseOrigin` gives them. */
export type AllowedOrigins = ReadonlySet<string>;

/** The origin of what `--allow-origin` got: scheme, host and port; a path is not looked at. */
export function parseOrigin(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url?.protocol === "http:" || url?.protocol === "https:") return url.origin;
  const message = "Cannot allow an origin: must be a URL that begins with http:// or https://";
  throw new UsageError("usage/allow-origin", message, { source: "--allow-origin" });
}

/**
 * Refuses an address that a file names unless it is on the file's own server or on one that was allowed. Scheme and
 * port belong to the server: http is not https. `own` is undefined for a local file, which has no server.
 */
export function checkOrigin(
  url: string,
  {
    label,
    own,
    allowed,
  }: { readonly label: string; readonly own: string | undefined; readonly allowed: AllowedOrigins },
): void {
  parseHttpUrl(url);
  const { origin } = new URL(url);
  if (origin === own || allowed.has(origin)) return;
  const where = own === undefined ? "the network, and it is a local file" : `another server than its own, "${own}"`;
  throw new SourceError(
    "source/resolver.origin",
    `Cannot open a file that "${label}" refers to: it leads to ${where}`,
    { source: label },
    { hint: `If you trust it, add: --allow-origin ${origin}` },
  );
}
