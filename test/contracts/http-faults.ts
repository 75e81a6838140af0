import { expect, test } from "vitest";
import type { Fault } from "../support/range-server.ts";
import { type HttpTools, ignoreRanges, MIB, once } from "./http-tools.ts";
import { drain, expectBytes, patternBytes } from "./source-contract.ts";

/** Silence that is longer than any that a busy machine makes of an answer. */
const PATIENCE_MS = 2000;

/** Replies that contradict themselves or break off. */
export function checkLies({ start, open, waits }: HttpTools): void {
  test.each<[string, Fault, string]>([
    ["another range", () => ({ headers: { "content-range": "bytes 1-262144/1048576" } }), "source/http.range"],
    ["no total", () => ({ headers: { "content-range": "bytes 0-262143/*" } }), "source/http.range"],
    ["nonsense", () => ({ headers: { "content-range": "bytes 0-zzz/9" } }), "source/http.range"],
    ["a short body", ({ bytes }) => ({ body: bytes.subarray(0, 1000) }), "source/http.length"],
    [
      "a long body",
      ({ bytes }) => ({ body: bytes.subarray(0, 300_000), headers: { "content-length": undefined } }),
      "source/http.length",
    ],
    [
      "ten bytes and no Content-Range",
      ({ bytes, request }) =>
        request.method === "HEAD"
          ? undefined
          : { headers: { "content-range": undefined }, body: bytes.subarray(0, 10) },
      "source/http.range",
    ],
    [
      "several parts",
      ({ bytes }) => ({
        headers: { "content-range": undefined, "content-type": "multipart/byteranges; boundary=x" },
        body: bytes.subarray(0, 262_144),
      }),
      "source/http.range",
    ],
    ["compression", () => ({ headers: { "content-encoding": "gzip" } }), "source/http.encoding"],
  ])("never believes an opening reply with %s", async (_, fault, code) => {
    const server = await start(MIB, fault);
    await expect(open(server)).rejects.toMatchObject({ name: "SourceError", code });
    expect(waits).toHaveLength(code === "source/http.encoding" ? 0 : 5);
    if (code === "source/http.encoding") return;
    const recovering = await start(MIB, once(fault, 2));
    expect((await open(recovering)).byteLength).toBe(1 << 20);
  });
  test.each<[string, Fault]>([
    [
      "wrong range",
      ({ bytes }) => ({ headers: { "content-range": "bytes 0-999/1048576" }, body: bytes.subarray(0, 1000) }),
    ],
    ["200 with everything", (context) => ({ ...(ignoreRanges(context) as object) })],
    ["short body", ({ bytes }) => ({ body: bytes.subarray(500_000, 500_500) })],
    ["dropped connection", () => ({ dropAfter: 300 })],
    ["no Content-Range", () => ({ headers: { "content-range": undefined } })],
  ])("repeats a read that was answered with: %s", async (_, fault) => {
    const server = await start(MIB, once(fault, 2, 1));
    const source = await open(server);
    expectBytes(await source.read(500_000, 1000), MIB.subarray(500_000, 501_000));
    expect(server.requests).toHaveLength(4);
    expect(waits).toEqual([500, 1000]);
  });
  test("goes on with a broken stream where it stopped", async () => {
    const server = await start(
      MIB,
      once(() => ({ dropAfter: 200_000 }), 2, 1),
    );
    const source = await open(server);
    expectBytes(await drain(source, 300_000), MIB.subarray(300_000));
    const starts = server.requests.slice(1).map(({ range }) => range?.[0] ?? 0);
    expect(starts[0]).toBe(300_000);
    expect(starts).toHaveLength(3);
    expect(starts[1]).toBeGreaterThan(300_000);
  });
}

/** Files that change on the server. */
export function checkVersions({ start, open }: HttpTools): void {
  const other = patternBytes(1 << 20).map((value) => value ^ 1);
  const changed = { name: "SourceError", code: "source/http.changed", transient: false };

  test("never mixes two versions: ETag, and nothing handed out yet", async () => {
    const server = await start(MIB);
    const source = await open(server);
    server.setBytes(other);
    const error = await source.read(500_000, 10).catch((reason: unknown) => reason);
    expect(error).toMatchObject({ ...changed, hint: expect.stringContaining("Only the first bytes") });
    const again = await open(server);
    expectBytes(await again.read(500_000, 10), other.subarray(500_000, 500_010));
  });
  test("says so where bytes of the older version were handed out", async () => {
    const server = await start(MIB);
    const source = await open(server);
    await source.read(500_000, 10);
    server.setBytes(other);
    const read = source.read(600_000, 10);
    await expect(read).rejects.toMatchObject({ ...changed, hint: expect.stringContaining("older version") });
    await expect(drain(source, 300_000)).rejects.toMatchObject(changed);
  });
  test("notices a change of weak tags, of dates and of the length alone", async () => {
    const weak =
      (tag: string): Fault =>
      () => ({ headers: { etag: `W/"${tag}"` } });
    const dated =
      (date: string): Fault =>
      () => ({ headers: { etag: undefined, "last-modified": date } });
    for (const [before, after] of [
      [weak("1"), weak("2")],
      [dated("Mon"), dated("Tue")],
    ] as const) {
      const server = await start(MIB, before);
      const source = await open(server);
      await source.read(400_000, 10);
      server.setFault(after);
      await expect(source.read(500_000, 10)).rejects.toMatchObject(changed);
    }
    const plain: Fault = () => ({ headers: { etag: undefined } });
    const server = await start(MIB, plain);
    const source = await open(server);
    server.setBytes(patternBytes(900_000));
    await expect(source.read(500_000, 10)).rejects.toMatchObject(changed);
    server.setBytes(patternBytes(10));
    await expect(source.read(500_000, 10)).rejects.toMatchObject(changed);
  });
  test("sends If-Range only with tags that promise identical bytes", async () => {
    const server = await start(MIB, () => ({ headers: { etag: 'W/"1"' } }));
    await (await open(server)).read(500_000, 10);
    expect(server.requests.map(({ headers }) => headers["if-range"])).toEqual([undefined, undefined]);
  });
}

