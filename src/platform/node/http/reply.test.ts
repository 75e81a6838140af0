import { describe, expect, it } from "vitest";
import { bodyReaderFor, keepsConnection, MalformedReply, parseReplyHead, type ReplyHead, ReplyHeads } from "./reply.ts";

const bytes = (text: string) => new Uint8Array(Buffer.from(text, "latin1"));
const text = (found: Uint8Array) => Buffer.from(found).toString("latin1");
const head = (lines: string): ReplyHead => {
  const found = parseReplyHead(lines);
  if (found === undefined) throw new Error("malformed");
  return found;
};

describe("parseReplyHead()", () => {
  it("reads status, version and headers", () => {
    const found = head('HTTP/1.1 206 Partial Content\r\nContent-Length: 12\r\nETag: "a" \r\nX:\r\nvia: a\r\nVia: b');
    expect([found.status, found.version]).toEqual([206, "1.1"]);
    expect([...found.headers]).toEqual([
      ["content-length", "12"],
      ["etag", '"a"'],
      ["x", ""],
      ["via", "a, b"],
    ]);
    expect(head("HTTP/1.0 404\r\nX: a\r\n  b").headers.get("x")).toBe("a b");
  });

  it.each([
    ["two lengths", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4"],
    ["two targets", "HTTP/1.1 302 Found\r\nLocation: /a\r\nLocation: /b"],
    ["a space before the colon", "HTTP/1.1 200 OK\r\nContent-Length : 3"],
    ["a bare line feed", "HTTP/1.1 200 OK\nContent-Length: 3"],
    ["a bare carriage return", "HTTP/1.1 200 OK\r\nX: a\rb"],
    ["a zero byte", "HTTP/1.1 200 OK\r\nX: a\0b"],
    ["another version", "HTTP/2.0 200 OK"],
    ["something else", "ICY 200 OK\r\nContent-Length: 3"],
    ["no status", "HTTP/1.1 OK"],
  ])("refuses %s", (_, lines) => {
    expect(parseReplyHead(lines)).toBeUndefined();
  });

  it("knows when a connection stays", () => {
    const keeps = (lines: string) => keepsConnection(head(lines));
    expect(keeps("HTTP/1.1 200 OK")).toBe(true);
    expect(keeps("HTTP/1.1 200 OK\r\nConnection: x, Close")).toBe(false);
    expect(keeps("HTTP/1.0 200 OK")).toBe(false);
    expect(keeps("HTTP/1.0 200 OK\r\nConnection: Keep-Alive")).toBe(true);
  });
});

describe("ReplyHeads", () => {
  it("assembles a head no matter where it is cut, and returns its end", () => {
    const whole = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbody";
    for (let cut = 0; cut < whole.length - 4; cut++) {
      const heads = new ReplyHeads();
      expect(heads.add(bytes(whole.slice(0, cut)))).toBeUndefined();
      const rest = bytes(whole.slice(cut));
      const found = heads.add(rest);
      expect(text(rest.subarray(found?.end))).toBe("body");
    }
  });
  it("refuses a head without end", () => {
    const heads = new ReplyHeads();
    const piece = bytes(`HTTP/1.1 200 OK\r\nX: ${"a".repeat(20_000)}`);
    expect(heads.add(piece)).toBeUndefined();
    expect(() => heads.add(piece)).toThrow(MalformedReply);
  });
});

describe("bodyReaderFor()", () => {
  const CHUNKED = "HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked";

  it("has no body for HEAD, 204 and 304, even if the headers announce one", () => {
    expect(bodyReaderFor(head("HTTP/1.1 200 OK\r\nContent-Length: 9"), "HEAD").isComplete).toBe(true);
    expect(bodyReaderFor(head("HTTP/1.1 304 No\r\nContent-Length: 9"), "GET").isComplete).toBe(true);
    expect(bodyReaderFor(head("HTTP/1.1 204 No"), "GET").isComplete).toBe(true);
  });
  it("counts a body of stated length, and takes no byte more", () => {
    const body = bodyReaderFor(head("HTTP/1.1 200 OK\r\nContent-Length: 5"), "GET");
    expect(text(body.take(bytes("abc")))).toBe("abc");
    expect([body.isComplete, body.toCome, body.close()]).toEqual([false, 2, false]);
    expect(() => body.take(bytes("def"))).toThrow(MalformedReply);
  });
  it("without a length, ends with the connection", () => {
    const body = bodyReaderFor(head("HTTP/1.0 200 OK"), "GET");
    expect(text(body.take(bytes("abc")))).toBe("abc");
    expect(body.isComplete).toBe(false);
    expect([body.close(), body.isComplete]).toEqual([true, true]);
  });
  it("decodes chunks no matter where the input is cut", () => {
    const wire = "5\r\nhello\r\n1;name=value\r\n,\r\n0006  \r\n world\r\n0\r\nX-Trailer: 1\r\n\r\n";
    for (let first = 0; first <= wire.length; first++) {
      for (let second = first; second <= wire.length; second += 7) {
        const body = bodyReaderFor(head(CHUNKED), "GET");
        const pieces = [wire.slice(0, first), wire.slice(first, second), wire.slice(second)];
        expect(pieces.map((piece) => text(body.take(bytes(piece)))).join("")).toBe("hello, world");
        expect(body.isComplete).toBe(true);
      }
    }
  });
  it.each([
    ["a length that is no number", "x\r\n"],
    ["a negative length", "-1\r\n"],
    ["a length beyond all measure", "ffffffffffffffff\r\n"],
    ["a length of more than 2^53", "20000000000001\r\n"],
    ["no length", "\r\n"],
    ["a chunk that is longer than it says", "3\r\nabcd\r\n"],
    ["a bare line feed", "3\nabc\r\n"],
    ["a carriage return inside a line", "3;a\rb\r\n"],
    ["a zero byte", "3;\0\r\n"],
    ["an extension without end", `3;${"a".repeat(2000)}`],
    ["trailers without end", `0\r\n${`X: ${"a".repeat(900)}\r\n`.repeat(12)}`],
    ["bytes behind the end", "0\r\n\r\nHTTP/1.1 200 OK"],
  ])("refuses %s", (_, wire) => {
    const body = bodyReaderFor(head(CHUNKED), "GET");
    expect(() => body.take(bytes(wire))).toThrow(MalformedReply);
  });
  it("an end in the middle of a chunk is not the end of the body", () => {
    const body = bodyReaderFor(head(CHUNKED), "GET");
    body.take(bytes("5\r\nhello\r\n"));
    expect([body.isComplete, body.close()]).toEqual([false, false]);
  });
  it.each([
    ["both kinds of length", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 3"],
    ["another coding", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked"],
    ["a length that is no number", "HTTP/1.1 200 OK\r\nContent-Length: +3"],
    ["a length that is a list", "HTTP/1.1 200 OK\r\nContent-Length: 3, 3"],
    ["a length beyond all measure", "HTTP/1.1 200 OK\r\nContent-Length: 9999999999999999"],
  ])("refuses %s", (_, lines) => {
    expect(() => bodyReaderFor(head(lines), "GET")).toThrow(MalformedReply);
  });
});
