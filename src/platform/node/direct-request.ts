import type { HttpRequest } from "../../bytes/http-transport.ts";

/** The head of a request (RFC 9112 §3, §5). Header names and values were checked for line breaks when they were collected. */
export function requestText({ headers }: HttpRequest, url: URL): string {
  const all = { host: url.host, "user-agent": "tare", ...headers };
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`);
  return `GET ${url.pathname}${url.search} HTTP/1.1\r\n${lines.join("")}\r\n`;
}
