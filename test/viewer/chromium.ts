import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { extname } from "node:path";

/** Where Debian, Ubuntu, Fedora and macOS put it. */
const USUAL = [
  "/usr/bin/chromium",
  "/usr/bin/chromium-browser",
  "/usr/bin/google-chrome",
  "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
];

export const NO_CHROMIUM = "no Chromium: install it (Debian: apt-get install chromium), or name one with TARE_CHROMIUM";

/** Where the build puts the viewer. */
export const VIEWER = new URL("../../dist/viewer", import.meta.url).pathname;

/** The browser that the environment names, or one in a usual place. */
export function findChromium(): string | undefined {
  const named = process.env["TARE_CHROMIUM"];
  return named !== undefined && named !== "" ? named : USUAL.find(existsSync);
}

export interface StaticServer {
  /** With a slash at the end. */
  readonly url: string;
  /** Names of the files that were asked for, in order. */
  readonly served: string[];
  close(): void;
}

const TYPES: Readonly<Record<string, string>> = {
  ".html": "text/html",
  ".js": "text/javascript",
  ".css": "text/css",
  ".svg": "image/svg+xml",
};

/** The viewer, or another folder, on a server as plain as they get: the page must bring its own policy. */
export async function startStatic(folder: string = VIEWER): Promise<StaticServer> {
  const served: string[] = [];
  const server = createServer((request, response) => {
    const [path = "/"] = (request.url ?? "/").split("?");
    const name = path === "/" ? "/index.html" : path;
    served.push(name.slice(1));
    readFile(folder + name).then(
      (body) => response.writeHead(200, { "content-type": TYPES[extname(name)] ?? "text/plain" }).end(body),
      () => response.writeHead(404).end(),
    );
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  const port = typeof address === "object" ? address?.port : undefined;
  return { url: `http://127.0.0.1:${port}/`, served, close: () => server.close() };
}
