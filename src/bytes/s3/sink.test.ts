import { describe, expect, test } from "vitest";
import { sinkContract } from "../../../test/contracts/sink-contract.ts";
import { expectBytes, patternBytes } from "../../../test/contracts/source-contract.ts";
import { MODEL, type StartedStore, seed, startStore, startTestStore } from "../../../test/support/s3-tools.ts";
import type { Bytes } from "../../base/bytes.ts";
import type { Sink } from "../sink.ts";
import { type S3SinkOptions, s3Sink } from "./sink.ts";

const MIB = 1 << 20;

sinkContract("s3", { reopen: "none" }, async () => {
  const { server, client, close } = await startStore();
  const sink = await s3Sink(client, MODEL, { overwrite: "refuse", partBytes: 5 * MIB });
  return {
    sink,
    published: async () => {
      const object = server.objects.get(MODEL.key);
      return object === undefined ? undefined : new Uint8Array(object.bytes);
    },
    leftovers: async () => [...server.uploads.keys()],
    dispose: close,
  };
});

type SeekableSink = Sink & Required<Pick<Sink, "reserve" | "fill">>;

/** Parts of 1000 bytes, which the store of these tests accepts. */
async function open(store: StartedStore, options: Partial<S3SinkOptions> = {}): Promise<SeekableSink> {
  return (await s3Sink(store.client, MODEL, { overwrite: "refuse", partBytes: 1000, ...options })) as SeekableSink;
}
const startSmall = (): Promise<StartedStore> => startTestStore({ leastPartBytes: 1000 });

function published({ server }: StartedStore): Bytes {
  return new Uint8Array(server.objects.get(MODEL.key)?.bytes ?? []);
}

/** Part numbers in the order in which they arrived. */
function sentParts({ server }: StartedStore): number[] {
  return server.requests.filter(({ method }) => method === "PUT").map(({ query }) => Number(query.get("partNumber")));
}

describe("s3Sink()", () => {
  test("sends the first part last, and small objects in one request", async () => {
    const store = await startSmall();
    const sink = await open(store, { concurrency: 1 });
    await sink.append(patternBytes(4500));
    await sink.commit();
    expect(sentParts(store)).toEqual([2, 3, 4, 5, 1]);
    expectBytes(published(store), patternBytes(4500));
    expect(store.server.uploads.size).toBe(0);
    const small = await s3Sink(store.client, { ...MODEL, key: "small" }, { overwrite: "refuse" });
    await small.append(patternBytes(4500));
    await small.commit();
    expect(store.server.requests.at(-1)).toMatchObject({ method: "PUT", path: "/models/small" });
    expect(store.server.requests.at(-1)?.headers).toMatchObject({
      "if-none-match": "*",
      "x-amz-checksum-sha256": expect.stringMatching(/^.{44}$/),
    });
  });
  test("holds parts with reserved room, sends alignment gaps, and fills the parts that it holds", async () => {
    const store = await startSmall();
    const sink = await open(store);
    expect(sink.reserve(5000)).toBe(0);
    await sink.append(patternBytes(1500));
    sink.reserve(100);
    await sink.append(patternBytes(2000));
    await sink.fill(4990, Uint8Array.of(1, 2));
    await sink.fill(0, patternBytes(4096));
    await expect(sink.fill(6550, Uint8Array.of(1))).rejects.toMatchObject({ code: "unsupported/s3.fill" });
    await sink.commit();
    const wanted = new Uint8Array(8600);
    wanted.set(patternBytes(4096), 0);
    wanted.set([1, 2], 4990);
    wanted.set(patternBytes(1500), 5000);
    wanted.set(patternBytes(2000), 6600);
    expectBytes(published(store), wanted);
  });
  test("refuses to hold more than the limit, and leaves no upload", async () => {
    const store = await startSmall();
    const sink = await open(store, { maxHeldBytes: 3000 });
    sink.reserve(9000);
    await expect(sink.append(patternBytes(10))).rejects.toMatchObject({ code: "limit/s3.held" });
    await expect(sink.commit()).rejects.toMatchObject({ code: "limit/s3.held" });
    expect(store.server.uploads.size).toBe(0);
  });
  test("sends a bounded number of parts at a time", async () => {
    const store = await startSmall();
    let flying = 0;
    let most = 0;
    const { client } = store;
    const send = client.uploadPart.bind(client);
    client.uploadPart = async (...args) => {
      most = Math.max(most, ++flying);
      return send(...args).finally(() => flying--);
    };
    const sink = await open(store, { concurrency: 3 });
    await sink.append(patternBytes(20_000));
    await sink.commit();
    expect(most).toBe(3);
    expectBytes(published(store), patternBytes(20_000));
  });
  test("sends a part again that arrived damaged or not at all", async () => {
    const store = await startSmall();
    let faults = 0;
    store.server.setHook(({ query }, response) => {
      if (query.get("partNumber") !== "2" || faults++ >= 2) return undefined;
      if (faults === 1) return "drop";
      response.statusCode = 400;
      response.end("<Error><Code>BadDigest</Code></Error>");
      return "handled";
    });
    const sink = await open(store);
    await sink.append(patternBytes(2500));
    await sink.commit();
    expect(sentParts(store).filter((number) => number === 2)).toHaveLength(3);
    expectBytes(published(store), patternBytes(2500));
  });
  test("ends the upload if a part is refused for good", async () => {
    const store = await startSmall();
    store.server.setHook(({ query }, response) => {
      if (query.get("partNumber") !== "3") return undefined;
      response.statusCode = 403;
      response.end("<Error><Code>AccessDenied</Code></Error>");
      return "handled";
    });
    const sink = await open(store);
    await sink.append(patternBytes(5000)).catch(() => undefined);
    await expect(sink.commit()).rejects.toMatchObject({ code: "source/s3.forbidden" });
    expect(store.server.uploads.size).toBe(0);
    expect(store.server.objects.size).toBe(0);
  });
});

