import { beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { expectBytes, patternBytes } from "../../../test/contracts/source-contract.ts";
import { type RangeServer, startRangeServer } from "../../../test/support/range-server.ts";
import { type Bytes, concatBytes } from "../../base/bytes.ts";
import { openHttp } from "../../bytes/http/index.ts";
import { SHARED_BUFFERS } from "../../bytes/layers/stream-buffers.ts";
import { PageSource } from "../../formats/aero/page-source.ts";
import type { Engine } from "../../primitives/engine.ts";
import { nodeEngine } from "./engine.ts";
import { nodeTransport } from "./http-transport.ts";

const PAGE = 1 << 20;
const content = patternBytes(20 * PAGE + 77_777);
let engine: Engine;
let digests: Bytes;

beforeAll(async () => {
  engine = await nodeEngine();
  const starts = Array.from({ length: 21 }, (_, i) => i * PAGE);
  digests = concatBytes(
    await Promise.all(starts.map((start) => engine.digest("blake3", content.subarray(start, start + PAGE)))),
  );
});

/** The file on a server, page by page, with a count of pages that were hashed after they had come. */
async function open(): Promise<{ server: RangeServer; source: PageSource; later: () => number }> {
  const server = await startRangeServer(content);
  const transport = nodeTransport({ environment: {} });
  const retry = { baseDelayMs: 1 };
  const stored = await openHttp(server.url, { transport, requestBytes: 24 * PAGE, retry });
  let later = 0;
  const counting: Engine = Object.create(engine, {
    digest: {
      value: (...args: Parameters<Engine["digest"]>) => {
        later++;
        return engine.digest(...args);
      },
    },
    hasher: { value: (algorithm: "blake3") => engine.hasher(algorithm) },
  });
  const source = new PageSource({
    stored,
    offset: 0,
    name: "weights.shard0",
    engine: counting,
    readPages: async () => ({ shardName: undefined, pageBytes: PAGE, pageCount: 21, digests }),
    tensors: () => [],
  });
  onTestFinished(async () => {
    await stored.close();
    await transport.close();
    await server.close();
  });
  return { server, source, later: () => later };
}

async function drain(source: PageSource, offset: number, byteLength: number): Promise<Bytes> {
  const pieces: Bytes[] = [];
  for await (const piece of source.stream(offset, { byteLength, together: 2 })) pieces.push(piece.slice());
  return concatBytes(pieces);
}

describe("pages of a stream beside others", () => {
  it("are hashed while they land", async () => {
    const { source, later } = await open();
    const [whole, inner] = await Promise.all([
      drain(source, 0, content.byteLength),
      drain(source, 1_500_000, 10_000_000),
    ]);
    expectBytes(whole, content);
    expectBytes(inner, content.subarray(1_500_000, 11_500_000));
    expect(later()).toBe(0);
  });

  it("are hashed anew where the connection broke in the middle of one", async () => {
    const { server, source, later } = await open();
    let broken = 0;
    server.setFault(({ request }) => {
      const isLong = (request.range?.[1] ?? 0) - (request.range?.[0] ?? 0) > 2 * PAGE;
      return isLong && broken++ < 2 ? { dropAfter: 2 * PAGE + 300_000 } : undefined;
    });
    expectBytes(await drain(source, 0, content.byteLength), content);
    expect(broken).toBe(3);
    expect(later()).toBe(8); // all that are laid at once
  });

  it("lie in a buffer of those that all streams share, until the stream is left", async () => {
    const { source } = await open();
    for await (const _ of source.stream(0, { byteLength: content.byteLength, together: 2 })) {
      expect(SHARED_BUFFERS.usedBytes).toBe(8 * PAGE);
      break;
    }
    expect(SHARED_BUFFERS.usedBytes).toBe(0);
  });

  it("come 8 MiB at a time, however long the buffer is that was free", async () => {
    const { source } = await open();
    SHARED_BUFFERS.giveBack(SHARED_BUFFERS.tryTake(SHARED_BUFFERS.piecesLeft) as Bytes);
    for await (const piece of source.stream(0, { byteLength: content.byteLength, together: 2 })) {
      expect(piece.byteLength).toBe(8 * PAGE);
      break;
    }
  });

  it("are hashed when they are complete where no buffer is left", async () => {
    const { source, later } = await open();
    const all = SHARED_BUFFERS.tryTake(SHARED_BUFFERS.piecesLeft) as Bytes;
    expectBytes(await drain(source, 0, content.byteLength), content);
    SHARED_BUFFERS.giveBack(all);
    expect(later()).toBe(21);
  });

  it("are refused where a byte differs, and nothing of them is handed out", async () => {
    const { server, source } = await open();
    const changed = content.slice();
    changed[5 * PAGE + 4321] = (changed[5 * PAGE + 4321] as number) ^ 1;
    server.setFault(({ request, bytes }) => {
      const [first = 0, last = 0] = request.range ?? [];
      return bytes === content ? { body: changed.subarray(first, last + 1) } : undefined;
    });
    const pieces: Bytes[] = [];
    const read = async (): Promise<void> => {
      for await (const piece of source.stream(0, { byteLength: content.byteLength, together: 2 })) {
        pieces.push(piece.slice());
      }
    };
    await expect(read()).rejects.toMatchObject({ code: "integrity/aero.page-hash" });
    expectBytes(concatBytes(pieces), content.subarray(0, 5 * PAGE));
  });
});
