import { once } from "node:events";
import type { IncomingMessage, OutgoingHttpHeaders, ServerResponse } from "node:http";
import type { Source } from "../../../bytes/source.ts";
import { judgeRange } from "./byte-ranges.ts";

/**
 * Sends a Source, or the one range of it that was asked for; several ranges at once are answered with the whole, as RFC 9110
 * §14.2 allows. `tag` names this very content: sources do not change.
 */
export async function sendSource(
  request: IncomingMessage,
  response: ServerResponse,
  { source, tag, headers }: { readonly source: Source; readonly tag: string; readonly headers: OutgoingHttpHeaders },
): Promise<void> {
  const { byteLength } = source;
  const common = { ...headers, "accept-ranges": "bytes", etag: `"${tag}"`, "cache-control": "no-store" };
  const asked = request.method === "GET" ? request.headers.range : undefined;
  const verdict = asked === undefined ? { kind: "whole" as const } : judgeRange(asked, byteLength);
  if (verdict.kind === "unsatisfiable") {
    response.writeHead(416, { ...common, "content-range": `bytes */${byteLength}`, "content-length": "0" }).end();
    return;
  }
  const [range] = verdict.kind === "ranges" && verdict.ranges.length === 1 ? verdict.ranges : [];
  const first = range?.first ?? 0;
  const length = range === undefined ? byteLength : range.last - range.first + 1;
  const described = range === undefined ? {} : { "content-range": `bytes ${first}-${range.last}/${byteLength}` };
  response.writeHead(range === undefined ? 200 : 206, { ...common, ...described, "content-length": String(length) });
  if (request.method === "HEAD" || length === 0) {
    response.end();
    return;
  }
  const gone = new AbortController();
  response.once("close", () => gone.abort());
  for await (const piece of source.stream(first, { byteLength: length, signal: gone.signal })) {
    // The piece is only lent until the next one; the socket may keep what it was given for longer.
    if (!response.write(Buffer.from(piece))) await once(response, "drain", { signal: gone.signal });
  }
  response.end();
}
