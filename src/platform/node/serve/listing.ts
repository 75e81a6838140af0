import { createHash } from "node:crypto";
import type { IncomingHttpHeaders } from "node:http";
import { encodeUtf8, printable } from "../../../base/text.ts";
import { encodePath, type RequestPath } from "./paths.ts";
import { type Reply, textReply } from "./reply.ts";
import type { ListedEntry, ServedFolder, ServedTree } from "./trees/tree.ts";
import { viewerPage } from "./viewer-files.ts";

export interface FolderRequest {
  readonly folder: ServedFolder;
  readonly path: Extract<RequestPath, { readonly kind: "path" }>;
  readonly headers: IncomingHttpHeaders;
  readonly site: Site;
}

/** The server around a listing. */
export interface Site {
  /** The server's own address, for the commands to copy if the request does not say how it got here. */
  readonly origin: string;
  /** Names before those of the tree in every address: the secret of a server that has one. */
  readonly base: readonly string[];
  readonly front: ServedTree["front"];
}

/**
 * The viewer for the served folder itself, the listing for any other folder, as a page or as JSON. An index.html is a
 * plain file.
 */
export async function folderReply({ folder, path, headers, site }: FolderRequest): Promise<Reply> {
  const { base, front } = site;
  if (path.form === "file") {
    // Links on a page are relative to its last slash. The names are encoded again, so that they cannot name another
    // host.
    return textReply(301, "This is a folder", { location: encodePath([...base, ...path.segments], "folder") });
  }
  const { entries, omitted } = await folder.list();
  const listing: Listing = { segments: path.segments, entries: [...entries].sort(compareEntries), omitted };
  const common = { "cache-control": "no-cache", vary: "Accept, Host" };
  if (wantsJson(headers.accept)) {
    const body = encodeUtf8(`${JSON.stringify(describeListing(listing, base))}\n`);
    return { status: 200, headers: { ...common, "content-type": "application/json" }, body };
  }
  const viewer = path.segments.length === 0 && front === "viewer" ? await viewerPage("listing") : undefined;
  if (viewer !== undefined) return { ...viewer, headers: { ...viewer.headers, ...common } };
  const { html, policy } = renderListingPage(listing, { ...site, origin: originOf(headers.host) ?? site.origin });
  return {
    status: 200,
    headers: { ...common, "content-type": "text/html; charset=utf-8", "content-security-policy": policy },
    body: encodeUtf8(html),
  };
}

function describeListing({ segments, entries, omitted }: Listing, base: readonly string[]): unknown {
  const names = [...base, ...segments];
  const listed = entries.map((entry) => {
    const isFolder = entry.type === "directory";
    return { ...entry, path: encodePath([...names, entry.name], isFolder ? "folder" : "file") };
  });
  return { path: encodePath(names, "folder"), entries: listed, omitted };
}

/** JSON only for clients that name it and do not name HTML: browsers and curl get the page. */
function wantsJson(accept: string | undefined): boolean {
  return accept !== undefined && /\bapplication\/json\b/i.test(accept) && !/\btext\/html\b/i.test(accept);
}

/** The name that the client uses for this server; undefined if the header holds anything but a host. */
function originOf(host: string | undefined): string | undefined {
  return host !== undefined && /^(?:[a-z0-9.-]{1,253}|\[[0-9a-f:.]{2,45}\])(?::\d{1,5})?$/i.test(host)
    ? `http://${host}`
    : undefined;
}

/** The entries of a served folder. It never shows more than requests for the single entries would. */
export interface Listing {
  readonly segments: readonly string[];
  /** Folders first, then by name. */
  readonly entries: readonly ListedEntry[];
  /** Names left out because there are too many for a page. */
  readonly omitted: number;
}

let collator: Intl.Collator | undefined;

function compareEntries(a: ListedEntry, b: ListedEntry): number {
  if (a.type !== b.type) return a.type === "directory" ? -1 : 1;
  // Created on first use: it would add 8 ms to the import of the library.
  collator ??= new Intl.Collator("en", { numeric: true });
  return collator.compare(a.name, b.name) || (a.name < b.name ? -1 : 1);
}

