import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { HttpConnection } from "./connection.ts";
import { ConnectionPool, type Lease } from "./pool.ts";

const ROUTE = { url: new URL("http://server.test/") };
let dialled: number;

beforeEach(() => {
  vi.useFakeTimers();
  dialled = 0;
  const connection = { isAlive: true, destroy: () => undefined, rest: () => undefined };
  vi.spyOn(HttpConnection, "open").mockImplementation(async () => {
    dialled++;
    return connection as unknown as HttpConnection;
  });
});
afterEach(() => {
  vi.restoreAllMocks();
  vi.useRealTimers();
});

/** Runs everything that needs no time to pass. */
async function settle(): Promise<void> {
  for (let i = 0; i < 20; i++) await Promise.resolve();
}

const lease = (pool: ConnectionPool, signal = new AbortController().signal): Promise<Lease> =>
  pool.lease(ROUTE, "new", signal);

test("no request gets in while the next one in line wakes up", async () => {
  const pool = new ConnectionPool({ connections: 1, timeoutMs: 1000 });
  const first = await lease(pool);
  const second = lease(pool);
  await settle();
  first.release("gone", undefined);
  const third = lease(pool);
  await settle();
  expect(dialled).toBe(2);
  (await second).release("gone", undefined);
  (await third).release("gone", undefined);
  expect(dialled).toBe(3);
  await lease(pool);
});

test("a turn that comes together with an abort goes to the next in line", async () => {
  const pool = new ConnectionPool({ connections: 1, timeoutMs: 1000 });
  const first = await lease(pool);
  const stop = new AbortController();
  const second = lease(pool, stop.signal);
  const third = lease(pool);
  await settle();
  first.release("gone", undefined);
  stop.abort(new Error("stopped"));
  await expect(second).rejects.toThrow("stopped");
  await settle();
  expect(dialled).toBe(2);
  (await third).release("gone", undefined);
});

test("a request that is aborted in line takes no turn", async () => {
  const pool = new ConnectionPool({ connections: 1, timeoutMs: 1000 });
  const first = await lease(pool);
  const stop = new AbortController();
  const second = lease(pool, stop.signal);
  const third = lease(pool);
  stop.abort(new Error("stopped"));
  await expect(second).rejects.toThrow("stopped");
  expect(dialled).toBe(1);
  first.release("gone", undefined);
  (await third).release("gone", undefined);
  expect(dialled).toBe(2);
});

test("a request that waits too long gets its own connection", async () => {
  const pool = new ConnectionPool({ connections: 1, timeoutMs: 1000 });
  await lease(pool);
  const second = lease(pool);
  await vi.advanceTimersByTimeAsync(2001);
  await second;
  expect(dialled).toBe(2);
});
