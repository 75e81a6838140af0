import { expect, test } from "vitest";
import { make, start } from "../../../test/support/transport-tools.ts";
import { Minute, startExchange } from "./exchange.ts";

test("a transfer that an exchange watches over counts once among those that share the least rate", async () => {
  const { url } = await start((_, response) => {
    response.setHeader("content-length", 10);
    response.write("hello");
  });
  const minute = new Minute();
  const target = { url, label: url, transport: make(), headers: {}, timeoutMs: 30_000 };
  const exchange = await startExchange(target, { signals: [], minute });
  const body = exchange.body();
  expect(await body.next()).toMatchObject({ done: false });
  const next = body.next(); // nothing comes: both the exchange and the connection wait
  await new Promise(setImmediate);
  minute.begin();
  expect(minute.sharers).toBe(1);
  exchange.cancel();
  await expect(next).rejects.toBeDefined();
});