/** Statuses, silence, aborts. */
export function checkFailures({ start, open, waits }: HttpTools): void {
  test.each([
    [404, "source/not-found"],
    [410, "source/not-found"],
    [401, "source/http.forbidden"],
    [403, "source/http.forbidden"],
    [400, "source/http.status"],
    [204, "source/http.status"],
    [304, "source/http.status"],
  ])("gives up at once on status %d", async (status, code) => {
    const server = await start(MIB, () => ({ status, body: new Uint8Array(0) }));
    await expect(open(server)).rejects.toMatchObject({ name: "SourceError", code });
    expect(server.requests).toHaveLength(1);
  });
  test.each([408, 429, 500, 502, 503])("comes back after status %d", async (status) => {
    const server = await start(
      MIB,
      once(() => ({ status, headers: { "retry-after": "7" } })),
    );
    expect((await open(server)).byteLength).toBe(1 << 20);
    expect(waits).toEqual([7000]);
  });
  test("gives up in the end, and says what the server said", async () => {
    const server = await start(MIB, () => ({ status: 503 }));
    await expect(open(server)).rejects.toMatchObject({ code: "source/http.busy", transient: true });
    expect(server.requests).toHaveLength(6);
  });
  test("gives up early where nothing listens at all", async () => {
    const server = await start(MIB);
    await server.close();
    await expect(open(server)).rejects.toMatchObject({
      name: "SourceError",
      code: expect.stringMatching(/http\.(unreachable|network)$/),
    });
  });
  test("counts silence as a failure, before and in the middle of a reply", async () => {
    const silent = await start(
      MIB,
      once(() => "handled"),
    );
    expect((await open(silent, { timeoutMs: PATIENCE_MS })).byteLength).toBe(1 << 20);
    expect(silent.requests).toHaveLength(2);
    const stalling = await start(
      MIB,
      once(() => ({ pieces: { byteLength: 1000, delayMs: 10_000 } }), 1, 1),
    );
    const source = await open(stalling, { timeoutMs: PATIENCE_MS });
    expectBytes(await source.read(500_000, 5000), MIB.subarray(500_000, 505_000));
    expect(stalling.requests).toHaveLength(3);
  });
  test("bears a slow body that keeps coming", async () => {
    const server = await start(
      MIB,
      once(() => ({ pieces: { byteLength: 1000, delayMs: 10 } }), 1, 1),
    );
    const source = await open(server, { timeoutMs: PATIENCE_MS });
    expectBytes(await source.read(500_000, 10_000), MIB.subarray(500_000, 510_000));
    expect(server.requests).toHaveLength(2);
  });
  test("stops at once when aborted: while opening, reading and streaming", async () => {
    const reason = new Error("enough");
    const server = await start(MIB, () => "handled");
    const opening = open(server, { signal: AbortSignal.timeout(30) });
    await expect(opening).rejects.toMatchObject({ name: "TimeoutError" });
    server.setFault(undefined);
    const source = await open(server);
    server.setFault(() => ({ pieces: { byteLength: 1000, delayMs: 10_000 } }));
    const controller = new AbortController();
    const work = [
      source.read(500_000, 9000, { signal: controller.signal }),
      drain(source, 300_000, { signal: controller.signal }),
    ];
    setTimeout(() => controller.abort(reason), 30);
    const outcomes = await Promise.allSettled(work);
    expect(outcomes.map((outcome) => (outcome.status === "rejected" ? outcome.reason : "done"))).toEqual([
      reason,
      reason,
    ]);
  });
  test("ends requests under way when closed", async () => {
    const server = await start(MIB);
    const source = await open(server);
    server.setFault(() => "handled");
    const read = source.read(500_000, 10);
    setTimeout(() => source.close(), 20);
    await expect(read).rejects.toMatchObject({ code: "source/closed" });
  });
}
