import type { IncomingHttpHeaders } from "node:http";
import { encodeUtf8 } from "../../../base/text.ts";
import { type Listing, readListing } from "./listing.ts";
import { renderListingPage } from "./listing-page.ts";
import { type Reply, textReply } from "./reply.ts";
import { encodePath, type RequestPath } from "./request-path.ts";
import { viewerPage } from "./viewer-files.ts";

export interface FolderRequest {
  /** Real path. */
  readonly root: string;
  readonly path: Extract<RequestPath, { readonly kind: "path" }>;
  readonly headers: IncomingHttpHeaders;
  /** The server's own address, for commands to copy where the request does not say how it got here. */
  readonly origin: string;
}

/** The viewer for the served folder itself; the listing of any other, as a page or as JSON. An index.html is a file like any other. */
export async function folderReply({ root, path, headers, origin }: FolderRequest): Promise<Reply> {
  if (path.form === "file") {
    // Links of a page count from its last slash. The names are encoded again: no other host can come of them.
    return textReply(301, "This is a folder", { location: encodePath(path.segments, "folder") });
  }
  const listing = await readListing(root, path.segments);
  const common = { "cache-control": "no-cache", vary: "Accept, Host" };
  if (wantsJson(headers.accept)) {
    const body = encodeUtf8(`${JSON.stringify(describeListing(listing))}\n`);
    return { status: 200, headers: { ...common, "content-type": "application/json" }, body };
  }
  const viewer = path.segments.length === 0 ? await viewerPage("listing") : undefined;
  if (viewer !== undefined) return { ...viewer, headers: { ...viewer.headers, ...common } };
  const { html, policy } = renderListingPage(listing, originOf(headers.host) ?? origin);
  return {
    status: 200,
    headers: { ...common, "content-type": "text/html; charset=utf-8", "content-security-policy": policy },
    body: encodeUtf8(html),
  };
}

function describeListing({ segments, entries, omitted }: Listing): unknown {
  const listed = entries.map((entry) => {
    const isFolder = entry.type === "directory";
    return { ...entry, path: encodePath([...segments, entry.name], isFolder ? "folder" : "file") };
  });
  return { path: encodePath(segments, "folder"), entries: listed, omitted };
}

/** JSON only for those who name it and no HTML: browsers and curl get the page. */
function wantsJson(accept: string | undefined): boolean {
  return accept !== undefined && /\bapplication\/json\b/i.test(accept) && !/\btext\/html\b/i.test(accept);
}

/** How the client calls this server; undefined where the header holds anything else than a host. */
function originOf(host: string | undefined): string | undefined {
  return host !== undefined && /^(?:[a-z0-9.-]{1,253}|\[[0-9a-f:.]{2,45}\])(?::\d{1,5})?$/i.test(host)
    ? `http://${host}`
    : undefined;
}
