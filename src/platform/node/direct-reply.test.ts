import { describe, expect, it } from "vitest";
import { parseReplyHead } from "./direct-reply.ts";

describe("parseReplyHead()", () => {
  it("reads a plain reply", () => {
    const head = parseReplyHead(
      'HTTP/1.1 206 Partial Content\r\nContent-Length: 12\r\nETag: "a"\r\nX:\r\nConnection: Close',
    );
    expect(head).toMatchObject({ status: 206, byteLength: 12, connection: "close" });
    expect(head?.headers.get("etag")).toBe('"a"');
    expect(parseReplyHead("HTTP/1.1 304 Not Modified\r\nETag: x")?.byteLength).toBe(0);
    expect(parseReplyHead("HTTP/1.1 404\r\nContent-Length: 0")?.connection).toBe("keep");
  });

  it.each([
    ["a redirect", "HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: /x"],
    ["an interim reply", "HTTP/1.1 100 Continue"],
    ["HTTP/1.0", "HTTP/1.0 200 OK\r\nContent-Length: 1"],
    ["a chunked body", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked"],
    ["both lengths", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 3"],
    ["no length", "HTTP/1.1 200 OK\r\nETag: x"],
    ["two lengths", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4"],
    ["a length that is no number", "HTTP/1.1 200 OK\r\nContent-Length: +3"],
    ["a folded line", "HTTP/1.1 200 OK\r\nX: a\r\n b\r\nContent-Length: 3"],
    ["a space before the colon", "HTTP/1.1 200 OK\r\nContent-Length : 3"],
    ["a bare line feed", "HTTP/1.1 200 OK\nContent-Length: 3"],
    ["something else", "ICY 200 OK\r\nContent-Length: 3"],
  ])("leaves %s to others", (_, text) => {
    expect(parseReplyHead(text)).toBeUndefined();
  });
});
