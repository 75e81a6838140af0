import { createReadStream, statSync } from "node:fs";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

/**
 * A plain range server for one file, run by `fork` in a separate process. It sends its port when it listens, and on the
 * message "take" the requests and bytes since the last "take". argv: FILE [milliseconds to wait before each reply].
 */

const [file = "", delay = "0"] = process.argv.slice(2);
const { size, mtime } = statSync(file);
const waitMilliseconds = Number(delay);
let tally = { requests: 0, bytes: 0 };

const server = createServer((request, response) => {
  tally.requests++;
  if (waitMilliseconds > 0) setTimeout(() => answer(request, response), waitMilliseconds);
  else answer(request, response);
});

function answer(request: IncomingMessage, response: ServerResponse): void {
  response.setHeader("Accept-Ranges", "bytes");
  response.setHeader("Content-Type", "application/octet-stream");
  response.setHeader("ETag", `"${size.toString(16)}-${mtime.getTime().toString(16)}"`);
  response.setHeader("Last-Modified", mtime.toUTCString());
  const range = parseRange(request.headers.range);
  if (range === "unsatisfiable") {
    response.writeHead(416, { "Content-Range": `bytes */${size}` }).end();
    return;
  }
  const { first, last } = range ?? { first: 0, last: size - 1 };
  response.setHeader("Content-Length", last - first + 1);
  if (range === undefined) response.writeHead(200);
  else response.writeHead(206, { "Content-Range": `bytes ${first}-${last}/${size}` });
  if (request.method === "HEAD") {
    response.end();
    return;
  }
  const stream = createReadStream(file, { start: first, end: last, highWaterMark: 256 << 10 });
  stream.on("data", (piece) => {
    tally.bytes += piece.length;
  });
  // A client may leave early. That ends the stream and is not an error of the server.
  response.on("close", () => stream.destroy());
  stream.pipe(response);
}

function parseRange(header: string | undefined): { first: number; last: number } | "unsatisfiable" | undefined {
  const match = /^bytes=(\d*)-(\d*)$/.exec(header ?? "");
  if (match === null) return undefined;
  const [, from = "", to = ""] = match;
  const first = from === "" ? Math.max(0, size - Number(to)) : Number(from);
  const last = from === "" || to === "" ? size - 1 : Math.min(Number(to), size - 1);
  return first > last ? "unsatisfiable" : { first, last };
}

process.on("message", (message) => {
  if (message !== "take") return;
  process.send?.(tally);
  tally = { requests: 0, bytes: 0 };
});
process.on("disconnect", () => process.exit(0));
server.listen(0, "127.0.0.1", () => process.send?.((server.address() as AddressInfo).port));
