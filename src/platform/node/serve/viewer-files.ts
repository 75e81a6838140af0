import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { extname } from "node:path";
import { fileURLToPath } from "node:url";
import { encodeUtf8 } from "../../../base/text.ts";
import type { Reply } from "./reply.ts";

/** Where the viewer's scripts are on a server of files: hidden names are never handed out, so nothing of a folder is in the way. */
const PREFIX = "/.tare/";

/** From what is bundled, the command line and the library, and from the sources. */
const PLACES = ["../viewer/", "../../../../dist/viewer/"] as const;

const TYPES: Readonly<Record<string, string>> = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".svg": "image/svg+xml",
};

/**
 * The same as the page says of itself, and that nobody may frame it. The page narrows `connect-src` further, to the address
 * that its link names, before anything else runs.
 */
const POLICY =
  "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; img-src 'self' blob:; worker-src 'self' blob:; connect-src http: https:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/** The file of the viewer that a request names; undefined where it names something else. */
export function viewerFileOf(target: string): string | undefined {
  const [path = ""] = target.split(/[?#]/, 1);
  return path.startsWith(PREFIX) ? path.slice(PREFIX.length) : undefined;
}

/** A file of the viewer; undefined where there is none of that name, or no viewer was built. */
export async function viewerReply(name: string): Promise<Reply | undefined> {
  const folder = viewerFolder();
  const type = TYPES[extname(name)];
  // Names of a build have no separators: nothing else can be reached.
  if (folder === undefined || type === undefined || !/^[\w-]+(?:\.[\w-]+)+$/.test(name)) return undefined;
  const body = await readFile(folder + name).catch(() => undefined);
  if (body === undefined) return undefined;
  const headers = { "content-type": type, "cache-control": "no-cache", "content-security-policy": POLICY };
  return { status: 200, headers, body: new Uint8Array(body) };
}

/** The viewer's page: "listing" where its server also lists files, and its scripts are under the hidden name. */
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

function viewerFolder(): string | undefined {
  found ??= PLACES.map((place) => fileURLToPath(new URL(place, import.meta.url))).find((folder) => {
    return existsSync(`${folder}index.html`);
  });
  return found;
}
