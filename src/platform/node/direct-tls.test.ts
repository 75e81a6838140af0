import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { expect, it, onTestFinished } from "vitest";
import { LOOPBACK } from "../../../test/support/loopback-certificate.ts";
import { directTransport } from "./direct-transport.ts";
import { undiciTransport } from "./http-transport.ts";

const pause = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 1));

/** TLS hands out every record that it has decrypted, whether or not anybody is ready for it. */
it("a body over TLS is whole, however slowly it is taken", async () => {
  const whole = Buffer.alloc(3_000_000, "0123456789abcdefg");
  const server = createServer(LOOPBACK, (_, response) => {
    response.setHeader("content-length", whole.byteLength);
    response.end(whole);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const before = process.env["NODE_TLS_REJECT_UNAUTHORIZED"];
  process.env["NODE_TLS_REJECT_UNAUTHORIZED"] = "0";
  onTestFinished(() => {
    if (before === undefined) delete process.env["NODE_TLS_REJECT_UNAUTHORIZED"];
    else process.env["NODE_TLS_REJECT_UNAUTHORIZED"] = before;
    server.closeAllConnections();
    server.close();
  });
  const url = `https://127.0.0.1:${(server.address() as AddressInfo).port}/f`;
  const inner = { ...undiciTransport({ environment: {} }), request: () => Promise.reject(new Error("not direct")) };
  const transport = directTransport({ inner, environment: {}, connections: 4 });
  const get = () => transport.request({ url, method: "GET", headers: {}, signal: new AbortController().signal });
  const slowly: Buffer[] = [];
  for await (const piece of (await get()).body) {
    await pause();
    slowly.push(Buffer.from(piece));
  }
  expect(Buffer.concat(slowly).equals(whole)).toBe(true);
  const response = await get();
  const filled: Buffer[] = [];
  for (let left = whole.byteLength; left > 0; left -= 77_777) {
    const into = new Uint8Array(Math.min(left, 77_777));
    await response.fill?.(into, () => undefined);
    filled.push(Buffer.from(into));
    await pause();
  }
  expect(Buffer.concat(filled).equals(whole)).toBe(true);
  await transport.close();
});