const STYLE = `
:root { color-scheme: light dark; --ink: #1c2024; --soft: #60646c; --line: #d9d9e0; --paper: #fff; --code: #f3f4f6; --link: #0b5cad; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #edeef0; --soft: #a5abb5; --line: #363a3f; --paper: #111315; --code: #1d2023; --link: #7cb8ff; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 72rem; padding: 2rem 1.25rem 3rem; background: var(--paper); color: var(--ink);
  font: 1rem/1.5 system-ui, sans-serif; }
h1 { margin: 0 0 .25rem; font-size: 1.4rem; font-weight: 600; overflow-wrap: anywhere; }
p { margin: 0 0 1.5rem; color: var(--soft); }
a { color: var(--link); text-decoration: none; overflow-wrap: anywhere; }
a:hover, a:focus-visible { text-decoration: underline; }
table { width: 100%; border-collapse: collapse; }
th { padding: .4rem .75rem .4rem 0; text-align: left; font-size: .85rem; font-weight: 600; color: var(--soft); }
tbody th { min-width: 13rem; font-size: 1rem; font-weight: 500; }
th, td { border-bottom: 1px solid var(--line); vertical-align: baseline; }
td { padding: .5rem .75rem .5rem 0; }
.number { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
.soft { color: var(--soft); white-space: nowrap; }
code { display: block; padding: .2rem .5rem; border-radius: .3rem; background: var(--code); overflow-wrap: anywhere;
  font: .82rem/1.5 ui-monospace, monospace; user-select: all; }
.hidden { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
@media (max-width: 44rem) {
  thead { position: absolute; clip-path: inset(50%); }
  table, tbody, tr, th, td { display: block; border: 0; padding: 0; text-align: left; }
  tr { padding: .75rem 0; border-bottom: 1px solid var(--line); }
  td.number, td.soft { display: inline-block; margin-right: 1rem; font-size: .9rem; color: var(--soft); }
  td:empty { display: none; }
}
`;

export interface Page {
  readonly html: string;
  /** Content-Security-Policy: the page's own style, and nothing else. */
  readonly policy: string;
}

/** The page of a folder. The root of a folder on disk has the viewer; `origin` is the address of the request. */
export function renderListingPage(listing: Listing, site: Site): Page {
  const { segments, entries } = listing;
  const title = segments.length === 0 ? "Files" : escapeHtml(segments.map(printable).join(" / "));
  const html = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${title} · tare</title>
<style>${STYLE}</style>
</head>
<body>
<main>
<h1>${title}</h1>
<p>${summarize(listing)}</p>
<table>
<caption class="hidden">Files in this folder</caption>
<thead><tr><th scope="col">Name</th><th scope="col" class="number">Size</th><th scope="col">Format</th><th scope="col">Changed</th><th scope="col">On the command line</th></tr></thead>
<tbody>
${segments.length === 0 ? "" : renderParent([...site.base, ...segments])}${entries.map((entry) => renderEntry(entry, segments, site)).join("\n")}
</tbody>
</table>
</main>
</body>
</html>
`;
  const hash = createHash("sha256").update(STYLE).digest("base64");
  return { html, policy: `default-src 'none'; style-src 'sha256-${hash}'; base-uri 'none'; form-action 'none'` };
}

function summarize({ entries, omitted }: Listing): string {
  if (entries.length === 0) return "Nothing to show here.";
  const bytes = entries.reduce((sum, { size = 0 }) => sum + size, 0);
  const count = entries.length === 1 ? "1 entry" : `${entries.length} entries`;
  const rest = omitted === 0 ? "" : `; ${omitted} more are not shown`;
  return `${count}, ${formatSize(bytes)}${rest}. A click on a command marks it for copying.`;
}

function renderParent(names: readonly string[]): string {
  const href = encodePath(names.slice(0, -1), "folder");
  return `<tr><th scope="row"><a href="${href}">Up one folder</a></th><td></td><td></td><td></td><td></td></tr>\n`;
}

function renderEntry(entry: ListedEntry, segments: readonly string[], { base, origin, front }: Site): string {
  const isFolder = entry.type === "directory";
  const path = encodePath([...base, ...segments, entry.name], isFolder ? "folder" : "file");
  const name = escapeHtml(printable(entry.name)) + (isFolder ? "/" : "");
  const size = entry.size === undefined ? "" : `<span title="${entry.size} bytes">${formatSize(entry.size)}</span>`;
  const command = isFolder ? "" : `<code>${escapeHtml(commandFor(entry, origin + path))}</code>`;
  // Files of a known format open in the viewer, if there is one; everything else links to the file itself.
  const opens = entry.format !== undefined && !isFolder && front === "viewer";
  const target = opens ? `/#url=${path}` : path;
  const cells = [
    `<th scope="row"><a href="${target}">${name}</a></th>`,
    `<td class="number">${size}</td>`,
    `<td class="soft">${isFolder ? "folder" : escapeHtml(entry.format ?? "")}</td>`,
    `<td class="soft"><time datetime="${entry.modified}">${entry.modified.slice(0, 16).replace("T", " ")}</time></td>`,
    `<td>${command}</td>`,
  ];
  return `<tr>${cells.join("")}</tr>`;
}

/** The command that a user would likely run next with such a file. */
function commandFor({ format }: ListedEntry, url: string): string {
  // The brackets of an IPv6 address mean something to a shell.
  const word = url.includes("[") ? `'${url}'` : url;
  return format === undefined ? `tare pull ${word} -o .` : `tare inspect ${word}`;
}

const UNITS = ["B", "kB", "MB", "GB", "TB", "PB"];

/** Three digits and decimal units, as the command line shows sizes. */
function formatSize(byteLength: number): string {
  let value = byteLength;
  let unit = 0;
  while (value >= 999.5 && unit < UNITS.length - 1) {
    value /= 1000;
    unit++;
  }
  const digits = unit === 0 || value >= 100 ? 0 : value >= 10 ? 1 : 2;
  return `${value.toFixed(digits)} ${UNITS[unit]}`;
}

function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}
