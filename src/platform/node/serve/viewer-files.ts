import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { extname, join } from "node:path";
import { encodeUtf8 } from "../../../base/text.ts";
import { builtFolder } from "../own-script.ts";
import type { Reply } from "./reply.ts";

/** Where the viewer's scripts are on a file server. Hidden names are never served, so no file can have this one. */
const PREFIX = "/.tare/";

const TYPES: Readonly<Record<string, string>> = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".svg": "image/svg+xml",
};

/**
 * The same policy as in the page itself, and no page may frame it. The page narrows `connect-src` further, to the
 * address that its link names, before anything else runs.
 */
const POLICY =
  "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; img-src 'self' blob:; worker-src 'self' blob:; connect-src http: https:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/** The file of the viewer that a request names; undefined if it names something else. */
export function viewerFileOf(target: string): string | undefined {
  const [path = ""] = target.split(/[?#]/, 1);
  return path.startsWith(PREFIX) ? path.slice(PREFIX.length) : undefined;
}

/** A file of the viewer; undefined if there is no such file, or if no viewer was built. */
export async function viewerReply(name: string): Promise<Reply | undefined> {
  const folder = viewerFolder();
  const type = TYPES[extname(name)];
  // Names of a build have no separators, so that nothing else can be reached.
  if (folder === undefined || type === undefined || !/^[\w-]+(?:\.[\w-]+)+$/.test(name)) return undefined;
  const body = await readFile(folder + name).catch(() => undefined);
  if (body === undefined) return undefined;
  const headers = { "content-type": type, "cache-control": "no-cache", "content-security-policy": POLICY };
  return { status: 200, headers, body: new Uint8Array(body) };
}

/** The viewer's page: "listing" if its server also lists files and has the scripts under the hidden name. */
export async function viewerPage(at: "listing" | "alone"): Promise<Reply | undefined> {
  const reply = await viewerReply("index.html");
  if (reply === undefined || at === "alone" || !(reply.body instanceof Uint8Array)) return reply;
  const html = new TextDecoder()
    .decode(reply.body)
    .replace("<html ", '<html data-listing="yes" ')
    .replaceAll('="./', `="${PREFIX}`);
  return { ...reply, body: encodeUtf8(html) };
}

let found: string | undefined;

/** Beside the folder of the built code, with a slash at the end. */
function viewerFolder(): string | undefined {
  const built = found === undefined ? builtFolder() : undefined;
  const folder = built === undefined ? undefined : join(built, "../viewer/");
  if (folder !== undefined && existsSync(`${folder}index.html`)) found = folder;
  return found;
}
