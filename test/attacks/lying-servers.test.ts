import { afterEach, beforeAll, describe, expect, test } from "vitest";
import type { Bytes } from "../../src/base/bytes.ts";
import { isTareError } from "../../src/base/errors.ts";
import { openHttp } from "../../src/bytes/http/index.ts";
import { openSource } from "../../src/open.ts";
import { nodeTransport } from "../../src/platform/node/http/transport.ts";
import { buildGguf, byteTensor } from "../builders/gguf.ts";
import { patternBytes } from "../builders/safetensors.ts";
import { type Fault, type RangeServer, startRangeServer } from "../support/range-server.ts";

/** Longer than the opening read, so that the tensor's end needs a range of its own. */
const DATA = patternBytes(600_000);
let honest: Bytes;
beforeAll(() => {
  honest = buildGguf({ tensors: [byteTensor("w", DATA.byteLength, 0)], data: DATA });
});

const closing: { close(): Promise<void> }[] = [];
afterEach(async () => {
  await Promise.all(closing.splice(0).map((item) => item.close()));
});

async function serve(bytes: Bytes): Promise<RangeServer> {
  const server = await startRangeServer(bytes);
  closing.push(server);
  return server;
}

/** The last bytes of the tensor, through every layer that users go through. */
async function readTail(server: RangeServer, onOpened: () => void = () => undefined): Promise<Bytes> {
  const transport = nodeTransport({ environment: {} });
  closing.push(transport);
  const retry = { retries: 2, sleep: async () => undefined };
  const source = await openHttp(server.url, { transport, retry });
  const { container } = await openSource(source);
  if (container.kind !== "model") throw new Error("not a model");
  onOpened();
  return container
    .tensor("w")
    .source()
    .read(DATA.byteLength - 1000, 1000);
}

const shifted = (bytes: Bytes, first: number, last: number): Bytes => bytes.subarray(first - 1, last);

/** After the opening, each of these replies would give a naive client wrong bytes. */
const LIES: readonly (readonly [string, Fault])[] = [
  ["200 and the whole file", ({ bytes }) => ({ status: 200, headers: { "content-range": undefined }, body: bytes })],
  [
    "206 with the beginning of the file, and says so",
    ({ bytes }) => {
      const headers = { "content-range": `bytes 0-999/${bytes.byteLength}` };
      return { headers, body: bytes.subarray(0, 1000) };
    },
  ],
  [
    "206 shifted by one byte, and says so",
    ({ bytes, request }) => {
      const [first, last] = request.range ?? [1, 1];
      const headers = { "content-range": `bytes ${first - 1}-${last - 1}/${bytes.byteLength}` };
      return { headers, body: shifted(bytes, first, last) };
    },
  ],
  ["a body that is too short", ({ bytes }) => ({ body: bytes.subarray(bytes.byteLength - 10) })],
  ["a body that breaks off", () => ({ dropAfter: 10 })],
  [
    "another total length",
    ({ request }) => ({ headers: { "content-range": `bytes ${request.range?.join("-")}/999999999` } }),
  ],
  ["compression nobody asked for", () => ({ headers: { "content-encoding": "gzip" } })],
  ["an empty 206", () => ({ body: new Uint8Array(0) })],
  [
    "a page in place of the file",
    () => ({
      status: 200,
      headers: { "content-range": undefined, etag: undefined },
      body: new TextEncoder().encode("<html>"),
    }),
  ],
];

describe("a server that lies is told so, never believed", () => {
  test("an honest one serves the bytes", async () => {
    expect(await readTail(await serve(honest))).toEqual(DATA.subarray(-1000));
  });
  test.each(LIES)("%s: the right bytes or a SourceError", async (_, fault) => {
    const server = await serve(honest);
    const outcome: unknown = await readTail(server, () => server.setFault(fault)).catch((error: unknown) => error);
    if (outcome instanceof Uint8Array) expect(outcome).toEqual(DATA.subarray(-1000));
    else expect(isTareError(outcome) && outcome.name).toBe("SourceError");
  });
  test("a server that lies once is asked again", async () => {
    const server = await serve(honest);
    const [, fault] = LIES[1] as (typeof LIES)[number];
    const start = (): void => {
      const first = server.requests.length;
      server.setFault((context) => (context.index === first ? fault(context) : undefined));
    };
    expect(await readTail(server, start)).toEqual(DATA.subarray(-1000));
  });
  test("two versions of a file are never mixed", async () => {
    const other = buildGguf({ tensors: [byteTensor("w", DATA.byteLength, 0)], data: patternBytes(600_000, 9) });
    const server = await serve(honest);
    const outcome = readTail(server, () => server.setBytes(other));
    await expect(outcome).rejects.toMatchObject({ name: "SourceError", code: "source/http.changed" });
  });
  test("a length that the server makes up takes no memory", async () => {
    const server = await serve(honest);
    server.setFault(() => ({ headers: { "content-range": "bytes 0-262143/9007199254740991" } }));
    const before = process.memoryUsage().arrayBuffers;
    const outcome: unknown = await readTail(server).catch((error: unknown) => error);
    // The header is honest, so the file opens; what lies beyond the real end cannot be had.
    if (!(outcome instanceof Uint8Array)) expect(isTareError(outcome)).toBe(true);
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(64 << 20);
  });
});
