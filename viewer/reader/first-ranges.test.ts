import { describe, expect, test } from "vitest";
import type { Bytes } from "../../src/base/bytes.ts";
import { memorySource } from "../../src/bytes/memory.ts";
import type { Source } from "../../src/bytes/source.ts";
import { type Contact, type FileFacts, openByFirstRanges } from "./first-ranges.ts";

const URL_TEXT = "https://example.test/m.gguf";
const CONTENT: Bytes = Uint8Array.from({ length: 1000 }, (_, i) => i % 251);
const HEAD = 100;

interface Fault {
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: BodyInit;
  readonly fails?: true;
}

/** A server whose request `number` (from 0) may be answered in another way, and what was done about it. */
function server(faults: Readonly<Record<number, Fault>> = {}) {
  const asked: string[] = [];
  const calls: string[] = [];
  const library = (how: string): Source => {
    calls.push(how);
    return memorySource(CONTENT, "library");
  };
  const contact: Contact = {
    async send(_, range) {
      const fault = faults[asked.length];
      asked.push(range);
      if (fault?.fails === true) throw new TypeError("network");
      const [, first = "", last = ""] = /^bytes=(\d+)-(\d+)$/.exec(range) ?? [];
      const end = Math.min(Number(last), CONTENT.byteLength - 1);
      const headers = {
        "content-range": `bytes ${first}-${end}/${CONTENT.byteLength}`,
        etag: '"1"',
        ...fault?.headers,
      };
      const body = fault?.body ?? CONTENT.slice(Number(first), end + 1);
      return new Response(body, { status: fault?.status ?? 206, headers });
    },
    open: async (_, pinned) => library(pinned === undefined ? "open" : "open pinned"),
    goOn: async (_, facts: FileFacts) => library(`go on ${facts.etag}`),
  };
  return { asked, calls, contact };
}

const openAt = ({ contact }: { readonly contact: Contact }, headBytes = HEAD): Promise<Source> =>
  openByFirstRanges(URL_TEXT, headBytes, contact, {});

async function readAll(source: Source, offset: number): Promise<number[]> {
  const bytes: number[] = [];
  for await (const piece of source.stream(offset)) bytes.push(...piece);
  return bytes;
}