describe("two writers", () => {
  test.each([500, 3500])("exactly one of them wins with %d bytes", async (byteLength) => {
    const store = await startSmall();
    const sinks = await Promise.all([open(store), open(store)]);
    await Promise.all(sinks.map((sink, i) => sink.append(patternBytes(byteLength).fill(i + 1))));
    const ends = await Promise.allSettled(sinks.map((sink) => sink.commit()));
    expect(ends.map(({ status }) => status).sort()).toEqual(["fulfilled", "rejected"]);
    const winner = ends.findIndex(({ status }) => status === "fulfilled");
    expect(ends[1 - winner]).toMatchObject({ reason: { code: "usage/exists" } });
    expectBytes(published(store), new Uint8Array(byteLength).fill(winner + 1));
    expect(store.server.uploads.size).toBe(0);
  });
  test("refuses an existing object at once, and replaces it only if it is unchanged", async () => {
    const store = await startSmall();
    seed(store.server, MODEL.key, patternBytes(10));
    await expect(open(store)).rejects.toMatchObject({ code: "usage/exists" });
    const first = await open(store, { overwrite: "replace" });
    const second = await open(store, { overwrite: "replace" });
    await first.append(patternBytes(2500));
    await first.commit();
    await second.append(patternBytes(2600));
    await expect(second.commit()).rejects.toMatchObject({ code: "source/s3.changed" });
    expect(published(store)).toHaveLength(2500);
  });
  test("recognises its own object if the reply to its completion was lost", async () => {
    const store = await startSmall();
    let isFirst = true;
    store.server.setHook(({ method, query }) => {
      if (method !== "POST" || !query.has("uploadId") || !isFirst) return undefined;
      isFirst = false;
      return "drop";
    });
    const sink = await open(store);
    await sink.append(patternBytes(2500));
    await sink.commit();
    expectBytes(published(store), patternBytes(2500));
  });
  test("treats an error document in a 200 as an error, and tries again", async () => {
    const store = await startSmall();
    let faults = 0;
    store.server.setHook(({ method, query }, response) => {
      if (method !== "POST" || !query.has("uploadId") || faults++ > 0) return undefined;
      response.end("<Error><Code>InternalError</Code></Error>");
      return "handled";
    });
    const sink = await open(store);
    await sink.append(patternBytes(2500));
    await sink.commit();
    expect(faults).toBe(2);
    expectBytes(published(store), patternBytes(2500));
  });
  test("uses HEAD if the store has no conditions, and adds a note", async () => {
    const store = await startTestStore({ leastPartBytes: 1000, conditions: "unknown" });
    const notes: string[] = [];
    const sink = await open(store, { onNote: (text) => notes.push(text) });
    await sink.append(patternBytes(2500));
    await sink.commit();
    expectBytes(published(store), patternBytes(2500));
    expect(notes).toEqual([expect.stringContaining("knows no conditional writes")]);
    await expect(open(store)).rejects.toMatchObject({ code: "usage/exists" });
  });
});