describe("openByFirstRanges()", () => {
  test("one request tells the length and the first bytes; what lies in them costs no other", async () => {
    const from = server();
    const source = await openAt(from);
    expect([source.byteLength, source.label]).toEqual([1000, "https://example.test/m.gguf"]);
    expect(await source.read(10, 50)).toEqual(CONTENT.slice(10, 60));
    expect(await source.read(500, 20)).toEqual(CONTENT.slice(500, 520));
    const into = new Uint8Array(20);
    expect(await source.read(600, 20, { into })).toBe(into);
    expect(into).toEqual(CONTENT.slice(600, 620));
    expect(from.asked).toEqual(["bytes=0-99", "bytes=500-519", "bytes=600-619"]);
    expect(from.calls).toEqual([]);
  });

  test("a file that is shorter than what was asked for is in memory", async () => {
    const from = server();
    const source = await openAt(from, 5000);
    expect(await source.read(990, 10)).toEqual(CONTENT.slice(990));
    expect(from.asked).toHaveLength(1);
  });

  test.each<readonly [string, Fault]>([
    ["the whole file", { status: 200, headers: { "content-range": "" } }],
    ["an error", { status: 503 }],
    ["no range that can be seen", { headers: { "content-range": "" } }],
    ["a range of unknown length", { headers: { "content-range": "bytes 0-99/*" } }],
    ["another range", { headers: { "content-range": "bytes 0-49/1000" } }],
    ["a compressed body", { headers: { "content-encoding": "gzip" } }],
    ["fewer bytes than announced", { body: "short" }],
    ["nothing at all", { fails: true }],
  ])("leaves it to the library where the server sends %s", async (_, fault) => {
    const from = server({ 0: fault });
    expect((await openAt(from)).label).toBe("library");
    expect(from.calls).toEqual(["open"]);
  });

  test.each<readonly [string, Fault]>([
    ["another version", { headers: { etag: '"2"' } }],
    ["another length", { headers: { "content-range": "bytes 500-519/1001" } }],
    ["an error", { status: 500 }],
    ["fewer bytes than announced", { body: "short" }],
    ["nothing at all", { fails: true }],
  ])("goes on by the library, with the version it knows, after %s", async (_, fault) => {
    const from = server({ 1: fault });
    const source = await openAt(from);
    expect(await source.read(500, 20)).toEqual(CONTENT.slice(500, 520));
    expect(await source.read(600, 20)).toEqual(CONTENT.slice(600, 620));
    expect(from.calls).toEqual(['go on "1"']);
    expect(from.asked).toHaveLength(2);
  });

  test("long reads are the library's from the first on", async () => {
    const byteLength = 64 << 20;
    const asked: string[] = [];
    const long = memorySource(new Uint8Array(byteLength), "library");
    const contact: Contact = {
      async send(_, range) {
        asked.push(range);
        const headers = { "content-range": `bytes 0-${HEAD - 1}/${byteLength}` };
        return new Response(new Uint8Array(HEAD), { status: 206, headers });
      },
      open: async () => long,
      goOn: async () => long,
    };
    const source = await openAt({ contact });
    expect((await source.read(1000, 33 << 20)).byteLength).toBe(33 << 20);
    expect(asked).toEqual(["bytes=0-99"]);
  });

  test("a reply that is of no use is not received", async () => {
    let isCancelled = false;
    const body = new ReadableStream({
      cancel: () => {
        isCancelled = true;
      },
    });
    const from = server({ 1: { headers: { etag: '"2"' }, body } });
    await (await openAt(from)).read(500, 20);
    expect(isCancelled).toBe(true);
  });

  test("goes on by the library after four requests", async () => {
    const from = server();
    const source = await openAt(from);
    for (let i = 0; i < 8; i++) {
      expect(await source.read(200 + 10 * i, 10)).toEqual(CONTENT.slice(200 + 10 * i, 210 + 10 * i));
    }
    expect(from.asked).toHaveLength(5);
    expect(from.calls).toEqual(['go on "1"']);
  });

  test("a stream is one request; where it breaks the library goes on behind what came", async () => {
    const whole = server();
    expect(await readAll(await openAt(whole), 150)).toEqual([...CONTENT.slice(150)]);
    expect(whole.calls).toEqual([]);
    const cut = server({ 1: { body: CONTENT.slice(150, 400) } });
    expect(await readAll(await openAt(cut), 150)).toEqual([...CONTENT.slice(150)]);
    expect(cut.calls).toEqual(['go on "1"']);
    const long = server({ 1: { body: new Uint8Array(2000) } });
    expect(await readAll(await openAt(long), 150)).toEqual([...CONTENT.slice(150)]);
  });

  test("what an index describes is not asked for before it is read, and keeps the version of its first reply", async () => {
    const pinned = { byteLength: 1000, sha256: "0".repeat(64) };
    const from = server({ 1: { headers: { etag: '"2"' } } });
    const source = await openByFirstRanges(URL_TEXT, HEAD, from.contact, { pinned });
    expect(from.asked).toEqual([]);
    await source.read(0, 10);
    await source.read(20, 10);
    expect(from.calls).toEqual(['go on "1"']);
    const other = server({ 0: { headers: { "content-range": "bytes 0-9/999" } } });
    await (await openByFirstRanges(URL_TEXT, HEAD, other.contact, { pinned })).read(0, 10);
    expect(other.calls).toEqual(["open pinned"]);
  });

  test("an address with a password is the library's", async () => {
    const from = server();
    await openByFirstRanges("https://a:b@example.test/m.gguf", HEAD, from.contact, {});
    expect([from.asked, from.calls]).toEqual([[], ["open"]]);
  });

  test("a signal ends it, and so does closing", async () => {
    const from = server();
    const stop = new AbortController();
    const source = await openAt(from);
    stop.abort(new Error("enough"));
    await expect(source.read(500, 10, { signal: stop.signal })).rejects.toThrow("enough");
    await source.close();
    await expect(source.read(500, 10)).rejects.toMatchObject({ code: "source/closed" });
  });
});
